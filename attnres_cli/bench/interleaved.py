"""Timing several arms fairly in one process: A B A B …, every sample kept, ratios taken within a round.

Machines drift: a neighbour wakes up, a clock steps down. Arms timed one after the other see different machines; arms
that alternate see the same one. So each round runs every arm once, the ratio to the first arm is taken inside the
round, and the median of those ratios is the result. Its interval makes no assumption about their distribution.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import comb
from statistics import median, quantiles
from typing import Any, Literal

from attnres_cli.bench.other_work import OtherWork
from attnres_cli.runs.environment import processor_name

SCHEMA = "attnres.bench/1"
WIDE_SPREAD = 0.10
# Arms that a warning names.
MOST_NAMED = 3
# Other work that is worth a warning, in cores: well above an idle system's own.
BUSY_CORES = 0.25
Clock = Literal["wall", "cpu"]


@dataclass(frozen=True)
class Interval:
    """The median of n samples between two of its order statistics.

    coverage: the probability that such an interval holds the true median, whatever the distribution; at least 0.95
    where n allows it (n ≥ 6), else what the whole range gives.
    """

    median: float
    low: float
    high: float
    coverage: float


def median_interval(samples: Sequence[float], wanted_coverage: float = 0.95) -> Interval:
    """The median with the narrowest pair of order statistics that reaches `wanted_coverage`.

    The k-th smallest and k-th largest of n samples hold the median with probability 1 - 2 P(Binomial(n, 1/2) < k).
    """
    assert samples, "no samples"
    ordered, n = sorted(samples), len(samples)
    rank, coverage = 1, _coverage(n, 1)
    while rank + 1 <= n // 2 and _coverage(n, rank + 1) >= wanted_coverage:
        rank, coverage = rank + 1, _coverage(n, rank + 1)
    return Interval(median(ordered), ordered[rank - 1], ordered[n - rank], coverage)


def _coverage(n: int, rank: int) -> float:
    outside: float = 2 * sum(comb(n, below) for below in range(rank)) / 2.0**n
    return max(0.0, 1 - outside)


@dataclass(frozen=True)
class Setting:
    """What a time depends on and a reader must know.

    load_average: the one-minute value before and after, or None. other_cores: how many cores all other processes kept
    busy on average while the clock ran, or None where the system does not say.
    """

    device: str = "cpu"
    threads: int = 1
    cores: int = 1
    omp_wait_policy: str = "default"
    load_average_before: float | None = None
    load_average_after: float | None = None
    other_cores: float | None = None
    torch: str = ""
    processor: str = ""


@dataclass(frozen=True)
class Arm:
    """Every sample of one arm, in the order of the rounds, and its memory where that was measured.

    cpu_seconds: process CPU time (all threads). resident_bytes: what stays: weights, optimiser state, caches.
    step_peak_bytes: the most that one call held on top of it, gradients included.
    """

    name: str
    wall_seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    resident_bytes: int | None = None
    step_peak_bytes: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def seconds(self, clock: Clock) -> tuple[float, ...]:
        return self.wall_seconds if clock == "wall" else self.cpu_seconds

    def median_seconds(self, clock: Clock = "wall") -> float:
        return median(self.seconds(clock))

    @property
    def peak_bytes(self) -> int | None:
        """Peak memory of this arm alone, or None where it was not measured."""
        if self.resident_bytes is None or self.step_peak_bytes is None:
            return None
        return self.resident_bytes + self.step_peak_bytes

    @property
    def spread(self) -> float:
        """Interquartile range over the median of the wall times; 0 for a single sample."""
        if len(self.wall_seconds) < 2:
            return 0.0
        lower, _, upper = quantiles(self.wall_seconds, n=4, method="inclusive")
        return (upper - lower) / median(self.wall_seconds)


@dataclass(frozen=True)
class BenchResult:
    """Samples of all arms; everything else is derived from them. The first arm is the baseline of the ratios.

    calls: how many calls of the work one sample timed; the samples are of one call.
    """

    arms: tuple[Arm, ...]
    warmup: int
    setting: Setting
    notes: tuple[str, ...] = ()
    calls: int = 1

    @property
    def clock(self) -> Clock:
        """The clock to judge by: process CPU time, which neighbours hardly touch; wall time where an asynchronous
        device does the work."""
        return "cpu" if self.setting.device == "cpu" else "wall"

    @property
    def pairs(self) -> int:
        return len(self.arms[0].wall_seconds)

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    def ratio(self, name: str, clock: Clock = "wall", *, to: str | None = None) -> Interval:
        """Time of arm `name` over the time of `to` (default: the first arm) in the same round: median and interval."""
        baseline = self.arms[0] if to is None else self.arm(to)
        pairs = zip(self.arm(name).seconds(clock), baseline.seconds(clock), strict=True)
        return median_interval([ours / theirs for ours, theirs in pairs])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes these samples less trustworthy, one sentence each."""
        found = []
        wide = sorted((arm for arm in self.arms if arm.spread > WIDE_SPREAD), key=lambda arm: -arm.spread)
        if wide:
            named = ", ".join(f"{arm.name} {arm.spread:.0%}" for arm in wide[:MOST_NAMED])
            more = f" and {len(wide) - MOST_NAMED} more" if len(wide) > MOST_NAMED else ""
            found.append(
                f"wall times spread by more than {WIDE_SPREAD:.0%} of their median (interquartile range): "
                f"{named}{more}; is there other work on the machine?"
            )
        if self.pairs < 6:
            found.append(f"{self.pairs} round{'s' * (self.pairs > 1)} cannot give a 95 % interval; 6 can")
        other = self.setting.other_cores
        if other is not None and other > BUSY_CORES:
            found.append(f"other processes kept {other:.1f} of {self.setting.cores} cores busy while the clock ran")
        if self.setting.device == "cpu" and self.setting.omp_wait_policy.upper() != "PASSIVE":
            found.append("OMP_WAIT_POLICY is not PASSIVE: waiting threads spin, which distorts times on shared cores")
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: every sample, the setting, and for reading only the derived medians and ratios."""
        return {
            "schema": SCHEMA,
            "warmup": self.warmup,
            "calls": self.calls,
            "clock": self.clock,
            "setting": asdict(self.setting),
            "notes": list(self.notes),
            "arms": [
                {
                    "name": arm.name,
                    "wall_seconds": list(arm.wall_seconds),
                    "cpu_seconds": list(arm.cpu_seconds),
                    "resident_bytes": arm.resident_bytes,
                    "step_peak_bytes": arm.step_peak_bytes,
                    "facts": dict(arm.facts),
                    "derived": {
                        "wall_ratio": asdict(self.ratio(arm.name, "wall")),
                        "cpu_ratio": asdict(self.ratio(arm.name, "cpu")),
                        "median_wall_seconds": arm.median_seconds("wall"),
                        "median_cpu_seconds": arm.median_seconds("cpu"),
                        "spread": arm.spread,
                    },
                }
                for arm in self.arms
            ],
            "warnings": list(self.warnings),
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> BenchResult:
        """The result that `to_dict` wrote; derived values are computed again from the samples.

        Raises ValueError for another schema.
        """
        if values.get("schema") != SCHEMA:
            raise ValueError(f"not {SCHEMA} but {values.get('schema')!r}")
        arms = tuple(
            Arm(
                name=arm["name"],
                wall_seconds=tuple(arm["wall_seconds"]),
                cpu_seconds=tuple(arm["cpu_seconds"]),
                resident_bytes=arm["resident_bytes"],
                step_peak_bytes=arm["step_peak_bytes"],
                facts=arm["facts"],
            )
            for arm in values["arms"]
        )
        setting = Setting(**values["setting"])
        return BenchResult(arms, values["warmup"], setting, tuple(values["notes"]), values.get("calls", 1))


def interleave(
    arms: Mapping[str, Callable[[], None]],
    *,
    pairs: int,
    warmup: int,
    synchronize: Callable[[], None] | None = None,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> BenchResult:
    """Run every arm `warmup` times off the clock, then `pairs` rounds of all arms in turn; time each call.

    synchronize: waits for an asynchronous device, called before each reading of the clock. progress: called with rounds
    done and rounds in all, off the clock. The cyclic garbage collector rests while the clock runs.
    """
    assert arms
    assert pairs > 0
    assert warmup >= 0
    wait = synchronize or (lambda: None)
    load_before = load_average()
    for _ in range(warmup):
        for run in arms.values():
            run()
    wall: dict[str, list[float]] = {name: [] for name in arms}
    cpu: dict[str, list[float]] = {name: [] for name in arms}
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    others = OtherWork()
    try:
        for done in range(pairs):
            for name, run in arms.items():
                wait()
                wall_start, cpu_start = time.perf_counter(), time.process_time()
                run()
                wait()
                wall[name].append(time.perf_counter() - wall_start)
                cpu[name].append(time.process_time() - cpu_start)
            if progress is not None:
                progress(done + 1, pairs)
    finally:
        if collecting:
            gc.enable()
    return BenchResult(
        arms=tuple(Arm(name, tuple(wall[name]), tuple(cpu[name])) for name in arms),
        warmup=warmup,
        setting=current_setting(device, load_before=load_before, other_cores=others.cores()),
    )


def current_setting(device: str, *, load_before: float | None = None, other_cores: float | None = None) -> Setting:
    """The setting of this process now."""
    import torch

    return Setting(
        device=device,
        threads=torch.get_num_threads(),
        cores=os.cpu_count() or 1,
        omp_wait_policy=os.environ.get("OMP_WAIT_POLICY", "default"),
        load_average_before=load_before,
        load_average_after=load_average(),
        other_cores=other_cores,
        torch=torch.__version__,
        processor=processor_name(),
    )


def load_average() -> float | None:
    """Runnable processes over the last minute, or None where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
