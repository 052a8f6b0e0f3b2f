"""Every shape rule against PyTorch's own meta kernel, over all operations of real training steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnres_cli.analysis.kernels import real_kernels
from attnres_cli.analysis.shapes import QuickShapes, output_of
from attnres_cli.model.build import build_model
from tests.small import RESIDUALS, VOCAB_SIZE, small_preset

aten = torch.ops.aten


class Both(TorchDispatchMode):
    """Runs every operation both ways and compares what comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        quick = output_of(function, args, kwargs)
        theirs = function(*args, **kwargs)
        assert described(quick) == described(theirs), function
        self.compared.add(str(function))
        return theirs


def described(result: Any) -> Any:
    if isinstance(result, Tensor):
        return tuple(result.shape), result.dtype, result.device.type
    if isinstance(result, (tuple, list)):
        return [described(item) for item in result]
    return result


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
@pytest.mark.parametrize("residual", list(RESIDUALS))
def test_rules_agree_with_pytorch(residual: str, precision: torch.dtype | None) -> None:
    preset = small_preset(RESIDUALS[residual], **{"model.num_kv_heads": 1})
    model = build_model(preset, VOCAB_SIZE, device="meta")
    tokens = torch.empty(2, 16, dtype=torch.int64, device="meta")
    both = Both()
    with both:
        with real_kernels(autocast_dtype=precision):
            loss = model.loss(tokens, tokens)
        loss.backward()
    assert {"aten.mul.Tensor", "aten.mm.default", "aten.embedding_dense_backward.default"} <= both.compared
    assert all(parameter.grad is not None or "sites.0" in name for name, parameter in model.named_parameters())


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (aten.add.Tensor, (meta(2, 1, 3), meta(4, 1))),
        (aten.mul.Tensor, (meta(2, 3, dtype=torch.bfloat16), meta(3))),
        (aten.mul.Tensor, (meta(2, 3, dtype=torch.int64), 0.5)),
        (aten.mul.Tensor, (meta(2, 3, dtype=torch.complex64), meta(3))),
        (aten.ge.Scalar, (meta(2, 3), 0)),
        (aten.sum.dim_IntList, (meta(2, 3, 4), [0, -1])),
        (aten.sum.dim_IntList, (meta(2, 3, 4), [1], True)),
        (aten.sum.default, (meta(2, 3, 4),)),
        (aten.mean.dim, (meta(2, 3, 4), [-1], True)),
        (aten.stack.default, ([meta(2, 3)] * 5, -1)),
        (aten.cat.default, ([meta(2, 3), meta(2, 4)], -1)),
        (aten.clone.default, (meta(2, 3).t(),)),
        (aten.amax.default, (meta(2, 3, 4), [1], True)),
        (aten.gather.default, (meta(5, 7), 1, meta(5, 1, dtype=torch.int64))),
        (aten.repeat.default, (meta(2, 3), [4, 1, 5])),
        (aten.zeros_like.default, (meta(2, 3, dtype=torch.bfloat16),)),
        (aten.mv.default, (meta(4, 3), meta(3))),
        (aten.slice_backward.default, (meta(2, 3), [2, 8], 1, 0, 3, 1)),
        (aten.select_backward.default, (meta(3), [5, 3], 0, 2)),
    ],
    ids=str,
)
def test_single_rules(function: Any, args: tuple[Any, ...]) -> None:
    assert described(output_of(function, args, {})) == described(function(*args))


def test_layout_follows_the_input() -> None:
    turned = meta(2, 3, 4).transpose(0, 2)
    assert output_of(aten.mul.Tensor, (turned, 2.0), {}).stride() == turned.stride()
    gap = meta(2, 3, 8)[..., :4].transpose(0, 1)
    assert output_of(aten.clone.default, (gap,), {}).stride() == torch.empty_like(gap).stride()


def test_in_place_operations_return_their_tensor() -> None:
    x = meta(2, 3)
    with QuickShapes():
        assert x.mul_(2.0) is x
