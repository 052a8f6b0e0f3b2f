"""Counts follow from the model, its scheme and the vocabulary, and from nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from attnres_cli.model.counting import non_embedding_parameters, training_flops_per_token
from attnres_cli.sweep.counting import counts_of
from tests.small import RESIDUALS, VOCAB_SIZE, small_model, small_preset


@pytest.mark.parametrize("residual", RESIDUALS)
@pytest.mark.parametrize("changes", [{}, {"model.transformer_blocks": 3}, {"model.d_ff": 40}])
def test_counts_are_those_of_the_model(residual: str, changes: dict[str, Any]) -> None:
    found = counts_of(small_preset(RESIDUALS[residual], **changes), VOCAB_SIZE)
    model = small_model(RESIDUALS[residual], **changes)
    assert found.parameters == sum(each.numel() for each in model.parameters())
    assert found.non_embedding_parameters == non_embedding_parameters(model)
    assert found.training_flops_per_token == training_flops_per_token(model, model.config.context_tokens)
    other_rate = small_preset(RESIDUALS[residual], **changes, **{"train.learning_rate": 0.5, "train.seed": 3})
    assert counts_of(other_rate, VOCAB_SIZE) == found


def test_a_larger_vocabulary_is_another_model() -> None:
    few, many = (counts_of(small_preset(), size) for size in (VOCAB_SIZE, 2 * VOCAB_SIZE))
    assert many.parameters > few.parameters
    assert many.training_flops_per_token > few.training_flops_per_token
    assert many.non_embedding_parameters == few.non_embedding_parameters
