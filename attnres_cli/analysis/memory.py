"""Peak memory of one training step, counted by walking a meta-device forward and backward pass.

Nothing is guessed from a formula: every tensor that PyTorch would allocate is entered in a ledger when it appears and
struck out when the last reference to its storage goes, as an allocator would see it. What the ledger cannot see are
scratch buffers inside one kernel and the allocator's rounding; the tests hold it against a measured CPU peak.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnres_cli.analysis.kernels import real_kernels
from attnres_cli.analysis.shapes import QuickShapes
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.parameters import Role


@dataclass(frozen=True)
class MemoryEstimate:
    """What is held at the moment of the peak, in bytes; the parts sum to `total_bytes`.

    gradients_bytes: those that exist at that moment: all of them while micro-batches accumulate, else the few that the
    backward pass has reached. activations_bytes: everything else of the pass but the logits. logits_bytes: tensors as
    wide as the vocabulary, with their gradients.
    """

    weights_bytes: int
    optimiser_bytes: int
    gradients_bytes: int
    activations_bytes: int
    logits_bytes: int

    @property
    def total_bytes(self) -> int:
        return sum(self.parts().values())

    def parts(self) -> dict[str, int]:
        return {
            "weights": self.weights_bytes,
            "optimiser state": self.optimiser_bytes,
            "gradients": self.gradients_bytes,
            "activations": self.activations_bytes,
            "logits": self.logits_bytes,
        }


def estimate_memory(
    model: LanguageModel,
    *,
    micro_batch_sequences: int,
    context_tokens: int,
    accumulation_steps: int = 1,
    optimizer: str = "adamw",
    autocast_dtype: torch.dtype | None = None,
) -> MemoryEstimate:
    """Peak of one optimiser step of `model`, eager.

    model: on the meta device; its gradients are dropped. Accumulation matters only through gradients that are there
    already when a micro-batch begins. optimizer, autocast_dtype: as in the preset, None for full precision.
    """
    assert next(model.parameters()).is_meta, "the walk allocates what it counts: build the model on the meta device"
    gradients = sum(_bytes(parameter) for parameter in model.parameters())
    weights = gradients + sum(_bytes(buffer) for buffer in model.buffers())
    optimiser = optimiser_state_bytes(model, optimizer)
    ledger = _walk(model, micro_batch_sequences, context_tokens, accumulation_steps > 1, autocast_dtype)
    held = ledger.at_peak()
    before = gradients if accumulation_steps > 1 else 0
    if sum(held.values()) + before <= gradients:  # the optimiser's step, when all gradients are there and nothing else
        return MemoryEstimate(weights, optimiser, gradients, 0, 0)
    return MemoryEstimate(weights, optimiser, held["gradients"] + before, held["activations"], held["logits"])


def optimiser_state_bytes(model: LanguageModel, optimizer: str) -> int:
    """AdamW keeps two moments of every parameter; Muon keeps one of each matrix."""
    groups = model.parameter_groups()
    return sum(
        _bytes(parameter) * (1 if optimizer == "muon" and groups[name].role is Role.MATRIX else 2)
        for name, parameter in model.named_parameters()
    )


def _walk(
    model: LanguageModel, sequences: int, context_tokens: int, accumulating: bool, autocast_dtype: torch.dtype | None
) -> _Ledger:
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.grad = torch.empty(parameter.shape, dtype=parameter.dtype, device="meta") if accumulating else None
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    ledger = _Ledger(known=[*parameters, *model.buffers(), *gradients], vocab_size=model.vocab_size)
    with ledger:
        tokens = torch.empty(sequences, context_tokens, dtype=torch.int64, device="meta")
        targets = torch.empty_like(tokens)
        autocast = nullcontext() if autocast_dtype is None else torch.autocast("cpu", dtype=autocast_dtype)
        with autocast, real_kernels(autocast_dtype=autocast_dtype):
            # What checkpointing computes again is computed in the backward pass, out of this context.
            model.checkpoint_options = {"context_fn": partial(_contexts, autocast_dtype)}
            loss = model.loss(tokens, targets)
        loss.backward()  # type: ignore[no-untyped-call]
    if not accumulating:
        ledger.label((p.grad for p in parameters if p.grad is not None), "gradients")
    for parameter in parameters:
        parameter.grad = None
    return ledger


def _contexts(autocast_dtype: torch.dtype | None) -> tuple[Any, Any]:
    """Of a checkpointed segment's first and second computation."""
    return nullcontext(), real_kernels(autocast_dtype=autocast_dtype)


class _Ledger(QuickShapes):  # type: ignore[no-untyped-call]
    """Every storage that appears while the mode is on, with its size, its birth and its end.

    Views share a storage and count once; storages of `known` tensors are not entered.
    """

    def __init__(self, known: Iterable[Tensor], vocab_size: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._vocab_size = vocab_size
        self._live: dict[int, int] = {tensor.untyped_storage()._cdata: -1 for tensor in known}
        self._watches: dict[int, weakref.ref[Any]] = {}
        self._sizes: list[int] = []
        self._kinds: list[str] = []
        self._events: list[tuple[int, int]] = []  # (entry, +1 born / -1 gone), in time

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = super().__torch_dispatch__(function, types, args, kwargs)
        for tensor in _tensors(result):
            self._enter(tensor)
        return result

    def _enter(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live:
            return
        entry = len(self._sizes)
        self._live[key] = entry
        self._sizes.append(storage.nbytes())
        self._kinds.append("logits" if tensor.shape[-1:] == (self._vocab_size,) else "activations")
        self._events.append((entry, 1))

        def gone(_: Any) -> None:
            self._events.append((entry, -1))
            del self._live[key], self._watches[entry]

        self._watches[entry] = weakref.ref(storage, gone)

    def label(self, tensors: Iterable[Tensor], kind: str) -> None:
        """Call the entries of `tensors`, which must still be alive, `kind`."""
        for tensor in tensors:
            self._kinds[self._live[tensor.untyped_storage()._cdata]] = kind

    def at_peak(self) -> dict[str, int]:
        """Bytes by kind at the moment when their sum was largest."""
        total = peak = moment = 0
        for position, (entry, change) in enumerate(self._events):
            total += change * self._sizes[entry]
            if total > peak:
                peak, moment = total, position + 1
        by_kind = dict.fromkeys(("gradients", "activations", "logits"), 0)
        for entry, change in self._events[:moment]:
            by_kind[self._kinds[entry]] += change * self._sizes[entry]
        return by_kind


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for item in result:
            yield from _tensors(item)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
