"""Sweeps whose later runs follow from the results of earlier ones: the stages of a tune, the trials before the runs of
a sweep with a rate per cell."""

from __future__ import annotations

from collections.abc import Callable

from attnres_cli.sweep.results import Sweep


def in_stages(sweep: Sweep, train: Callable[[Sweep], None], following: Callable[[Sweep], Sweep]) -> Sweep:
    """Train a sweep and then, as long as that asks for anything new, what `following` makes of its results; the sweep
    as it stands then. A sweep that was stopped stays where it is: the same `following` goes on from there."""
    while True:
        train(sweep)
        later = following(sweep)
        if _is_stopped(sweep) or _stands(later) <= _stands(sweep):
            return sweep
        sweep = later


def _is_stopped(sweep: Sweep) -> bool:
    """Whether a run has neither ended nor awaits anything."""
    return any(run.status in ("planned", "running", "interrupted") and not run.awaits_rate for run in sweep.runs)


def _stands(sweep: Sweep) -> set[tuple[str, str, bool]]:
    """Every run with what became of it, and whether it awaits something."""
    return {(run.digest, run.status, run.awaits_rate) for run in sweep.runs}
