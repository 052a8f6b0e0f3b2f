"""Where a run computes: device, threads, precision, memory allocator."""

from __future__ import annotations

import ctypes
import platform
from contextlib import AbstractContextManager, nullcontext

import torch

from attnres_cli.errors import UserError
from attnres_cli.preset.schema import TrainConfig
from attnres_cli.runs.environment import processor_name

# glibc's mallopt codes (malloc.h) and what they are set to: keep freed blocks of up to 1 GiB for the next allocation.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 1 << 30


def choose_device(wanted: str, *, where: str = "train.device") -> torch.device:
    """The device that `wanted` names; auto: the first CUDA device, else the CPU. Raises UserError when it is not
    there; `where`: the key or option that said it."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"'{wanted}' is no device to compute on.", where=where, expected="auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(
            f"This machine has {torch.cuda.device_count()} CUDA devices; '{wanted}' is not among them.",
            where=where,
            expected="auto, cpu, cuda or cuda:N",
            hint="--device auto, or see `attnres doctor`",
        )
    return device


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()


def set_up(train: TrainConfig, device: torch.device) -> None:
    """Process-wide settings of a run: threads, determinism on the CPU, an allocator that keeps what it freed."""
    if train.threads:
        torch.set_num_threads(train.threads)
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True, warn_only=True)
        # Filling fresh memory is a debugging aid that costs a pass over every tensor.
        setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)  # noqa: B010
        keep_freed_memory()
    else:
        torch.set_float32_matmul_precision("high")


def keep_freed_memory() -> None:
    """Ask glibc to reuse freed blocks instead of returning them to the system after every operation.

    Activations of a few megabytes are otherwise mapped and unmapped at each use, and the page faults cost more than the
    arithmetic. Not glibc: nothing happens.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _KEEP_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, 2 * _KEEP_BYTES - 1)


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """bf16: matrix products in bfloat16; weights, optimiser, norms and the residual stream stay float32."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
