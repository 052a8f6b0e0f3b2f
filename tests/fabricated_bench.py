"""Benches with known samples, as the payloads that `attnres bench --json` writes: no clock is involved."""

from __future__ import annotations

from typing import Any

from attnres_cli.analysis.plan import memory_accesses
from attnres_cli.bench.interleaved import Arm, BenchResult, Setting
from attnres_cli.bench.metrics import METRICS, bench_facts
from attnres_cli.bench.payload import mode_facts
from tests.small import small_preset

ROUNDS = 15
SETTING = Setting(
    device="cpu", threads=1, cores=2, omp_wait_policy="PASSIVE", load_average_before=0.4, load_average_after=0.9,
    other_cores=0.04, torch="2.13.0+cpu", processor="a processor",
)  # fmt: skip
CUDA = Setting(device="cuda (NVIDIA H200)", threads=8, cores=16, omp_wait_policy="PASSIVE", other_cores=0.1)
MIB = 2**20


def arm(name: str, seconds: float, peak_mib: int, *, jitter: float = 0.002, **facts: Any) -> Arm:
    """Samples around `seconds`: CPU time, and wall time 5 % longer."""
    cpu = tuple(seconds * (1 + jitter * (index % 5 - 2)) for index in range(ROUNDS))
    standard = {
        "scheme": name, "parameters": 1000, "tokens_per_call": 1024, "flops_per_call": 2e10, "device_peak_flops": None,
        "first_call_seconds": 1.5 * seconds, "compiled": False, "backend": "cpu",
        "backend_reason": "first choice on cpu",
    }  # fmt: skip
    wall = tuple(1.05 * each for each in cpu)
    return Arm(name, wall, cpu, 20 * MIB, (peak_mib - 20) * MIB, {**standard, **facts})


def result(setting: Setting = SETTING, **changes: Any) -> BenchResult:
    arms = (
        arm("prenorm", 0.5, 100, **changes),
        arm("attnres-block", 0.521, 104, jitter=0.01, **changes),
        arm("attnres-full", 0.55, 110, jitter=0.03, **changes),
    )
    return BenchResult(arms, warmup=1, setting=setting, notes=("a note of the bench",))


def payload(measured: BenchResult | None = None, mode: str = "train", **changes: Any) -> dict[str, Any]:
    """As `bench.payload.bench_payload` puts it together."""
    preset = small_preset()
    facts = mode_facts({"prenorm": preset}, 4096, mode, None)
    measured_facts = bench_facts(measured or result())
    del measured_facts["schema"]
    return {
        **facts,
        "metrics": dict(METRICS),
        **measured_facts,
        "memory_accesses": memory_accesses(preset, 4),
        "against": None,
        "conditions": [],
        **changes,
    }
