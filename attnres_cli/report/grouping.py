"""Runs sorted into arms, so that the runs of an arm differ in their seed and in nothing else that matters.

An arm is one residual configuration. A group may hide further dimensions (two horizons, two learning rates): of the
runs of an arm those are kept that have most partners, and every other one is set aside by name with what differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.values import spelt_out
from attnres_cli.runs.fairness import FIELDS, Difference, Rule, differences, field_of

SEED = "train.seed"
# What the seed decides: it differs between the runs of an arm, and is looked at within a pair.
SEEDED = {SEED, *(field.key for field in FIELDS if SEED in field.follows)}


@dataclass(frozen=True)
class SetAside:
    """A run that is in no arm. reason: why, without a full stop."""

    run: ComparedRun
    arm: str | None
    reason: str


@dataclass(frozen=True)
class Grouping:
    """arms: in the order of their first runs. baseline: one of them; None where there is no arm. announcements: what
    differs inside the arms though it should not."""

    arms: tuple[Arm, ...]
    baseline: Arm | None
    set_aside: tuple[SetAside, ...] = ()
    announcements: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Stratum:
    """Runs of one arm that are equal in everything but the seed. context: what must be equal between arms, too."""

    context: str
    runs: tuple[ComparedRun, ...]

    @property
    def tokens(self) -> int:
        """Training tokens of a run."""
        return self.runs[0].horizon_tokens or 0

    def seeds(self, *, ended: bool) -> set[int]:
        """ended: only of runs that reached the end of their schedule."""
        return {run.seed for run in self.runs if run.seed is not None and (not ended or run.end_loss is not None)}


def configuration_of(run: ComparedRun) -> str | None:
    """What makes a run belong to an arm: its residual section without the keys that only change clocks. None where
    the run does not say."""
    section = run.resolved.get("residual")
    if not run.is_readable or not isinstance(section, Mapping):
        return None
    counts = {
        key: value
        for key, value in section.items()
        if (field := field_of(f"residual.{key}")) is None or field.rule is not Rule.TIMING
    }
    return json.dumps(counts, sort_keys=True, default=str)


def group_by_arm(
    runs: Sequence[ComparedRun],
    *,
    baseline: ComparedRun | str | None = None,
    groups: Sequence[str | None] | None = None,
) -> Grouping:
    """Sort the runs into arms. baseline: a run of the arm that all others are paired with, or that arm's name; without
    it the arm of the first run.

    groups: for each run the group it came from. Where several groups hold one and the same configuration, each group
    is an arm under its own name.
    """
    set_aside = [SetAside(run, None, "it cannot be read") for run in runs if configuration_of(run) is None]
    by_arm: dict[str, list[ComparedRun]] = {}
    names = arm_names(runs, groups)
    for run, name in zip(runs, names, strict=True):
        if name is not None:
            by_arm.setdefault(name, []).append(run)
    strata = {name: _strata(found) for name, found in by_arm.items()}
    if not strata:
        return Grouping((), None, tuple(set_aside))
    first = _name_of_baseline(by_arm, baseline)
    chosen = _chosen(strata, first)
    announcements: list[str] = []
    arms: list[Arm] = []
    for name, stratum in chosen.items():
        others = [each for each in strata[name] if each is not stratum]
        if others:
            announcements.append(_announcement(name, stratum, others))
        for other in others:
            what = _what_differs(stratum, other)
            set_aside += [SetAside(run, name, f"another {what}") for run in other.runs]
        kept, repeated = _one_per_seed(stratum.runs)
        set_aside += [SetAside(run, name, reason) for run, reason in repeated]
        arms.append(Arm(name, name, tuple(kept)))
    base = next(arm for arm in arms if arm.label == first)
    return Grouping(tuple(arms), base, tuple(set_aside), tuple(announcements))


def have_pairs(runs: Sequence[ComparedRun]) -> bool:
    """Whether two arms share two seeds or more, so that pairing by seed says more than single runs do."""
    seeds: dict[str, set[int]] = {}
    for run, name in zip(runs, arm_names(runs, None), strict=True):
        if name is not None and run.seed is not None:
            seeds.setdefault(name, set()).add(run.seed)
    return any(len(mine & other) > 1 for mine, other in combinations(seeds.values(), 2))


# ------------------------------------------------------------------ names


def arm_names(runs: Sequence[ComparedRun], groups: Sequence[str | None] | None) -> list[str | None]:
    """The arm of each run, None for one that does not say what it is."""
    configurations = [configuration_of(run) for run in runs]
    known = list(dict.fromkeys(each for each in configurations if each is not None))
    if groups and len(known) == 1 and len(set(groups)) > 1 and None not in groups:
        return [
            group if each is not None else None for group, each in zip(groups, configurations, strict=True)
        ]  # fmt: skip
    sections = [json.loads(each) for each in known]
    names = dict(zip(known, (_name(section, sections) for section in sections), strict=True))
    return [None if each is None else names[each] for each in configurations]


def _name(section: Mapping[str, Any], sections: Sequence[Mapping[str, Any]]) -> str:
    """The scheme; where several arms share it, with the keys that tell them apart: "SCHEME num_blocks=4"."""
    scheme = section.get("scheme")
    same = [each for each in sections if each.get("scheme") == scheme]
    keys = sorted({key for each in same for key in each})
    telling = [key for key in keys if any(each.get(key) != same[0].get(key) for each in same)]
    return " ".join([str(scheme), *(f"{key}={spelt_out(section.get(key))}" for key in telling)])


def _name_of_baseline(by_arm: Mapping[str, Sequence[ComparedRun]], baseline: ComparedRun | str | None) -> str:
    for name, runs in by_arm.items():
        if name == baseline or any(run is baseline for run in runs):
            return name
    return next(iter(by_arm))


# ------------------------------------------------------------------ which runs of an arm


def _strata(runs: Iterable[ComparedRun]) -> list[_Stratum]:
    """The runs of one arm by what differs beside the seed, in the order of their first runs."""
    found: dict[tuple[str, str], list[ComparedRun]] = {}
    for run in runs:
        found.setdefault((_values(run, Rule.EQUAL, Rule.SHAPE), _values(run, Rule.TUNED)), []).append(run)
    return [_Stratum(context, tuple(each)) for (context, _), each in found.items()]


def _values(run: ComparedRun, *rules: Rule) -> str:
    """What a run says in the fields of these rules, the seed and its residual section left out."""
    found = {}
    for key, value in run.facts.values.items():
        field = field_of(key)
        rule = Rule.EQUAL if field is None else field.rule
        if value is not None and rule in rules and key not in SEEDED and not key.startswith("residual."):
            found[key] = value
    return json.dumps(found, sort_keys=True, default=str)


def _chosen(strata: Mapping[str, Sequence[_Stratum]], first: str) -> dict[str, _Stratum]:
    """For every arm the runs that are compared: those which give the baseline's arm the most partners that ended, then
    the most partners, then the most runs, then the longest horizon; the earlier ones where that leaves a choice."""
    others = [each for name, each in strata.items() if name != first]

    def partners(mine: _Stratum, *, ended: bool) -> int:
        return sum(max(_shared(mine, each, ended=ended) for each in arm) for arm in others)

    best = max(
        strata[first],
        key=lambda mine: (partners(mine, ended=True), partners(mine, ended=False), len(mine.runs), mine.tokens),
    )

    def rank(other: _Stratum) -> tuple[int, ...]:
        shared = _shared(best, other, ended=True), _shared(best, other, ended=False)
        return (*shared, other.context == best.context, len(other.runs), other.tokens)

    return {name: best if name == first else max(each, key=rank) for name, each in strata.items()}


def _shared(mine: _Stratum, other: _Stratum, *, ended: bool) -> int:
    """Number of seeds with a partner."""
    if mine.context != other.context:
        return 0
    return len(mine.seeds(ended=ended) & other.seeds(ended=ended))


def _one_per_seed(runs: Sequence[ComparedRun]) -> tuple[list[ComparedRun], list[tuple[ComparedRun, str]]]:
    """(one run for each seed: of several that say the same the first that ended, else the first; the others with the
    reason). A run that does not say its seed repeats none."""
    kept: dict[int, ComparedRun] = {}
    for run in sorted(runs, key=lambda each: str(each.manifest.get("created"))):
        if run.seed is not None:
            before = kept.get(run.seed)
            if before is None or (before.end_loss is None and run.end_loss is not None):
                kept[run.seed] = run
    stands = [run.seed is None or run is kept[run.seed] for run in runs]
    chosen = [run for run, stays in zip(runs, stands, strict=True) if stays]
    repeated = [
        (run, f"it repeats seed {run.seed}, for which {kept[run.seed].label} stands")
        for run, stays in zip(runs, stands, strict=True)
        if not stays and run.seed is not None
    ]
    return chosen, repeated


# ------------------------------------------------------------------ words


def _hidden(stratum: _Stratum, other: _Stratum) -> list[Difference]:
    found = differences(stratum.runs[0].facts, other.runs[0].facts)
    wanted = (Rule.EQUAL, Rule.SHAPE, Rule.TUNED)
    return [each for each in found if each.rule in wanted and each.key not in SEEDED]


def _what_differs(stratum: _Stratum, other: _Stratum) -> str:
    return ", ".join(f"{each.label} ({_against(each)})" for each in _hidden(stratum, other))


def _against(difference: Difference) -> str:
    kept, other = map(spelt_out, difference.values)
    return f"{other}, not {kept}"


def _announcement(name: str, stratum: _Stratum, others: Sequence[_Stratum]) -> str:
    """ "inside ARM more than the seed differs: train.horizon_tokens; compared are the 5 runs with 204800"."""
    found = [difference for other in others for difference in _hidden(stratum, other)]
    kept = {difference.label: spelt_out(difference.values[0]) for difference in found}
    count = len(stratum.runs)
    of_which = ", ".join(f"{label} = {value}" for label, value in kept.items())
    return (
        f"inside {name} more than the seed differs: compared {'is the run' if count == 1 else f'are the {count} runs'} "
        f"with {of_which}"
    )
