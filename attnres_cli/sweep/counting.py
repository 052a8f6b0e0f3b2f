"""What a preset's model holds and costs, counted on the meta device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnres_cli.sweep.shapes import Counts

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset


def counts_of(preset: Preset, vocab_size: int) -> Counts:
    """Raises UserError when the scheme does not fit the model."""
    from attnres_cli.model.build import build_model
    from attnres_cli.model.counting import non_embedding_parameters, training_flops_per_token

    model = build_model(preset, vocab_size, device="meta")
    return Counts(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        non_embedding_parameters=non_embedding_parameters(model),
        training_flops_per_token=training_flops_per_token(model, preset.model.context_tokens),
    )
