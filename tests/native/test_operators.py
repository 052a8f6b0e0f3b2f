"""Schema, shapes without data and aliasing of every C++ operator by torch's own checks; torch.compile sees them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.native import build, operators

pytestmark = pytest.mark.skipif(build.load() is not None, reason=str(build.load()))


def rows(seed: int, dtype: torch.dtype = torch.float32, width: int = 11) -> Tensor:
    return torch.randn(5, width, generator=torch.Generator().manual_seed(seed)).to(dtype)


def numbers(seed: int, columns: int = 0) -> Tensor:
    return torch.rand(*((5, columns) if columns else (5,)), generator=torch.Generator().manual_seed(seed)) + 0.5


GAIN = torch.linspace(0.5, 1.5, 11)
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "add_norm": [
        (rows(1), None, GAIN, 1e-6, torch.float32, True),
        (rows(1), rows(2, torch.bfloat16), GAIN, 1e-6, torch.bfloat16, True),
        (rows(1, torch.bfloat16).view(1, 5, 11), None, GAIN, 1e-6, torch.float16, False),
    ],
    "norm_backward": [
        (rows(1), rows(2), True, numbers(3), GAIN, 1e-6, None),
        (rows(1, torch.bfloat16), rows(2), False, numbers(3), GAIN, 1e-6, rows(4)),
    ],
    "site": [
        ([], [], rows(1), None, GAIN, GAIN, 1e-6, torch.float32, None, None, None),
        ([rows(1), rows(2, torch.half)], [numbers(1), numbers(2)], rows(3), rows(4, torch.bfloat16), GAIN, GAIN, 1e-6,
         torch.bfloat16, rows(5), numbers(6), numbers(7)),
        ([rows(1)], [numbers(1)], rows(3), None, GAIN, GAIN, 1e-6, torch.float32, None, None, None),
    ],
    "site_forward": [
        ([rows(1)], [numbers(1)], rows(3), rows(2), GAIN, GAIN, 1e-6, torch.float32, None, None, None),
        ([], [], rows(3).view(1, 5, 11), None, GAIN, GAIN, 1e-6, torch.bfloat16, None, None, None),
    ],
    "look_ahead": [([rows(1), rows(2, torch.bfloat16)], [numbers(1), numbers(2)], torch.stack([GAIN] * 3))],
    "source_backward": [
        ([rows(1), rows(2, torch.bfloat16)], [numbers(1), numbers(2)], [rows(i) for i in range(9)],
         [numbers(i) for i in range(9)], [GAIN] * 9, [numbers(i) for i in range(9)], [numbers(i, 2) for i in range(18)],
         [0] * 9 + [1] * 9, rows(20)),
        ([rows(1)], [numbers(1)], [rows(2)], [numbers(3)], [GAIN], [numbers(4)], [numbers(5, 1)], [0], None),
    ],
    "swiglu": [(rows(1, width=14),), (rows(1, torch.bfloat16, 14),), (rows(1, torch.float64, 2),)],
    "swiglu_backward": [(rows(2, width=7), rows(1, width=14)), (rows(2, torch.half, 7), rows(1, torch.half, 14))],
    "turn_": [(torch.randn(2, 3, 4, 6), torch.randn(3, 3, 2), 3, False)],
}  # fmt: skip


@pytest.mark.parametrize(("name", "arguments"), [(name, each) for name, calls in CALLS.items() for each in calls])
def test_schema_and_shapes(name: str, arguments: tuple[Any, ...]) -> None:
    operator = getattr(torch.ops.attnres, name).default
    torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))


def test_every_operator_is_checked() -> None:
    assert set(CALLS) == {name.removeprefix("attnres::") for name in operators.names()}


def test_torch_compile_sees_them() -> None:
    """Without a graph break, as one call of the graph."""
    torch._dynamo.reset()

    def normalised(stream: Tensor, update: Tensor) -> Tensor:
        return torch.ops.attnres.add_norm(stream, update, GAIN, 1e-6, torch.float32, False)[1] * 2

    compiled = torch.compile(normalised, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(rows(1), rows(2)), normalised(rows(1), rows(2)))
