"""Small models for tests that only look at them: each is built once per process."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from attnres_cli.model.trunk import LanguageModel
from tests.small import small_model


def shared_model(residual: dict[str, Any], **asked: Any) -> LanguageModel:
    """`small_model(residual, **asked)`, the same object for everybody: not to be changed, not to be given gradients."""
    model, state = _built(json.dumps((residual, asked)))
    assert state == _state(model), "a test has changed a shared model"
    return model


@cache
def _built(wanted: str) -> tuple[LanguageModel, list[tuple[object, ...]]]:
    residual, asked = json.loads(wanted)
    model = small_model(residual, **asked)
    return model, _state(model)


def _state(model: LanguageModel) -> list[tuple[object, ...]]:
    """What a test could leave changed, per parameter, values included."""
    return [
        (model.training, each.requires_grad, each.grad is None, each._version, float(each.detach().sum()))
        for each in model.parameters()
    ]
