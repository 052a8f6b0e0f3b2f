"""Small models for tests that only look at them: each is built once per process."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from attnres_cli.model.trunk import LanguageModel
from tests.small import small_model


def shared_model(residual: dict[str, Any], **asked: Any) -> LanguageModel:
    """`small_model(residual, **asked)`, the same object for everybody: not to be changed, not to be given gradients."""
    model, versions = _built(json.dumps((residual, asked)))
    assert versions == _versions(model), "a test has changed a shared model"
    return model


@cache
def _built(wanted: str) -> tuple[LanguageModel, list[int]]:
    residual, asked = json.loads(wanted)
    model = small_model(residual, **asked)
    return model, _versions(model)


def _versions(model: LanguageModel) -> list[int]:
    """One number per parameter that grows with every change in place; -1 where there is a gradient."""
    return [parameter._version if parameter.grad is None else -1 for parameter in model.parameters()]
