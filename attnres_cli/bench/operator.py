"""The depth-attention operator on its own: the residual path of a whole depth for every scheme and back end, beside the
machine's own ceilings, all in turn in one process.

The floor of an arm is the longer of two times: its bytes at the bandwidth of the copy, its FLOPs at the rate of the
matrix product, both measured in the same round. How the bytes and FLOPs are counted: bench/traffic.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch

from attnres_cli.bench.arms import synchronize
from attnres_cli.bench.backends import VOCAB_SIZE, Backends, without_choice
from attnres_cli.bench.ceilings import copy_ceiling, matrix_ceiling
from attnres_cli.bench.interleaved import interleave, median_interval
from attnres_cli.bench.payload import SAMPLE_SECONDS, Presets, model_facts
from attnres_cli.bench.peak import peak_bytes
from attnres_cli.bench.presets import Progress, common_device, device_label
from attnres_cli.bench.residual_path import ResidualPath
from attnres_cli.bench.traffic import Traffic, computed_dtype, count_traffic
from attnres_cli.model.build import build_model
from attnres_cli.preset.reading import Preset
from attnres_cli.train.device import set_up

METRICS: Mapping[str, str] = {
    "seconds": "median wall time of one pass over all sites of a micro-batch",
    "moved_bytes": "bytes that the pass has to move",
    "flops": "FLOPs of the pass",
    "bytes_per_second": "moved_bytes over seconds",
    "flops_per_second": "flops over seconds",
    "floor_seconds": "seconds over floor_ratio",
    "floor_ratio": "time over the floor of the same round; median",
    "peak_bytes": "the most that one pass held on top of the sublayers' outputs",
}
COPY, MATRIX = "copy", "matrix product"
FORWARD = "@forward"


def arm_names(presets: Presets, backends: Backends) -> list[str]:
    """scheme@backend@forward for the forward pass alone, scheme@backend for forward and backward together."""
    return [f"{name}@{backend}{part}" for name in presets for backend in backends.names for part in (FORWARD, "")]


def operator_payload(presets: Presets, backends: Backends, *, pairs: int, progress: Progress) -> dict[str, Any]:
    """What `attnres bench --operator --json` writes."""
    first = next(iter(presets.values()))
    device = common_device(presets)
    set_up(first.train, device)
    arms: dict[str, _Arm] = {}
    for name, preset in presets.items():
        for backend in backends.names:
            progress(f"building {name} by {backend}", len(arms) // 2, len(presets) * len(backends.names))
            arms |= _arms(name, preset, backend, device)
    copy, matrix = copy_ceiling(device), matrix_ceiling(device, computed_dtype(first.train.precision))
    calls = {COPY: copy.call, MATRIX: matrix.call} | {name: arm.call for name, arm in arms.items()}
    counts = {name: _calls_per_sample(call, device) for name, call in calls.items()}
    result = interleave(
        {name: _repeated(call, counts[name]) for name, call in calls.items()},
        pairs=pairs,
        warmup=1,
        synchronize=lambda: synchronize(device),
        device=device_label(device),
        progress=lambda done, total: progress("rounds", done, total),
    )
    samples = {arm.name: [seconds / counts[arm.name] for seconds in arm.wall_seconds] for arm in result.arms}
    rates = _Rates([copy.amount / each for each in samples[COPY]], [matrix.amount / each for each in samples[MATRIX]])
    return {
        "preset": first.name,
        "mode": "operator",
        "precision": first.train.precision,
        "load": {
            "unit": "residual path",
            "sequences": first.train.micro_batch_sequences,
            "tokens": first.train.micro_batch_sequences * first.model.context_tokens,
        },
        "model": model_facts(first, VOCAB_SIZE),
        "metrics": dict(METRICS),
        "clock": "wall",
        "setting": asdict(result.setting),
        "warnings": list(result.warnings),
        "notes": [f"left out: {each}" for each in backends.left_out],
        "ceilings": {
            "copy_bytes_per_second": median(rates.bytes_per_second),
            "matrix_flops_per_second": median(rates.flops_per_second),
        },
        "arms": [_measured(name, arm, samples[name], rates) for name, arm in arms.items()],
    }


@dataclass(frozen=True)
class _Arm:
    """moved_bytes, flops: of one call. fused: whether the scheme runs in fused form."""

    scheme: str
    backend: str
    passes: str
    call: Callable[[], object]
    moved_bytes: int
    flops: float
    peak_bytes: int
    fused: bool


@dataclass(frozen=True)
class _Rates:
    """The ceilings, round by round."""

    bytes_per_second: list[float]
    flops_per_second: list[float]

    def floors(self, moved_bytes: int, flops: float) -> list[float]:
        """Seconds."""
        both = zip(self.bytes_per_second, self.flops_per_second, strict=True)
        return [max(moved_bytes / bandwidth, flops / rate) for bandwidth, rate in both]


def _arms(name: str, preset: Preset, backend: str, device: torch.device) -> dict[str, _Arm]:
    """The forward pass alone, and forward and backward, of one scheme by one back end."""
    chosen = preset.replace({"residual.backend": backend}) if hasattr(preset.residual, "backend") else preset
    sequences, precision = preset.train.micro_batch_sequences, preset.train.precision
    path = ResidualPath(build_model(chosen, VOCAB_SIZE, device=device), sequences, precision)
    traffic = _traffic(preset)

    def arm(passes: str, call: Callable[[], object], moved_bytes: int, flops: float) -> _Arm:
        call()
        return _Arm(name, backend, passes, call, moved_bytes, flops, peak_bytes(call, device), path.fused)

    return {
        f"{name}@{backend}{FORWARD}": arm("forward", path.forward, traffic.forward_bytes, traffic.forward_flops),
        f"{name}@{backend}": arm("both", path.step, traffic.bytes, traffic.flops),
    }


def _traffic(preset: Preset) -> Traffic:
    tokens = preset.train.micro_batch_sequences * preset.model.context_tokens
    model = build_model(without_choice(preset), VOCAB_SIZE, device="meta")
    return count_traffic(model, tokens, computed_dtype(preset.train.precision))


def _measured(name: str, arm: _Arm, seconds: list[float], rates: _Rates) -> dict[str, Any]:
    floors = rates.floors(arm.moved_bytes, arm.flops)
    ratio = median_interval([ours / floor for ours, floor in zip(seconds, floors, strict=True)])
    middle = median(seconds)
    return {
        "name": name,
        "scheme": arm.scheme,
        "backend": arm.backend,
        "passes": arm.passes,
        "fused": arm.fused,
        "is_baseline": False,
        "wall_seconds": seconds,
        "metrics": {
            "seconds": middle,
            "moved_bytes": arm.moved_bytes,
            "flops": arm.flops,
            "bytes_per_second": arm.moved_bytes / middle,
            "flops_per_second": arm.flops / middle,
            "floor_seconds": middle / ratio.median,
            "floor_ratio": ratio.median,
            "peak_bytes": arm.peak_bytes,
        },
        "ratio": asdict(ratio),
    }


def _calls_per_sample(call: Callable[[], object], device: torch.device) -> int:
    call()
    synchronize(device)
    start = time.perf_counter()
    call()
    synchronize(device)
    return max(1, math.ceil(SAMPLE_SECONDS / max(time.perf_counter() - start, 1e-9)))


def _repeated(call: Callable[[], object], times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            call()

    return run
