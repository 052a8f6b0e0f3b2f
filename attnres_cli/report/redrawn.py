"""Comparisons with a known answer, made of real runs: what the verdict is tested on.

Two groups of one scheme with different seeds are two arms between which there is no difference: their runs are paired
in the order of their seeds, by giving those of the second group the seed of their partner (and the hash of its initial
weights, which the seed decides). Everything else about them stays as it was read. Losses at the end of the schedule can
then be replaced by drawn ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun, read_run
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.grouping import SEEDED, group_by_arm
from attnres_cli.report.paired_verdicts import PairedVerdict, paired_verdicts
from attnres_cli.report.references import find_runs


def compared_groups(groups: Sequence[str], root: Path, *, seeds_of_first: bool = False) -> Comparison:
    """Groups of one configuration as the arms of a comparison, as `attnres compare GROUP GROUP` makes them.

    seeds_of_first: pair by the order of the seeds instead of by the seeds.
    """
    found = find_runs(groups, root)
    read = [read_run(each.run, f"{each.group}/{each.run.name}") for each in found]
    names = [each.group for each in found]
    if seeds_of_first:
        read = _with_seeds_of_first(read, names)
    return Comparison.of_groups(group_by_arm(read, groups=names))


def verdict_of(comparison: Comparison) -> PairedVerdict:
    """Of a comparison of two arms."""
    (verdict,) = paired_verdicts(comparison)
    return verdict


def share_of_draws(comparison: Comparison, effect: float, spread: float, *, draws: int, seed: int) -> tuple[int, int]:
    """(draws in which the arm is shown to be better, draws in which anything is shown), of `draws` verdicts over pairs
    whose differences are normal with this mean and standard deviation (nats)."""
    pairs = comparison.pairings[comparison.others[0].label].pairs
    differences = np.random.default_rng(seed).normal(effect, spread, (draws, len(pairs)))
    outcomes = [verdict_of(with_differences(comparison, row)).outcome for row in differences.tolist()]
    return outcomes.count("better"), sum(outcome in ("better", "worse") for outcome in outcomes)


def with_differences(comparison: Comparison, differences: Sequence[float]) -> Comparison:
    """A comparison of two arms in which the second one's losses are the baseline's plus these, by pair."""
    (arm,) = comparison.others
    pairs = comparison.pairings[arm.label].pairs
    runs = [
        _with_end_loss(pair.ours, pair.losses[1] + each) for pair, each in zip(pairs, differences, strict=True)
    ]  # fmt: skip
    return replace(comparison, arms=[comparison.baseline, Arm(arm.label, arm.title, tuple(runs))])


def _with_end_loss(run: ComparedRun, loss: float) -> ComparedRun:
    rows = [{**row, "loss": loss} if row.get("tokens") == run.horizon_tokens else row for row in run.evaluations]
    return replace(run, evaluations=rows)


def _with_seeds_of_first(runs: Sequence[ComparedRun], groups: Sequence[str | None]) -> list[ComparedRun]:
    """The runs of every group, in the order of their seeds, with what the seed decides taken from the first group's."""
    ordered: dict[str | None, list[ComparedRun]] = {}
    for run, group in zip(runs, groups, strict=True):
        ordered.setdefault(group, []).append(run)
    for members in ordered.values():
        members.sort(key=lambda run: -1 if run.seed is None else run.seed)
    first = ordered[groups[0]]
    # strict=False: a run beyond the first group's keeps its seed, and has no partner
    partner = {
        run.path: other for members in ordered.values() for run, other in zip(members, first, strict=False)
    }  # fmt: skip
    return [_with_seed_of(run, partner[run.path]) if run.path in partner else run for run in runs]


def _with_seed_of(run: ComparedRun, other: ComparedRun) -> ComparedRun:
    values = {**run.facts.values, **{key: other.facts[key] for key in SEEDED}}
    return replace(run, facts=replace(run.facts, values=values))
