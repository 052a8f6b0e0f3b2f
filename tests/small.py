"""Presets and models small enough to check by hand, built through the same doors as everything else."""

from __future__ import annotations

from typing import Any

import torch

from attnres_cli.model.build import build_model
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset, preset_from_dict
from attnres_cli.residual.registry import scheme_keys, scheme_names

VOCAB_SIZE = 31
# One configuration per scheme and per way of cutting blocks; conformance tests run over all of them.
RESIDUALS: dict[str, dict[str, Any]] = {
    "prenorm": {"scheme": "prenorm"},
    "full": {"scheme": "attnres-full"},
    "full without gain": {"scheme": "attnres-full", "gain": False},
    "full by the reference": {"scheme": "attnres-full", "backend": "reference"},
    "blocks of 1": {"scheme": "attnres-block", "block_sublayers": 1},
    "blocks of 3": {"scheme": "attnres-block", "block_sublayers": 3},
    "3 blocks": {"scheme": "attnres-block", "num_blocks": 3},
    "1 block": {"scheme": "attnres-block", "num_blocks": 1},
}
# Further forms of schemes that have several.
FORMS: dict[str, dict[str, Any]] = {
    "hybridnorm, prenorm first": {"scheme": "hybridnorm", "first_block": "pre-norm"},
    "highway by vectors": {"scheme": "highway", "gate": "vector"},
    "highway by the stream": {"scheme": "highway", "gate_input": "stream"},
    "x0-lambda, normalised": {"scheme": "x0-lambda", "normalise_embedding": True},
    "hyper-connections, static": {"scheme": "hyper-connections", "dynamic": False},
    "multi-gate of embeddings": {"scheme": "multi-gate", "seeding": "embedding"},
    "denseformer, dilated": {"scheme": "denseformer", "dilation": 2},
    "value-residual, learned": {"scheme": "value-residual", "kind": "learned"},
    "value-residual, single": {"scheme": "value-residual", "kind": "single"},
    "laurel pa": {"scheme": "laurel", "variant": "pa"},
    "lime, own keys": {"scheme": "lime", "initial_others": "zero"},
    "unet, shut": {"scheme": "unet", "initial_weight": 0.0},
    "value-residual, own values": {
        "scheme": "value-residual",
        "kind": "learned",
        "first_weight": 0.0,
        "own_weight": 1.0,
    },
    "rezero, open": {"scheme": "rezero", "initial_weight": 1.0},
    "layerscale, open": {"scheme": "layerscale", "initial_scale": 1.0},
    "hyper-connections, scaled": {"scheme": "hyper-connections", "scale_outputs": True},
    "haares, duplicates": {"scheme": "haares", "block_sublayers": 3, "detail": "duplicate"},
    "dual-attnres, softmax-1": {"scheme": "dual-attnres", "normaliser": "softmax-1"},
    "4 heads of gates": {"scheme": "attnres-full", "depth_heads": 4, "normaliser": "sigmoid"},
    "siamesenorm, post": {"scheme": "siamesenorm", "final": "post"},
    "sandwich with embedding norm": {"scheme": "sandwich", "embedding_norm": True},
}
# One knob of attention over depth each; put on one of its schemes.
KNOBS: dict[str, dict[str, Any]] = {
    "no key norm": {"key_norm": False},
    "no gain": {"gain": False},
    "1/sqrt(d)": {"logit_scale": "1/sqrt(d)"},
    "temperature": {"temperature": 0.25},
    "sigmoid": {"normaliser": "sigmoid"},
    "normalised sigmoid": {"normaliser": "normalised-sigmoid"},
    "softmax-1, 4 heads": {"normaliser": "softmax-1", "depth_heads": 4},
    "sparsemax": {"normaliser": "sparsemax"},
    "input query": {"query": "input"},
    "scalars": {"query": "scalars"},
    "raw scalars": {"query": "scalars", "normaliser": "raw"},
    "4 heads": {"depth_heads": 4},
    "projected keys": {"key_rank": 4},
    "sliced keys": {"key_rank": 4, "key_projection": "sliced"},
    "window": {"window": 2},
    "embedding no source": {"embedding_source": False},
    "no final mix": {"final_mix": False},
    "random queries": {"query_init_std": 0.5},
    "frozen queries": {"train_queries": False},
    "query learning rate": {"query_lr_factor": 3.0},
}
# Schemes with blocks have blocks of several sublayers, too; by default a model this small has blocks of one.
BLOCKS: dict[str, dict[str, Any]] = {
    f"{name}, blocks of 3": {"scheme": name, "block_sublayers": 3}
    for name in scheme_names()
    if "block_sublayers" in scheme_keys(name)
}
SCHEMES: dict[str, dict[str, Any]] = {name: {"scheme": name} for name in scheme_names()} | FORMS | BLOCKS
WITH_KNOBS: dict[str, dict[str, Any]] = {
    name: {"scheme": "attnres-block", "block_sublayers": 3, **keys} for name, keys in KNOBS.items()
}
# Every configuration that conformance tests run over.
EVERY = SCHEMES | RESIDUALS | WITH_KNOBS


def small_preset(residual: dict[str, Any] | None = None, **changes: Any) -> Preset:
    """4 transformer blocks (8 sublayers) of width 16 on a synthetic corpus; changes are "section.key" pairs."""
    values: dict[str, dict[str, Any]] = {
        "model": {"transformer_blocks": 4, "d_model": 16, "num_heads": 2, "d_ff": 24, "context_tokens": 16},
        "residual": residual or {"scheme": "prenorm"},
        "data": {"corpus": "synthetic", "task": "copy", "length": 7, "symbols": 28, "documents": 400},
        "train": {
            "horizon_tokens": 20 * 64, "tokens_per_step": 64, "micro_batch_sequences": 2, "learning_rate": 1e-2,
            "log_every_steps": 1,
        },
        "eval": {"tokens": 160},
        "observe": {"probe_sequences": 2},
    }  # fmt: skip
    for key, value in changes.items():
        section, name = key.split(".")
        values[section][name] = value
    return preset_from_dict(values, "small")


def small_model(
    residual: dict[str, Any] | None = None, *, dtype: torch.dtype = torch.float64, stir: float = 0.0, **changes: Any
) -> LanguageModel:
    """The small preset's model; `stir` adds normal noise of this size to the residual scheme's own parameters."""
    model = build_model(small_preset(residual, **changes), VOCAB_SIZE, dtype=dtype)
    if stir:
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in model.residual.parameters():
                parameter += stir * torch.randn(parameter.shape, generator=generator, dtype=dtype)
    return model


def tokens_and_targets(sequences: int = 2, length: int = 12, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Random token ids and random targets, [sequences, length]."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, VOCAB_SIZE, (2, sequences, length), generator=generator)
    return drawn[0], drawn[1]
