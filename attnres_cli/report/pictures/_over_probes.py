"""Curves that only probes know: one per arm, with the interval over its seeds, or of a single run over sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnres_cli.report.arms import Arm
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Lines, Series
from attnres_cli.report.pictures._probed import Probed, partly_words, probe_words, probed
from attnres_cli.report.pictures._series import Curve, in_order, mean_curve, sentences, series_of, told


@dataclass(frozen=True)
class Measure:
    """An array of a probe with, where it has them, the ends of its interval (`<name>_low`, `<name>_high`). first: what
    stands at index 0. zero: whether 0 means "no difference"."""

    key: str
    title: str
    probe: str
    name: str
    x: Axis
    y: Axis
    caption: str
    first: int = 0
    zero: bool = False


def build_measure(comparison: Comparison, measure: Measure) -> list[Lines]:
    """One picture, or none where no run was probed so."""
    series: list[Series] = []
    found: list[Probed] = []
    partly: list[str] = []
    for arm in in_order(comparison):
        each = probed_runs(arm, measure.probe)
        curve = curve_of(each, measure.name)
        if curve is not None:
            x = tuple(float(measure.first + index) for index in range(len(curve.y)))
            series.append(series_of(comparison, arm, x, curve))
            found += each
            partly.append(partly_words(arm, each))
    if not series:
        return []
    caption = sentences(measure.caption, interval_words(found, series), probe_words(found), *partly)
    return [
        Lines(
            measure.key, measure.title, measure.x, measure.y, tuple(series), told(measure.title, series, measure.x),
            caption, zero=measure.zero,
        )
    ]  # fmt: skip


def probed_runs(arm: Arm, probe: str) -> list[Probed]:
    return [found for run in arm.counted if (found := probed(run, probe)) is not None]


def curve_of(found: Sequence[Probed], name: str) -> Curve | None:
    """The mean over the runs with its interval; of a single run what its probe measured."""
    lists = [values for each in found if (values := each.numbers(name))]
    if not lists:
        return None
    if len(lists) == 1:
        own = next(each for each in found if each.numbers(name))
        return Curve(lists[0], own.numbers(f"{name}_low"), own.numbers(f"{name}_high"))
    return mean_curve(lists)


def interval_words(found: Sequence[Probed], series: Sequence[Series]) -> str:
    """What the intervals are over."""
    if not any(each.low for each in series):
        return ""
    if len(found) > len(series):
        return "mean over the probed runs of an arm with its 95 % interval (Student's t)"
    return "interval: 95 % over validation sequences (Student's t)"
