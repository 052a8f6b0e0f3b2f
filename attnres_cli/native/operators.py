"""The C++ operators' signatures, and their shapes for tensors without data (meta device, torch.compile).

Empty results stand for "the input serves" or "not wanted"; which, the C++ source says beside each operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnres_cli.native import build

_LIBRARY = torch.library.Library("attnres", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "add_norm(Tensor stream, Tensor? update, Tensor gain, float epsilon, ScalarType dtype, bool backward)"
    " -> (Tensor, Tensor, Tensor, bool)"
)
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "norm_backward(Tensor grad, Tensor kept, bool kept_is_output, Tensor inverse_rms, Tensor gain, float epsilon,"
    " Tensor? carry) -> (Tensor, Tensor, Tensor)"
)
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "site(Tensor[] values, Tensor[] scales, Tensor newest, Tensor? update, Tensor query, Tensor gain, float epsilon,"
    " ScalarType dtype, Tensor? ahead_mixed, Tensor? ahead_peak, Tensor? ahead_total)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "site_forward(Tensor[] values, Tensor[] scales, Tensor newest, Tensor? update, Tensor query, Tensor gain,"
    " float epsilon, ScalarType dtype, Tensor? ahead_mixed, Tensor? ahead_peak, Tensor? ahead_total)"
    " -> (Tensor, Tensor, Tensor)"
)
_LIBRARY.define("look_ahead(Tensor[] values, Tensor[] scales, Tensor queries) -> (Tensor, Tensor, Tensor, Tensor)")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "source_backward(Tensor[] values, Tensor[] scales, Tensor[] grads, Tensor[] dots, Tensor[] queries,"
    " Tensor[] log_totals, Tensor[] logits, int[] columns, Tensor? carry) -> (Tensor, Tensor)"
)
_LIBRARY.define("swiglu(Tensor gate_up) -> Tensor")  # type: ignore[no-untyped-call]
_LIBRARY.define("swiglu_backward(Tensor grad, Tensor gate_up) -> Tensor")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "turn_(Tensor(a!) heads, Tensor turns, int turned, bool back) -> ()"
)


def _add_norm(
    stream: Tensor, update: Tensor | None, gain: Tensor, epsilon: float, dtype: torch.dtype, backward: bool
) -> tuple[Tensor, Tensor, Tensor, bool]:
    fresh = update is not None or stream.dtype != gain.dtype
    return (
        gain.new_empty(stream.shape if fresh else 0),
        gain.new_empty(stream.shape, dtype=dtype),
        gain.new_empty(stream.numel() // stream.shape[-1] if backward else 0),
        backward,
    )


def _norm_backward(
    grad: Tensor, kept: Tensor, kept_is_output: bool, inverse_rms: Tensor, gain: Tensor, epsilon: float,
    carry: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return gain.new_empty(grad.shape), gain.new_empty(grad.shape[0]), gain.new_empty(gain.shape)


def _site(
    values: Sequence[Tensor], scales: Sequence[Tensor], newest: Tensor, update: Tensor | None, query: Tensor,
    gain: Tensor, epsilon: float, dtype: torch.dtype, ahead_mixed: Tensor | None, ahead_peak: Tensor | None,
    ahead_total: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    tokens = newest.numel() // newest.shape[-1]
    given = values, scales, newest, update, query, gain, epsilon, dtype, ahead_mixed, ahead_peak, ahead_total
    return (
        *_site_forward(*given),
        gain.new_empty(0),
        gain.new_empty(tokens),
        gain.new_empty(tokens, len(values) + 1),
        gain.new_empty(tokens),
    )


def _site_forward(
    values: Sequence[Tensor], scales: Sequence[Tensor], newest: Tensor, update: Tensor | None, query: Tensor,
    gain: Tensor, epsilon: float, dtype: torch.dtype, ahead_mixed: Tensor | None, ahead_peak: Tensor | None,
    ahead_total: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    return (
        gain.new_empty(0 if update is None else newest.shape),
        gain.new_empty(newest.numel() // newest.shape[-1]),
        gain.new_empty(newest.shape, dtype=dtype),
    )


def _look_ahead(values: Sequence[Tensor], scales: Sequence[Tensor], queries: Tensor) -> tuple[Tensor, ...]:
    (group, width), tokens = queries.shape, values[0].numel() // queries.shape[1]
    return (
        queries.new_empty(group, tokens, width),
        queries.new_empty(group, tokens),
        queries.new_empty(group, tokens),
        queries.new_empty(group, tokens, len(values)),
    )


def _source_backward(
    values: Sequence[Tensor], scales: Sequence[Tensor], grads: Sequence[Tensor], dots: Sequence[Tensor],
    queries: Sequence[Tensor], log_totals: Sequence[Tensor], logits: Sequence[Tensor], columns: Sequence[int],
    carry: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    (tokens, width), like = values[0].shape, scales[0]
    return like.new_empty(len(values), tokens, width), like.new_empty(len(grads), width)


def _swiglu(gate_up: Tensor) -> Tensor:
    return gate_up.new_empty(gate_up.shape[0], gate_up.shape[1] // 2)


def _swiglu_backward(grad: Tensor, gate_up: Tensor) -> Tensor:
    return gate_up.new_empty(gate_up.shape)


def _turn(heads: Tensor, turns: Tensor, turned: int, back: bool) -> None:
    pass


_SHAPES: dict[str, Callable[..., Any]] = {
    "add_norm": _add_norm,
    "norm_backward": _norm_backward,
    "site": _site,
    "site_forward": _site_forward,
    "look_ahead": _look_ahead,
    "source_backward": _source_backward,
    "swiglu": _swiglu,
    "swiglu_backward": _swiglu_backward,
    "turn_": _turn,
}
for _name, _shapes in _SHAPES.items():
    _LIBRARY.impl(_name, _shapes, "Meta")  # type: ignore[no-untyped-call]


def names() -> tuple[str, ...]:
    return tuple(_SHAPES)


def usable(tensor: Tensor) -> bool:
    """Whether the operators can take `tensor` now: on the CPU once they are built (`build.load`), on the meta device
    where they could be; never under torch.compile, which fuses such things itself."""
    if torch.compiler.is_compiling():
        return False
    if tensor.is_meta:
        return build.find_compiler() is not None
    return tensor.device.type == "cpu" and build.loaded()
