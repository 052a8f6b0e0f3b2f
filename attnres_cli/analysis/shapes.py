"""Output shapes of the operations in a training step, without PyTorch's own meta kernels.

Many meta kernels are Python programs that take a third of a millisecond each and import the compiler (seconds) on
first use. A walk over a deep model has tens of thousands of operations of a few kinds, whose shapes are one line each.
What is not named here goes to PyTorch; the tests compare every rule with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Size, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "isnan"))
_HARMLESS_KEYWORDS = frozenset(("alpha", "value"))
_RESULT_KEYWORDS = ("out", "grad_input")


class QuickShapes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context in which operations on meta tensors take the rules below instead of PyTorch's meta kernels."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else PyTorch imports its compiler (seconds) to keep it out of the next method

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return output_of(function, args, kwargs or {})


def output_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `function(*args, **kwargs)` returns on meta tensors: the same shapes, dtypes and aliases."""
    rule = _RULES.get(function)
    if rule is not None:
        return rule(*args, **kwargs)
    given = next((kwargs[name] for name in _RESULT_KEYWORDS if name in kwargs), None)
    if given is not None:
        return given
    if function in _IN_PLACE:
        return args[0]
    if torch.Tag.pointwise in function.tags and kwargs.keys() <= _HARMLESS_KEYWORDS:
        return args[0] if function._schema.is_mutable else _pointwise(function.overloadpacket.__name__, args)
    return function(*args, **kwargs)


def _pointwise(name: str, args: Sequence[Any]) -> Tensor:
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    dtype = tensors[0].dtype
    for arg in args:
        if isinstance(arg, (float, complex)) or (isinstance(arg, Tensor) and arg.dtype is not dtype):
            dtype = torch.result_type(tensors[0], arg)
    return _like_layout(_broadcast(tensors), tensors, torch.bool if name in _COMPARISONS else dtype)


def _broadcast(tensors: Sequence[Tensor]) -> Size:
    shape = tensors[0].shape
    for tensor in tensors[1:]:
        if tensor.shape != shape:
            dims = max(len(shape), tensor.dim())
            ours, theirs = ((1,) * (dims - len(sizes)) + tuple(sizes) for sizes in (shape, tensor.shape))
            shape = Size(b if a == 1 else a for a, b in zip(ours, theirs, strict=True))
    return shape


def _like_layout(shape: Size, tensors: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Dense, its dimensions in memory in the order of the first input that has the whole shape."""
    first = next((tensor for tensor in tensors if tensor.shape == shape), None)
    if first is None or first.is_contiguous() or 0 in first.stride():
        return _empty(shape, dtype)
    strides, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda dim: (first.stride(dim), -dim)):
        strides[dim], step = step, step * shape[dim]
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def _empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _like(tensor: Tensor, *_: Any, **__: Any) -> Tensor:
    return _empty(tensor.shape, tensor.dtype)


def _copied(tensor: Tensor, *, memory_format: Any = None, **_: Any) -> Tensor:
    keep = [tensor] if memory_format in (None, torch.preserve_format) else []
    return _like_layout(tensor.shape, keep, tensor.dtype)


def _reduced(tensor: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    gone = {dim % tensor.dim() for dim in (dims or range(tensor.dim()))}
    kept = [1 if dim in gone else size for dim, size in enumerate(tensor.shape) if keepdim or dim not in gone]
    return _empty(kept, dtype or tensor.dtype)


def _largest(tensor: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
    return _reduced(tensor, dims, keepdim)


def _gathered(tensor: Tensor, dim: int, index: Tensor, *_: Any, **__: Any) -> Tensor:
    return _empty(index.shape, tensor.dtype)


def _repeated(tensor: Tensor, times: Sequence[int]) -> Tensor:
    shape = (1,) * (len(times) - tensor.dim()) + tuple(tensor.shape)
    return _empty([size * time for size, time in zip(shape, times, strict=True)], tensor.dtype)


def _stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    shape = list(tensors[0].shape)
    shape.insert(dim % (len(shape) + 1), len(tensors))
    return _empty(shape, tensors[0].dtype)


def _cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    shape = list(tensors[0].shape)
    shape[dim] = sum(tensor.shape[dim] for tensor in tensors)
    return _empty(shape, tensors[0].dtype)


def _padded_gradient(grad: Tensor, sizes: Sequence[int], *_: Any) -> Tensor:
    """The gradient of a slice or a selection: zeros of the whole shape with the part filled in."""
    return _empty(sizes, grad.dtype)


def _cross_entropy(log_probabilities: Tensor, target: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Loss (a mean or a sum) and total weight."""
    return _empty((), log_probabilities.dtype), _empty((), log_probabilities.dtype)


def _cross_entropy_backward(grad: Tensor, log_probabilities: Tensor, *_: Any) -> Tensor:
    return _like(log_probabilities)


def _lookup(weight: Tensor, indices: Tensor, *_: Any) -> Tensor:
    return _empty((*indices.shape, weight.shape[1]), weight.dtype)


def _lookup_backward(grad: Tensor, indices: Tensor, rows: int, *_: Any) -> Tensor:
    return _empty((rows, grad.shape[-1]), grad.dtype)


def _norm(
    tensor: Tensor, order: float = 2, dims: Sequence[int] | None = None, keepdim: bool = False, **_: Any
) -> Tensor:
    return _reduced(tensor, dims, keepdim)


def _layer_norm_backward(
    grad: Tensor, x: Tensor, shape: Any, mean: Tensor, inverse: Tensor, gain: Tensor, *_: Any
) -> tuple[Tensor, Tensor, None]:
    return _like(x), _like(gain), None


def _matrix_vector(matrix: Tensor, vector: Tensor) -> Tensor:
    return _empty(matrix.shape[:1], matrix.dtype)


def _matrix_matrix(left: Tensor, right: Tensor) -> Tensor:
    return _empty((left.shape[0], right.shape[1]), left.dtype)


_IN_PLACE = frozenset((aten.scatter_add_.default, aten.addmm_.default, aten.fill_.Scalar, aten.zero_.default))
_RULES: dict[Any, Callable[..., Any]] = {
    aten.clone.default: _copied,
    aten.empty_like.default: _copied,
    aten.ones_like.default: _copied,
    aten.zeros_like.default: _copied,
    aten.amax.default: _largest,
    aten.gather.default: _gathered,
    aten.mv.default: _matrix_vector,
    aten.mm.default: _matrix_matrix,
    aten.sum.dim_IntList: _reduced,
    aten.sum.default: _reduced,
    aten.mean.dim: _reduced,
    aten.linalg_vector_norm.default: _norm,
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten.repeat.default: _repeated,
    aten.stack.default: _stack,
    aten.cat.default: _cat,
    aten.slice_backward.default: _padded_gradient,
    aten.select_backward.default: _padded_gradient,
    aten._softmax.default: _like,
    aten._softmax_backward_data.default: _like,
    aten._log_softmax.default: _like,
    aten._log_softmax_backward_data.default: _like,
    aten.nll_loss_forward.default: _cross_entropy,
    aten.nll_loss_backward.default: _cross_entropy_backward,
    aten.embedding.default: _lookup,
    aten.embedding_dense_backward.default: _lookup_backward,
}
