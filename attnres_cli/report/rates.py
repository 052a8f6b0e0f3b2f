"""Whether the arms had the same learning rate, or which one each had, and who chose it: what a reader asks of a
comparison first."""

from __future__ import annotations

from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.origins import tuned_overlay
from attnres_cli.report.pairing import named
from attnres_cli.report.phrases import counted
from attnres_cli.report.values import spelt_out
from attnres_cli.runs.fairness import Rule, allowed_differences

KEYS = ("train.learning_rate", "train.muon_learning_rate")
UNTUNED = "not tuned"


def rates(comparison: Comparison) -> list[str]:
    """One sentence on the peak learning rates of the arms; none where no arm says its own.

    A run does not record whether a rate is its arm's best one. A study does, and so does the name of an overlay that a
    tune left; without them the sentence says what was used, and no more.
    """
    by_arm = {arm.label: _of(arm) for arm in comparison.arms}
    known = [text for text in by_arm.values() if text is not None]
    if not known:
        return []
    choices = {arm.label: _choice(comparison, arm) for arm in comparison.arms}
    if len(known) == len(by_arm) and len(set(known)) == 1:
        return ["; ".join([f"rates: common ({known[0]})", *_of_a_common_rate(choices)])]
    each = [
        f"{label} {text or 'not recorded'}" + (f" ({choice})" if (choice := choices[label]) else "")
        for label, text in by_arm.items()
    ]
    return [f"rates: {'; '.join(each)}"]


def tuning_caveat(comparison: Comparison, arm: Arm) -> str | None:
    """What a finding rests on where an arm and the baseline differ in values that may be tuned; None where they do
    not."""
    both = (comparison.baseline, arm)
    tuned = [each for each in allowed_differences(*(one.facts for one in both)) if each.rule is Rule.TUNED]
    if not tuned:
        return None
    ours = f"Fair only if each {comparison.noun} has its own best value of {named(tuned)}"
    runs = [comparison.origins.tuning_runs(one) for one in both]
    known = [count for count in runs if count is not None]
    if len(known) < len(runs):
        return f"{ours}."
    first, second = known
    if first == second and first > 0:
        return f"Each {comparison.noun} has its own {named(tuned)}, which {counted(first, 'tuning run')} chose."
    each = [f"{counted(count, 'run') if count else 'no run'} chose that of {one.label}"
            for count, one in zip(known, both, strict=True)]  # fmt: skip
    return f"{ours}; {', '.join(each)}."


def _of_a_common_rate(choices: dict[str, str | None]) -> list[str]:
    said = [f"{label} {choice}" for label, choice in choices.items() if choice is not None]
    if said and len(said) == len(choices) and set(choices.values()) == {UNTUNED}:
        said = ["no arm is tuned"]
    if any(choice in (None, UNTUNED) for choice in choices.values()):
        said.append("a common rate need not be every arm's best one")
    return said


def _choice(comparison: Comparison, arm: Arm) -> str | None:
    """Who chose an arm's rate; None where that is not known."""
    runs = comparison.origins.tuning_runs(arm)
    if runs is None:
        overlay = tuned_overlay(arm)
        return None if overlay is None else f"tuned, overlay {overlay}"
    return f"tuned by {counted(runs, 'run')}" if runs else UNTUNED


def _of(arm: Arm) -> str | None:
    values: list[Any] = [arm.facts[key] for key in KEYS]
    known = list(dict.fromkeys(spelt_out(value) for value in values if value is not None))
    return " and ".join(known) or None
