"""A learning rate per cell and arm: before the seeds of a sweep run, each tries a few rates around the one that the
rule gives it, with a seed that no verdict uses, and its runs then train at the best of them.

The trials stand in the sweep's file beside the other runs, which await their rate (`Run.awaits_rate`) until all trials
of their cell and arm have ended. Every cell and arm has as many: the best of many is better than the best of few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.report.cell_rates import RATE, CellRate, cell_rates
from attnres_cli.sweep.budget import wall_seconds
from attnres_cli.sweep.request import MOST_SEEDS, Request
from attnres_cli.sweep.resolve import SEED, base_preset, run_preset, with_arm
from attnres_cli.sweep.results import Run, Sweep

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

SETTING = "tune_rates"
MUON_RATE = "train.muon_learning_rate"
FEWEST_RATES, MOST_RATES = 3, 9
# Beyond every seed that a sweep of this preset may have.
SEED_OFFSET = MOST_SEEDS


def asked_rates(number: int | None) -> dict[str, Any]:
    """The setting of a request that asks for so many candidates, ×√2 apart; nothing where the rule's rate is taken.

    Raises UserError for a number that has no middle, or no two sides.
    """
    if number is None:
        return {}
    if not FEWEST_RATES <= number <= MOST_RATES or number % 2 == 0:
        raise UserError(
            f"--tune-rates {number}: the rule's rate and as many on either side.",
            where="--tune-rates",
            expected=f"an odd number from {FEWEST_RATES} to {MOST_RATES}",
            exit_code=ExitCode.USAGE,
        )
    return {SETTING: [2.0 ** (step / 2) for step in range(-(number // 2), number // 2 + 1)]}


def candidates(request: Request) -> int:
    """Trials of every arm in every cell; 0 where the rule's rate is taken."""
    return len(request.settings.get(SETTING, ()))


def with_trials(request: Request, sweep: Sweep) -> Sweep:
    """The sweep with the trials that its request asks for before its own runs, which await their rates. sweep: planned
    at the rule's rates."""
    if not candidates(request):
        return sweep
    base = base_preset(sweep)
    trials: list[Run] = []
    first: dict[tuple[str, str], Run] = {}
    for run in sweep.runs:
        first.setdefault((run.cell, run.arm), run)
    for run in first.values():
        preset = run_preset(sweep, run)
        for factor in request.settings[SETTING]:
            changes = {**run.changes, RATE: _rounded(preset.train.learning_rate * factor)}
            if preset.train.muon_learning_rate is not None:
                changes[MUON_RATE] = _rounded(preset.train.muon_learning_rate * factor)
            seed = base.train.seed + SEED_OFFSET
            digest = with_arm(base, sweep.arm(run.arm), {**changes, SEED: seed}).digest()
            trials.append(replace(run, digest=digest, seed=seed, changes=changes, trial=f"lr{changes[RATE]:g}"))
    sweep.runs = [*trials, *(replace(run, awaits_rate=True) for run in sweep.runs)]
    if "estimated_minutes" in sweep.budget:
        seconds = wall_seconds([run.cost for run in sweep.runs], sweep.budget["parallel_runs"])
        sweep.budget = {**sweep.budget, "estimated_minutes": seconds / 60}
    return sweep


def with_chosen_rates(sweep: Sweep, earlier: Sweep | None = None) -> Sweep:
    """The sweep with every run at the rate that its trials chose, where all of them have ended; the sweep itself where
    it has none. earlier: the sweep of that name before it was planned anew, for what became of runs at chosen rates."""
    rates = cell_rates(sweep.to_dict())
    if not rates:
        return sweep
    base = base_preset(sweep)
    known = {run.digest: run for run in (*(earlier.runs if earlier else ()), *sweep.runs) if not run.awaits_rate}
    runs = [run if run.trial else _at_its_rate(base, sweep, run, rates[run.cell, run.arm], known) for run in sweep.runs]
    return replace(sweep, runs=runs)


def _at_its_rate(base: Preset, sweep: Sweep, run: Run, rate: CellRate, known: Mapping[str, Run]) -> Run:
    chosen = rate.chosen
    if chosen is None:
        failed = next((each.run for each in rate.tried if each.has_failed), None)
        if failed is None or not run.awaits_rate:
            return run
        reason = f"its learning rate is not chosen: a trial at {failed['changes'][RATE]:g} failed"
        return replace(run, status="failed", error=reason)
    theirs = chosen.run["changes"]
    changes = {**run.changes, **{key: theirs[key] for key in (RATE, MUON_RATE) if key in theirs}}
    digest = with_arm(base, sweep.arm(run.arm), {**changes, SEED: run.seed}).digest()
    planned = replace(run.planned_anew(), changes=changes, digest=digest, awaits_rate=False)
    return known.get(digest, planned)


def _rounded(rate: float) -> float:
    """Four significant digits, so that presets and folders stay readable."""
    return float(f"{rate:.4g}")
