"""How many tokens each run gets: the preset's own horizon, a number of FLOPs per run, or minutes for the whole sweep.

Every run gets the same tokens, whatever its shape. Minutes are turned into tokens by timing a few training steps of the
largest, the smallest and a middle cell with every scheme on this machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from attnres_cli.errors import ExitCode, UserError, plural

BudgetKind = Literal["preset", "flops", "minutes"]

# A run's time outside its training steps: a fresh process, torch, the data, the last checkpoint and probe.
OVERHEAD_SECONDS = 6.0
# Cells that train beside each other share caches and memory bandwidth, which a calibration that runs alone does not
# see.
SHARING_MARGIN = 1.1
# Fewer steps than this are no training: warm-up and decay would be most of it.
FEWEST_STEPS = 20


@dataclass(frozen=True)
class Budget:
    """kind "preset": train.horizon_tokens; "flops": value FLOPs for one run of the preset's own shape with the first
    scheme; "minutes": value minutes of wall time for all runs together."""

    kind: BudgetKind
    value: float | None = None


@dataclass(frozen=True)
class TimedRun:
    """What one run of the sweep costs, on the share of the machine that one run gets.

    seconds_per_token: training. evaluation_every_tokens: training tokens between evaluations, None for one at the end
    only.
    """

    seconds_per_token: float
    evaluation_tokens: int
    evaluation_every_tokens: int | None = None

    def seconds(self, tokens: float) -> float:
        """Wall seconds of the run; an evaluation is a forward pass, a third of a training step."""
        more = tokens / self.evaluation_every_tokens if self.evaluation_every_tokens else 0.0
        return OVERHEAD_SECONDS + self.seconds_per_token * (tokens + (1 + more) * self.evaluation_tokens / 3)


def tokens_for_flops(flops: float, flops_per_token: float, tokens_per_step: int) -> int:
    """Tokens, a whole number of steps, that cost no more than `flops`. Raises UserError when that is no training."""
    steps = math.floor(flops / flops_per_token / tokens_per_step)
    if steps < FEWEST_STEPS:
        raise UserError(
            f"--budget-flops {flops:g} buys {max(steps, 0)} {plural(max(steps, 0), 'step')} of "
            f"{tokens_per_step:,} {plural(tokens_per_step, 'token')}; "
            f"a run needs at least {FEWEST_STEPS}.",
            where="--budget-flops",
            expected=f"at least {FEWEST_STEPS * tokens_per_step * flops_per_token:.1e} "
            f"(one token costs {flops_per_token:.3g} FLOPs)",
            exit_code=ExitCode.USAGE,
        )
    return steps * tokens_per_step


def tokens_for_minutes(minutes: float, runs: Sequence[TimedRun], parallel_runs: int, tokens_per_step: int) -> int:
    """Tokens, a whole number of steps, with which all `runs` together take about `minutes`.

    Raises UserError when that is no training.
    """
    fixed = estimated_seconds(runs, 0, parallel_runs)
    per_step = estimated_seconds(runs, tokens_per_step, parallel_runs) - fixed
    steps = math.floor((minutes * 60 - fixed) / per_step)
    if steps < FEWEST_STEPS:
        needed = estimated_seconds(runs, FEWEST_STEPS * tokens_per_step, parallel_runs)
        bought = "1 minute buys" if minutes == 1 else f"{minutes:g} minutes buy"
        raise UserError(
            f"{bought} {max(steps, 0)} {plural(max(steps, 0), 'step')} for each of "
            f"{len(runs)} {plural(len(runs), 'run')}; "
            f"a run needs at least {FEWEST_STEPS}.",
            where="--budget-minutes",
            expected=f"at least {math.ceil(needed / 60)} {plural(math.ceil(needed / 60), 'minute')}",
            hint="fewer cells, schemes or seeds, or a smaller preset",
            exit_code=ExitCode.USAGE,
        )
    return steps * tokens_per_step


def estimated_seconds(runs: Sequence[TimedRun], tokens: int, parallel_runs: int) -> float:
    """Wall seconds of the whole sweep when `parallel_runs` train beside each other, all with the same tokens."""
    return wall_seconds([run.seconds(tokens) for run in runs], parallel_runs)


def wall_seconds(seconds: Sequence[float], parallel_runs: int) -> float:
    """Wall seconds of runs that take so many each when `parallel_runs` train beside each other."""
    return sum(seconds) / parallel_runs * (SHARING_MARGIN if parallel_runs > 1 else 1.0)


def sample_positions(sizes: Sequence[float]) -> list[int]:
    """Which cells to time: the smallest, the middle one, and the largest (positions in `sizes`)."""
    order = sorted(range(len(sizes)), key=lambda position: sizes[position])
    return sorted({order[0], order[len(order) // 2], order[-1]})


def interpolated(timed: Mapping[float, float], size: float) -> float:
    """Seconds per step at `size` from those at timed sizes, on straight lines between neighbours."""
    sizes = sorted(timed)
    if size <= sizes[0] or len(sizes) == 1:
        return timed[sizes[0]]
    for low, high in zip(sizes, sizes[1:], strict=False):
        if size <= high:
            share = (size - low) / (high - low)
            return timed[low] + share * (timed[high] - timed[low])
    return timed[sizes[-1]]


Calibrate = Callable[[Mapping[str, Any]], Mapping[str, float]]
"""Presets by name → seconds of one training step each, on this machine."""
