"""Figures by depth, as the observers and the probes recorded them, through training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Lines, Picture, Series, Views
from attnres_cli.report.pictures._probed import (
    Probed,
    may_be_averaged,
    observers_words,
    partly_words,
    probe_words,
    probed,
)
from attnres_cli.report.pictures._series import (
    Values,
    in_order,
    mean_curve,
    on_fitting_scale,
    seeds_words,
    sentences,
    series_of,
    told,
)

SUBLAYERS = Axis("sublayer", "first: 0")
BLOCKS = Axis("transformer block", "first: 0")
BLOCKS_PASSED = Axis("transformer blocks passed", "0: the embedding")
# A slider with more steps than this shows no more.
MOST_STEPS = 16


@dataclass(frozen=True)
class Figure:
    """One list of numbers by depth. observer, name: where it is recorded; a probe of the same name has it, too.
    first: what stands at index 0 of the list, on the axis."""

    key: str
    title: str
    observer: str
    name: str
    x: Axis
    y: Axis
    caption: str
    first: int = 0


# What a run has of a figure, by step.
ByStep = Mapping[int, Values]


def build_figure(comparison: Comparison, figure: Figure) -> list[Picture]:
    """One view per training step at which a run has the figure, evenly chosen where they are many; none where no run
    has it. The last step is that of the run that went furthest."""
    recorded = _recorded(comparison, figure)
    of_all = [found for _, of_runs in recorded.by_arm for found in of_runs]
    steps = evenly(sorted({step for found in of_all for step in found}), MOST_STEPS)
    views = [_view(comparison, figure, step, recorded) for step in steps]
    return [views_by_step(figure.key, figure.title, on_fitting_scale(views), steps)] if views else []


def evenly(values: Sequence[int], most: int) -> list[int]:
    """At most so many of the values, evenly spaced among them, the first and the last included."""
    if len(values) <= most:
        return list(values)
    return [values[round(index * (len(values) - 1) / (most - 1))] for index in range(most)]


def views_by_step(key: str, title: str, views: Sequence[Lines], steps: Sequence[int]) -> Picture:
    """The views with the last step shown first; a single one by itself."""
    if len(views) == 1:
        return views[0]
    return Views(key, title, "training step", tuple(f"{step:,}" for step in steps), tuple(views), len(views) - 1)


def latest_at(rows: ByStep, step: int) -> Values | None:
    """What a run has at a step. A run that ended earlier is shown as it ended: it will not change any more."""
    if step in rows:
        return rows[step]
    last = max(rows, default=None)
    return rows[last] if last is not None and last < step else None


@dataclass(frozen=True)
class _Recorded:
    """What every counted run has. probes: those that know the figure; are_shown: in place of what observers recorded
    at their step."""

    by_arm: Sequence[tuple[Arm, Sequence[ByStep]]]
    probes: Sequence[Probed]
    are_shown: bool

    def words(self, step: int) -> str:
        """What was looked at, and in which runs."""
        probes = [each for each in self.probes if each.step == step]
        arms = [arm for arm, _ in self.by_arm]
        if not self.are_shown:
            return observers_words(arms, probes and self.probes)
        partly = (partly_words(arm, [each for each in probes if _is_of(arm, each)]) for arm in arms)
        return "; ".join(said for said in (probe_words(probes), *partly) if said) if probes else ""


def _is_of(arm: Arm, probe: Probed) -> bool:
    return any(run.path == probe.run for run in arm.counted)


def _recorded(comparison: Comparison, figure: Figure) -> _Recorded:
    """A probe, which looked at more tokens, goes before the observers where every run has the same, and where there are
    no observers."""
    arms = in_order(comparison)
    probes = {run.path: _probe(run, figure) for arm in arms for run in arm.counted}
    observed = [(arm, [_observed(run, figure) for run in arm.counted]) for arm in arms]
    found = [each for each in probes.values() if each is not None]
    are_shown = may_be_averaged(list(probes.values())) or not any(any(of_runs) for _, of_runs in observed)
    if are_shown:
        observed = [
            (arm, [_with_probe(each, probes[run.path], figure) for each, run in zip(of_runs, arm.counted, strict=True)])
            for arm, of_runs in observed
        ]
    return _Recorded(observed, found, are_shown)


def _view(comparison: Comparison, figure: Figure, step: int, recorded: _Recorded) -> Lines:
    series: list[Series] = []
    counts: list[int] = []
    for arm, of_runs in recorded.by_arm:
        lists = [values for found in of_runs if (values := latest_at(found, step))]
        if lists:
            curve = mean_curve(lists)
            x = tuple(float(figure.first + index) for index in range(len(curve.y)))
            series.append(series_of(comparison, arm, x, curve))
            counts.append(len(lists))
    title = f"{figure.title}, step {step:,}"
    caption = sentences(figure.caption, seeds_words(comparison, counts), recorded.words(step))
    return Lines(figure.key, title, figure.x, figure.y, tuple(series), told(title, series, figure.x), caption)


def _observed(run: ComparedRun, figure: Figure) -> ByStep:
    """Step → the figure's list, from the observers."""
    found: dict[int, Values] = {}
    for step, row in run.observed.get(figure.observer, {}).items():
        values = (row.get("summary") or {}).get(figure.name)
        if values and any(value is not None for value in values):
            found[step] = values
    return found


def _probe(run: ComparedRun, figure: Figure) -> Probed | None:
    """The run's probe, if it knows the figure."""
    found = probed(run, figure.observer)
    values = found.numbers(figure.name) if found is not None else None
    return found if values and any(value is not None for value in values) else None


def _with_probe(observed: ByStep, probe: Probed | None, figure: Figure) -> ByStep:
    values = None if probe is None else probe.numbers(figure.name)
    return {**observed, probe.step: values} if probe is not None and values else observed
