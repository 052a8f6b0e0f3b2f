"""The Triton kernels go through the whole compiler for GPUs that are not here: what its interpreter lets pass (a
variable of two types, a scalar where a tensor has to be), the compiler may refuse.

Run by test_triton.py in a process of its own, in which no GPU is looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from attnres_cli.residual import triton_kernels
from attnres_cli.residual.operator import Consumer
from attnres_cli.residual.ops import triton

KERNELS = triton.kernels
NAMES = [name for name in vars(triton_kernels) if name.endswith("_kernel")]


class GpuElsewhere:
    """What Triton asks its driver before it compiles."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return self.capability

    def get_current_stream(self, device: int) -> int:
        return 0


class CompileOnly:
    """A kernel that is compiled for its arguments instead of launched."""

    def __init__(self, name: str, kernel: Any, compiled: dict[str, list[Any]]) -> None:
        self.name, self.kernel, self.compiled = name, kernel, compiled

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def compile_for(*arguments: Any, **constants: Any) -> None:
            self.compiled.setdefault(self.name, []).append(
                self.kernel.warmup(*arguments, grid=grid, **constants).asm["ptx"]
            )

        return compile_for


@pytest.fixture
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Machine code by the name of the kernel, filled as kernels are called."""
    found: dict[str, list[Any]] = {}
    for name in NAMES:
        monkeypatch.setattr(triton_kernels, name, CompileOnly(name, getattr(triton_kernels, name), found))
    driver.set_active(GpuElsewhere(request.param))  # type: ignore[arg-type]
    return found


def call_everything(width: int, narrow: torch.dtype) -> None:
    """Every kernel with and without its optional parts; the numbers never matter."""

    def rows(dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(16, width, dtype=dtype)

    gain, query, scale = torch.ones(width), torch.zeros(width), torch.ones(16)
    finished = [rows(), rows(narrow)], [scale, scale]
    ahead = KERNELS.look_ahead(*finished, torch.zeros(4, width)).query(0)
    KERNELS.site(*finished, rows(narrow), None, query, gain, 1e-12, narrow, None, False)
    site = KERNELS.site([], [], rows(), rows(narrow), query, gain, 1e-12, narrow, ahead, True)
    KERNELS.add_norm(rows(narrow), None, gain, 1e-12, torch.float32, True)
    _, normed = KERNELS.add_norm(rows(), rows(narrow), gain, 1e-12, narrow, True)
    consumers = [Consumer(rows(), scale, query, site.log_total, site.logits, 0)] * 2
    for carry in (rows(), None):
        KERNELS.norm_backward(rows(narrow), normed, gain, 1e-12, carry)
        KERNELS.source_backward([rows(narrow)], [scale], [consumers], carry)


@pytest.mark.parametrize(
    ("compiled", "width", "narrow"), [(80, 96, torch.bfloat16), (90, 33, torch.float16)], indirect=["compiled"]
)
def test_every_kernel_compiles(compiled: dict[str, list[str]], width: int, narrow: torch.dtype) -> None:
    call_everything(width, narrow)
    assert set(compiled) == set(NAMES)


@pytest.mark.parametrize("compiled", [90], indirect=True)
def test_one_compilation_serves_any_depth(compiled: dict[str, list[str]]) -> None:
    for count in (1, 2, 16, 17):
        finished = [torch.zeros(2, 32)] * count, [torch.ones(2)] * count
        KERNELS.site(
            *finished, torch.zeros(2, 32), None, torch.zeros(32), torch.ones(32), 1e-12, torch.float32, None, True
        )
    assert len(compiled["site_kernel"]) == 4
    assert len(set(compiled["site_kernel"])) == 1


@pytest.mark.parametrize("compiled", [90], indirect=True)
def test_rows_behind_an_address_are_read_by_the_vector(compiled: dict[str, list[str]]) -> None:
    """Four numbers at once: without the hint that an address is a multiple of 16, each would be loaded singly."""
    scale = torch.ones(16)
    value = torch.zeros(16, 1024)
    KERNELS.source_backward([value], [scale], [[Consumer(value, scale, value[0], scale, scale[:, None], 0)]], None)
    loads = [line for line in compiled["source_backward_kernel"][0].splitlines() if "ld.global" in line]
    assert sum(".v4." in line or ".v2.b64" in line for line in loads) >= 6  # two per row of source, gradient and query
