"""How long a training step takes here: timed in about two seconds, or bounded by the speed of matrix products."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import torch

from attnres_cli.bench.arms import TrainingArm, synchronize
from attnres_cli.errors import UserError
from attnres_cli.preset.reading import Preset
from attnres_cli.train.device import choose_device, device_name, set_up

Method = Literal["training steps", "matrix products", "none"]

SECONDS = 2.0
MATRIX_SECONDS = 0.3
MATRIX_TOKENS = {"cpu": 256, "cuda": 8192}
# Drawing the initial weights of more parameters than this takes longer than the whole calibration may.
LARGEST_PARAMETERS = 100_000_000
# FLOPs of a micro-batch that a slow device of the kind finishes in about a second. Constants, and not the measured
# speed, decide whether steps are timed, so that a plan says the same thing twice on one machine.
LARGEST_MICRO_BATCH_FLOPS = {"cpu": 5e10, "cuda": 1e13}


@dataclass(frozen=True)
class Load:
    """An arm to be timed, and what its plan knows: memory_bytes is the estimated peak of a training step."""

    preset: Preset
    parameters: int
    training_flops_per_token: float
    memory_bytes: int

    @property
    def micro_batch_tokens(self) -> int:
        return self.preset.train.micro_batch_sequences * self.preset.model.context_tokens


@dataclass(frozen=True)
class Calibration:
    """step_seconds: one optimiser step, or None where there is no such device; a lower bound for "matrix products".

    reason: one sentence on what was measured, or why nothing was.
    """

    method: Method
    device: str
    step_seconds: float | None
    reason: str

    @property
    def is_lower_bound(self) -> bool:
        return self.method == "matrix products"


def calibrate(loads: Sequence[Load], vocab_size: int, *, seconds: float | None = None) -> list[Calibration]:
    """A guess of the seconds per optimiser step for every arm, on the device that the first one asks for.

    Real steps of one micro-batch, the arms in turn, `seconds` (default SECONDS) for each arm, eager and once off the
    clock, where all arms are small enough; else the rate of one matrix product of the model's shape, which no step
    beats.
    """
    first = loads[0].preset
    try:
        device = choose_device(first.train.device)
    except UserError as error:
        return [Calibration("none", first.train.device, None, error.faults[0].what) for _ in loads]
    set_up(first.train, device)
    if (obstacle := _obstacle(loads, device)) is not None:
        rate = matrix_flops_per_second(first, device)
        return [_bounded(load, rate, device_name(device), obstacle) for load in loads]
    arms = [TrainingArm.build(_one_micro_batch(load.preset), vocab_size, device) for load in loads]
    rounds = _repeat([arm.step for arm in arms], device, (SECONDS if seconds is None else seconds) * len(arms))
    return [_timed(load, [each[index] for each in rounds], device_name(device)) for index, load in enumerate(loads)]


def matrix_flops_per_second(preset: Preset, device: torch.device) -> float:
    """The best speed, in FLOP/s, of a matrix product between some tokens of a micro-batch and a feed-forward matrix."""
    dtype = torch.bfloat16 if preset.train.precision == "bf16" else torch.float32
    rows = min(MATRIX_TOKENS[device.type], preset.train.micro_batch_sequences * preset.model.context_tokens)
    left = torch.ones(rows, preset.model.d_model, dtype=dtype, device=device)
    right = torch.ones(preset.model.d_model, preset.model.resolved_d_ff, dtype=dtype, device=device)
    rounds = _repeat([lambda: torch.mm(left, right)], device, MATRIX_SECONDS)
    return 2.0 * rows * right.numel() / min(seconds for (seconds,) in rounds)


def _obstacle(loads: Sequence[Load], device: torch.device) -> str | None:
    """Why real steps cannot be timed, or None."""
    free = free_bytes(device)
    needed = sum(load.memory_bytes for load in loads)
    if free is not None and needed > 0.8 * free:
        together = f"the {len(loads)} arms together need " if len(loads) > 1 else "the step needs "
        return f"{together}{needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free"
    heaviest = max(load.micro_batch_tokens * load.training_flops_per_token for load in loads)
    largest = max(load.parameters for load in loads)
    if largest > LARGEST_PARAMETERS or heaviest > LARGEST_MICRO_BATCH_FLOPS[device.type]:
        return "the model is too large to be trained for two seconds"
    return None


def _bounded(load: Load, rate: float, device: str, obstacle: str) -> Calibration:
    tokens = load.micro_batch_tokens * load.preset.accumulation_steps
    return Calibration(
        "matrix products",
        device,
        tokens * load.training_flops_per_token / rate,
        f"the floor at the {rate / 1e9:,.3g} GFLOP/s of one matrix product; {obstacle}",
    )


def _timed(load: Load, samples: Sequence[float], device: str) -> Calibration:
    pieces = load.preset.accumulation_steps
    each = f"from {len(samples)} eager steps of {load.micro_batch_tokens:,} tokens"
    return Calibration(
        "training steps", device, median(samples) * pieces, each + (f", {pieces} to an update" if pieces > 1 else "")
    )


def _one_micro_batch(preset: Preset) -> Preset:
    micro_tokens = preset.train.micro_batch_sequences * preset.model.context_tokens
    return preset.replace({"train.tokens_per_step": micro_tokens, "train.compile": "off"})


def _repeat(works: Sequence[Callable[[], object]], device: torch.device, seconds: float) -> list[tuple[float, ...]]:
    """Seconds of each call, in rounds of all works, for about `seconds` and at least two rounds, after one off the
    clock."""
    rounds: list[tuple[float, ...]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < 3 or time.perf_counter() < end:
        round_seconds = []
        for work in works:
            start = time.perf_counter()
            work()
            synchronize(device)
            round_seconds.append(time.perf_counter() - start)
        rounds.append(tuple(round_seconds))
    return rounds[1:]


def free_bytes(device: torch.device) -> int | None:
    """Memory that can be had on `device` without swapping, or None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:  # what can be had without swapping: free memory and caches that give way
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
