"""Triton kernels for CUDA (residual/triton_kernels.py). The functional form is that of `torch`, which the compiler
fuses best.

Without a GPU the kernels run in Triton's interpreter, slowly: TRITON_INTERPRET=1 in the environment of the process.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from attnres_cli.residual.operator import Ahead, Consumer, Normed, Site
from attnres_cli.residual.ops.torch import inverse_rms as inverse_rms
from attnres_cli.residual.ops.torch import mix as mix
from attnres_cli.residual.ops.torch import weights as weights
from attnres_cli.residual.precision import wide

NAME = "triton"
OLDEST_CAPABILITY = (8, 0)  # of NVIDIA's chips, as Triton itself says


def unusable(device: torch.device) -> str | None:
    interpreted = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y")
    if device.type == "meta":
        return None
    if device.type != "cuda" and not interpreted:
        return f"it computes on CUDA, not on {device.type}"
    if device.type == "cuda" and interpreted:
        return "Triton's interpreter is on, and it computes on the CPU"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if device.type == "cuda" and not torch.cuda.is_available():
        return "there is no GPU that torch can use"
    if device.type == "cuda" and torch.version.hip is None:
        major, minor = torch.cuda.get_device_capability(device)
        if (major, minor) < OLDEST_CAPABILITY:
            return f"the GPU's compute capability is {major}.{minor}, and Triton needs 8.0"
    return _failure(device)


def _failure(device: torch.device) -> str | None:
    """Why not even a small kernel runs: Triton itself needs a C compiler, Python's headers and a driver that fits."""
    try:
        one = torch.ones(1, 16, device=device)
        _, normed = kernels.add_norm(one, None, one[0], 0.0, torch.float32, False)
        normed.output.tolist()  # waits for it
    except Exception as error:
        return f"a small Triton kernel fails ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
    return None


class TritonKernels:
    """`residual.operator.Kernels`. Sources are float32, bfloat16 or float16, mixed at will; queries are float32.

    The input of a norm is what is kept for its backward pass, never the output: to see whether the gain can be divided
    by, the host would have to wait for the GPU at every site.
    """

    any_shape = False
    two_phase = True
    groups_sources = False
    dtypes = frozenset({torch.float32})

    def site(
        self,
        values: Sequence[Tensor],
        scales: Sequence[Tensor],
        newest: Tensor,
        update: Tensor | None,
        query: Tensor,
        gain: Tensor,
        epsilon: float,
        dtype: torch.dtype,
        ahead: Ahead | None,
        backward: bool,
    ) -> Site:
        tokens, width = newest.shape
        value = newest if update is None else _like(newest)
        alone = not values and ahead is None
        mixture = value if alone else _like(newest) if backward else None
        output = torch.empty_like(newest, dtype=dtype)
        scale, normed_scale, log_total = (newest.new_empty(tokens, dtype=torch.float32) for _ in range(3))
        logits = newest.new_empty(tokens, len(values) + 1, dtype=torch.float32)
        table, aligned = _source_table(values, scales, newest.device)
        _launch(
            "site_kernel",
            (tokens,),
            [newest, update, table, len(values), *(ahead[:3] if ahead else (None,) * 3), query, gain]
            + [None if update is None else value, scale, logits, log_total]
            + [None if alone else mixture, output, normed_scale, epsilon],
            ALIGNED=aligned,
            **_whole_row(width),
        )
        return Site(
            value, scale, Normed(output, output if mixture is None else mixture, normed_scale), logits, log_total
        )

    def look_ahead(self, values: Sequence[Tensor], scales: Sequence[Tensor], queries: Tensor) -> Ahead:
        count = len(queries)
        tokens, width = values[0].shape
        mixed = queries.new_empty(count, tokens, width)
        peak, total = queries.new_empty(2, count, tokens)
        logits = queries.new_empty(count, tokens, len(values))
        table, aligned = _source_table(values, scales, queries.device)
        row = _whole_row(width)
        # Mixtures and queries of a group stay in registers: 32 + 32 of every thread, at most.
        group = min(_power_of_two(count), max(1, 8192 // row["BLOCK"]))
        row["num_warps"] = min(16, max(1, group * row["BLOCK"] // 1024, row["num_warps"]))
        _launch(
            "look_ahead_kernel",
            (tokens, -(-count // group)),
            [table, len(values), queries, count, tokens, mixed, peak, total, logits],
            GROUP=group,
            ALIGNED=aligned,
            **row,
        )
        return Ahead(mixed, peak, total, logits)

    def add_norm(
        self,
        stream: Tensor,
        update: Tensor | None,
        gain: Tensor,
        epsilon: float,
        dtype: torch.dtype,
        backward: bool,
    ) -> tuple[Tensor, Normed]:
        tokens, width = stream.shape
        value = stream if update is None else _like(stream)
        output = torch.empty_like(stream, dtype=dtype)
        scale = stream.new_empty(tokens, dtype=torch.float32)
        _launch(
            "add_norm_kernel",
            (tokens,),
            [stream, update, gain, None if update is None else value, output, scale, epsilon],
            **_whole_row(width),
        )
        return value, Normed(output, value, scale)

    def norm_backward(
        self, grad: Tensor, normed: Normed, gain: Tensor, epsilon: float, carry: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        assert normed.kept is not normed.output, "this norm was taken for a forward pass only"
        tokens, width = grad.shape
        grad_input = _like(grad)
        grad_dot_input = grad.new_empty(tokens, dtype=torch.float32)
        chunk = max(1, -(-tokens // _resident_programs(grad.device)))
        gain_sums = grad.new_empty(-(-tokens // chunk), width, dtype=torch.float32)
        _launch(
            "norm_backward_kernel",
            (len(gain_sums),),
            [grad, normed.kept, normed.inverse_rms, gain, carry, grad_input, grad_dot_input, gain_sums]
            + [tokens, chunk, epsilon],
            **_whole_row(width),
        )
        return grad_input, grad_dot_input, gain_sums.sum(0)

    def source_backward(
        self,
        values: Sequence[Tensor],
        scales: Sequence[Tensor],
        consumers: Sequence[Sequence[Consumer]],
        carry: Tensor | None,
    ) -> tuple[Sequence[Tensor], Tensor]:
        carries = [carry, *[None] * (len(values) - 1)]
        found = [self._gathered(*source) for source in zip(values, scales, consumers, carries, strict=True)]
        grad_queries = found[0][1]
        for _, more in found[1:]:
            grad_queries += more
        return [grad for grad, _ in found], grad_queries

    def _gathered(
        self, value: Tensor, scale: Tensor, consumers: Sequence[Consumer], carry: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        tokens, width = value.shape
        count = len(consumers)
        grad_value = _like(value)
        coefficients = value.new_empty(tokens, count, dtype=torch.float32)
        table, aligned = _consumer_table(consumers, value.device)
        _launch(
            "source_backward_kernel",
            (tokens,),
            [value, scale, table, count, carry, grad_value, coefficients],
            ALIGNED=aligned,
            **_whole_row(width),
        )
        return grad_value, _query_gradients(value, coefficients)


kernels = TritonKernels()


def _query_gradients(value: Tensor, coefficients: Tensor) -> Tensor:
    """coefficientsᵀ @ value: [tokens, consumers], [tokens, d] → [consumers, d]. Sums of sums, always in one order."""
    (tokens, width), count = value.shape, coefficients.shape[1]
    columns, queries, step = 64, 16, 16
    blocks = -(-width // columns) * -(-count // queries)
    if blocks == 0:
        return coefficients.new_empty(count, width)
    shares = max(1, _resident_programs(value.device) // blocks)
    chunk = -(-tokens // (shares * step)) * step
    sums = value.new_empty(-(-tokens // chunk), count, width, dtype=torch.float32)
    _launch(
        "query_gradient_kernel",
        (len(sums), -(-width // columns), -(-count // queries)),
        [value, coefficients, sums, tokens, count, chunk],
        WIDTH=width,
        COLUMNS=columns,
        QUERIES=queries,
        TOKENS=step,
        num_warps=4,
    )
    return sums.sum(0)


# ---- tables of addresses: what lets one compiled kernel read any number of tensors

CODES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}


def _source_table(values: Sequence[Tensor], scales: Sequence[Tensor], device: torch.device) -> tuple[Tensor, bool]:
    """([n, 3] int64: address, dtype, address of the 1/rms; whether all sources begin at multiples of 16 bytes)."""
    assert all(tensor.is_contiguous() for tensor in (*values, *scales))
    rows = tuple((v.data_ptr(), CODES[v.dtype], s.data_ptr()) for v, s in zip(values, scales, strict=True))
    return _table(rows, device), all(address % 16 == 0 for address, _, _ in rows)


def _consumer_table(consumers: Sequence[Consumer], device: torch.device) -> tuple[Tensor, bool]:
    """([n, 6] int64, the fields of a consumer as `source_backward_kernel` reads them; whether rows of width d begin at
    multiples of 16 bytes)."""
    rows: list[tuple[int, ...]] = []
    for each in consumers:
        fields = (each.grad_mixed, each.grad_dot_mixed, each.query, each.log_total, each.logits)
        assert all(field.dtype is torch.float32 and field.is_contiguous() for field in fields)
        *addresses, logits = (field.data_ptr() for field in fields)
        rows.append((*addresses, logits + each.column * each.logits.element_size(), each.logits.shape[-1]))
    return _table(tuple(rows), device), all(row[0] % 16 == 0 and row[2] % 16 == 0 for row in rows)


def _table(rows: tuple[tuple[int, ...], ...], device: torch.device) -> Tensor:
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    return _cached_table(rows, device, stream)


@lru_cache(maxsize=4096)
def _cached_table(rows: tuple[tuple[int, ...], ...], device: torch.device, stream: int) -> Tensor:
    """The allocator hands out the same addresses step after step, and so most tables are on the device already.

    A new one is copied without waiting for the GPU. One per stream: a copy is in order with the kernels of its own
    stream only.
    """
    return torch.tensor(rows, dtype=torch.int64).to(device, non_blocking=True)


# ---- launching


def _launch(kernel: str, grid: tuple[int, ...], arguments: Sequence[Any], **constants: Any) -> None:
    """Run `kernel` on the device and the stream of its tensors; on the meta device shapes are all there is."""
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    assert all(tensor.is_contiguous() for tensor in tensors), kernel
    device = tensors[0].device
    if device.type == "meta" or 0 in grid:
        return
    from attnres_cli.residual import triton_kernels

    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        getattr(triton_kernels, kernel)[grid](*arguments, enable_fp_fusion=True, **constants)


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, dtype=wide(tensor.dtype))


def _whole_row(width: int) -> dict[str, Any]:
    """A program holds a row, eight numbers a thread where the row is long enough."""
    block = _power_of_two(width)
    return {"WIDTH": width, "BLOCK": block, "num_warps": min(16, max(1, block // 256))}


def _power_of_two(number: int) -> int:
    """The least one that is not below `number`."""
    return 1 << (number - 1).bit_length()


@lru_cache
def _resident_programs(device: torch.device) -> int:
    """Programs that fill the device: enough to hide latency, few enough that their partial sums stay small."""
    if device.type != "cuda":
        return 2
    return 8 * int(torch.cuda.get_device_properties(device).multi_processor_count)
