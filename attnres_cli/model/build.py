"""From a preset to an initialised model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from attnres_cli.model.initialisation import initialise
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.native import build as native_build
from attnres_cli.native.allocator import keep_freed_memory
from attnres_cli.preset.schema import ModelConfig
from attnres_cli.residual.protocol import Geometry
from attnres_cli.residual.registry import build_residual

if TYPE_CHECKING:
    from attnres_cli.preset.reading import Preset


def build_model(
    preset: Preset,
    vocab_size: int,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    native: bool = True,
) -> LanguageModel:
    """The preset's model with `vocab_size` tokens, initialised from `preset.train.seed`.

    device "meta" allocates nothing. dtype is that of the weights: float32 for training, float64 in tests. native False:
    plain PyTorch computes, and nothing is compiled for it; for a look at a model that is not trained.
    Raises UserError when the residual scheme does not fit the depth.
    """
    config = preset.model
    with torch.device(device), _WithoutInitialValues():
        model = LanguageModel(config, build_residual(preset.residual, geometry_of(config)), vocab_size)
    if any(parameter.dtype != dtype for parameter in model.parameters()):
        model.to(dtype)
    if native:
        if torch.device(device).type == "cpu":
            keep_freed_memory()
            native_build.load()  # where that fails, plain PyTorch does the same; `attnres doctor` says why
        model.computed_by = model.residual.prepare(torch.device(device))
    model.recompute_segments = preset.train.checkpoint_activations == "block"
    initialise(model, preset.train.seed)
    return model


def geometry_of(config: ModelConfig) -> Geometry:
    """What a residual scheme may know of this trunk."""
    return Geometry(
        d_model=config.d_model,
        num_sublayers=config.num_sublayers,
        norm_epsilon=config.norm_epsilon,
        num_heads=config.num_heads,
        num_kv_heads=config.resolved_num_kv_heads,
        head_dim=config.resolved_head_dim,
    )


class _WithoutInitialValues(TorchFunctionMode):
    """Skips the initialisers that PyTorch's modules call when they are made.

    Their values would be replaced anyway, and on the meta device they import the compiler, which takes seconds.
    """

    def __torch_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if getattr(function, "__module__", None) == "torch.nn.init":
            return None
        return function(*args, **(kwargs or {}))
