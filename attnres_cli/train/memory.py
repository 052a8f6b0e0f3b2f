"""A model that does not fit, whatever the micro-batch: its weights, and what is kept beside every one of them."""

from __future__ import annotations

from attnres_cli.analysis.memory import optimiser_state_bytes
from attnres_cli.errors import ExitCode, UserError
from attnres_cli.model.trunk import LanguageModel


class OptimiserOutOfMemory(MemoryError):
    """The optimiser had no memory for its step, when nothing of a micro-batch is left."""


def weights_do_not_fit(model: LanguageModel, *, where: str, optimizer: str | None = None) -> UserError:
    """The fault of a model that cannot be built; with `optimizer`: one that can, and leaves no room for its state.

    model: may be one on the meta device, which takes no memory.
    """
    weights_bytes = sum(each.numel() * each.element_size() for each in model.parameters())
    what = f"the weights of this model, {_size(weights_bytes)}, do not fit"
    if optimizer is not None:
        state = _size(optimiser_state_bytes(model, optimizer))
        what = (
            f"the weights of this model, {_size(weights_bytes)}, their gradients, as much again, "
            f"and the state of {optimizer}, {state}, do not fit"
        )
    return UserError(
        f"Out of memory: {what}.",
        where=where,
        hint="use a smaller model; `attnres plan` estimates the memory beforehand",
        exit_code=ExitCode.OUT_OF_MEMORY,
    )


def _size(count_bytes: int) -> str:
    return f"{count_bytes / 2**30:,.1f} GiB" if count_bytes >= 2**27 else f"{count_bytes / 2**20:,.1f} MiB"
