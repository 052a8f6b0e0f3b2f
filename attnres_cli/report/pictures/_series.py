"""From the lists of several runs to one curve with its interval, and from curves to words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attnres_cli.analysis.paired import mean_interval
from attnres_cli.report.arms import Arm
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Lines, Numbers, Series

# So many times the smallest value, and the axis is logarithmic.
WIDE_RANGE = 10.0
MOST_TOLD = 6

Values = Sequence[float | None]


@dataclass(frozen=True)
class Curve:
    """One number per point over some runs: their mean, and its 95 % interval where there are two or more."""

    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None


def mean_curve(lists: Sequence[Values]) -> Curve:
    """Element by element over the runs; a gap where a run's list is shorter or has one: a mean over the rest would
    hide it."""
    points = [_point(column) for column in _columns(lists)]
    y = tuple(point[0] for point in points)
    if len(lists) < 2:
        return Curve(y)
    return Curve(y, tuple(point[1] for point in points), tuple(point[2] for point in points))


def _columns(lists: Sequence[Values]) -> list[list[float | None]]:
    longest = max(map(len, lists), default=0)
    return [[each[index] if index < len(each) else None for each in lists] for index in range(longest)]


def _point(values: Values) -> tuple[float | None, float | None, float | None]:
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known or len(known) < len(values):
        return None, None, None
    if len(known) == 1:
        return known[0], None, None
    return mean_interval(known)


def series_of(comparison: Comparison, arm: Arm, x: Sequence[float], curve: Curve) -> Series:
    """The curve as the arm's."""
    return Series(arm.title, place_of(comparison, arm), tuple(x), curve.y, curve.low, curve.high)


def place_of(comparison: Comparison, arm: Arm) -> int:
    """0 for the baseline, then the others in their order."""
    return next(index for index, each in enumerate([comparison.baseline, *comparison.others]) if each is arm)


def in_order(comparison: Comparison) -> list[Arm]:
    """The arms by their places."""
    return [comparison.baseline, *comparison.others]


def key_for(stem: str, comparison: Comparison, arm: Arm) -> str:
    """The key of a picture of one arm: "depth-weights-attnres-block". Where other arms would get the same one, their
    places tell them apart."""

    def slug(each: Arm) -> str:
        return re.sub(r"[^a-z0-9]+", "-", each.label.lower()).strip("-") or "arm"

    own = slug(arm)
    alike = sum(slug(each) == own for each in comparison.arms) > 1
    return f"{stem}-{own}" + (f"-{place_of(comparison, arm)}" if alike else "")


def seeds_words(comparison: Comparison, counts: Sequence[int]) -> str:
    """What curves stand for: "mean over 3 runs, band: its 95 % interval"; nothing for single runs. counts: of the runs
    behind each curve."""
    if not comparison.by_seed:
        return ""
    ends = sorted({min(counts), max(counts)})
    if ends == [1]:
        return "one run per arm"
    return f"mean over {' to '.join(map(str, ends))} runs, band: its 95 % interval (Student's t)"


def sentences(*parts: str) -> str:
    """Parts of a caption as sentences."""
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)


# ---------------------------------------------------------------------- scales


def on_fitting_scale(lines: Sequence[Lines], *, linear: bool = False) -> tuple[Lines, ...]:
    """The same pictures on one vertical scale that holds every mean, and zero where it means something; logarithmic, if
    it may be, where the means spread over more than a factor of ten. An interval may widen the scale by twice the
    spread of the means on either side (once where it is logarithmic) and is cut off there: with two runs it is so wide
    that it would flatten everything else."""
    y = [value for each in lines for series in each.series for value in series.y if value is not None]
    if not y:
        return tuple(lines)
    y += [0.0] if any(each.zero for each in lines) else []
    logarithmic = not linear and min(y) > 0 and max(y) > WIDE_RANGE * min(y)
    forth, back = (math.log, math.exp) if logarithmic else (float, float)
    low, high = forth(min(y)), forth(max(y))
    margin = 0.05 * (high - low) or 0.05 * abs(low) or 0.1
    room = max((1 if logarithmic else 2) * (high - low), margin)
    limits = [value for each in lines for series in each.series for value in _limits(series)]
    if logarithmic:
        limits = [max(value, back(low - room)) for value in limits]
    bottom = min([low - margin, *(max(forth(value), low - room) for value in limits)])
    top = max([high + margin, *(min(forth(value), high + room) for value in limits)])
    if not logarithmic and min(y) >= 0 and 0.0 not in y:
        bottom = max(0.0, bottom)
    ends = back(bottom), back(top)
    return tuple(replace(each, y=replace(each.y, logarithmic=logarithmic), y_range=ends) for each in lines)


def _limits(series: Series) -> list[float]:
    """Ends of the intervals."""
    return [value for side in (series.low, series.high) for value in side or () if value is not None]


# ---------------------------------------------------------------------- words


def told(what: str, series: Sequence[Series], x: Axis) -> str:
    """The alternative text of curves: the ends of each, and the largest difference to the baseline's."""
    ends = [said for each in series if (said := _ends(each, x))]
    if not ends:
        return f"{what}: nothing was recorded."
    more = f"; and {len(ends) - MOST_TOLD} more" if len(ends) > MOST_TOLD else ""
    text = f"{what}: {'; '.join(ends[:MOST_TOLD])}{more}."
    return f"{text} {gap}" if (gap := _largest_gap(series, x)) else text


def _ends(series: Series, x: Axis) -> str:
    known = [(at, y) for at, y in zip(series.x, series.y, strict=True) if y is not None]
    if not known:
        return ""
    if not series.joined:
        top, bottom = (pick(known, key=lambda point: point[1]) for pick in (max, min))
        highest = f"{series.label} highest {top[1]:.3g} ({_at(top[0], x)})"
        return highest if top == bottom else f"{highest}, lowest {bottom[1]:.3g} ({_at(bottom[0], x)})"
    if len(known) == 1:
        return f"{series.label} {known[0][1]:.4g} at {_at(known[0][0], x)}"
    return f"{series.label} from {known[0][1]:.4g} to {known[-1][1]:.4g}"


def _largest_gap(series: Sequence[Series], x: Axis) -> str:
    base = next((each for each in series if each.place == 0 and not each.dashed), None)
    if base is None:
        return ""
    theirs = {at: y for at, y in zip(base.x, base.y, strict=True) if y is not None}
    gaps = [
        (y - theirs[at], at, each.label)
        for each in series
        if each.place and not each.dashed
        for at, y in zip(each.x, each.y, strict=True)
        if y is not None and at in theirs
    ]
    gap, at, label = max(gaps, key=lambda found: abs(found[0]), default=(0.0, 0.0, ""))
    if not gap:
        return ""
    return f"The largest difference to {base.label} is {gap:+.3g}, of {label} at {_at(at, x)}."


def _at(x: float, axis: Axis) -> str:
    if axis.names:
        return axis.names[int(x)]
    number = f"{x:,.0f}" if x == round(x) and abs(x) < 1e12 else f"{x:.3g}"
    if not any(word.endswith("s") for word in axis.label.split()):
        return f"{axis.label} {number}"  # "sublayer 3", but "3 training tokens"
    return f"{number} {axis.label.replace('blocks', 'block') if x == 1 else axis.label}"
