"""What a preset's model holds and costs, counted on the meta device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnres_cli.sweep.shapes import Counts

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset
    from attnres_cli.preset.schema import ModelConfig, ResidualConfig

# All that counts follow from; trials of a learning rate, seeds and stages of a tune share one model.
_known: dict[tuple[ModelConfig, ResidualConfig, int], Counts] = {}


def counts_of(preset: Preset, vocab_size: int) -> Counts:
    """Each model is built once. Raises UserError when the scheme does not fit the model."""
    from attnres_cli.model.build import build_model
    from attnres_cli.model.counting import non_embedding_parameters, training_flops_per_token

    key = (preset.model, preset.residual, vocab_size)
    if key not in _known:
        model = build_model(preset, vocab_size, device="meta")
        _known[key] = Counts(
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            non_embedding_parameters=non_embedding_parameters(model),
            training_flops_per_token=training_flops_per_token(model, preset.model.context_tokens),
        )
    return _known[key]
