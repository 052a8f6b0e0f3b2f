"""Figures by depth, as the observers and the probes recorded them, through training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Lines, Picture, Series, Views
from attnres_cli.report.pictures._probed import Probed, probe_words, probed
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
from attnres_cli.runs.metrics import number

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
    recorded = [(arm, [_by_step(run, figure) for run in arm.counted]) for arm in in_order(comparison)]
    steps = evenly(sorted({step for _, of_runs in recorded for found in of_runs for step in found}), MOST_STEPS)
    probes = [each for run in comparison.runs if (each := probed(run, figure.observer)) and each.numbers(figure.name)]
    views = [
        _view(comparison, figure, step, recorded, [each for each in probes if each.step == step]) for step in steps
    ]
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


def _view(
    comparison: Comparison,
    figure: Figure,
    step: int,
    recorded: Sequence[tuple[Arm, Sequence[ByStep]]],
    probes: Sequence[Probed],
) -> Lines:
    series: list[Series] = []
    counts: list[int] = []
    for arm, of_runs in recorded:
        lists = [values for found in of_runs if (values := latest_at(found, step))]
        if lists:
            curve = mean_curve(lists)
            x = tuple(float(figure.first + index) for index in range(len(curve.y)))
            series.append(series_of(comparison, arm, x, curve))
            counts.append(len(lists))
    title = f"{figure.title}, step {step:,}"
    caption = sentences(figure.caption, seeds_words(comparison, counts), probe_words(probes) if probes else "")
    return Lines(figure.key, title, figure.x, figure.y, tuple(series), told(title, series, figure.x), caption)


def _by_step(run: ComparedRun, figure: Figure) -> ByStep:
    """Step → the figure's list; a probe, which looked at more tokens, goes before the observer."""
    found: dict[int, Values] = {}
    for step, row in run.observed.get(figure.observer, {}).items():
        summary = row.get("summary")
        values = summary.get(figure.name) if isinstance(summary, Mapping) else None
        if isinstance(values, list):
            found[step] = [number({"value": value}, "value") for value in values]
    probe = probed(run, figure.observer)
    if probe is not None and (values := probe.numbers(figure.name)):
        found[probe.step] = values
    return {step: numbers for step, numbers in found.items() if any(value is not None for value in numbers)}
