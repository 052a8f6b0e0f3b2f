"""Pictures before anybody draws them: data, axes with units, and words for those who cannot see them.

Whoever builds a picture decides what is shown; a file of report/drawing/ decides how, in characters, as an image, or on
a page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

# One number per point; None is a gap.
Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class Axis:
    """label and unit as people read them: ("validation loss", "nats per token"). logarithmic: drawn so; all its
    values are positive. names: what stands at 0, 1, 2 … where the axis counts things that have names (sources, arms);
    empty on an axis of numbers."""

    label: str
    unit: str = ""
    logarithmic: bool = False
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclass(frozen=True)
class Series:
    """One curve. low, high: the interval around each y, or None where there is none. place: which arm of the
    comparison it belongs to, from 0 (the baseline), so that an arm looks the same in every picture. dashed: a second
    curve of the same arm. joined: False for points that no line joins, such as those on an axis of names."""

    label: str
    place: int
    x: tuple[float, ...]
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    dashed: bool = False
    joined: bool = True


@dataclass(frozen=True)
class Lines:
    """Curves over one horizontal axis. key: its name in files and options, unique in a report. alternative: what the
    picture shows, in one or two sentences with numbers. caption: what was measured, and what an interval is.

    y_range: the part of the vertical axis to show first, where the rest would flatten it; None: all of it. zero:
    whether y = 0 means something (no difference) and is drawn as a line.
    """

    key: str
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    alternative: str
    caption: str = ""
    y_range: tuple[float, float] | None = None
    zero: bool = False


@dataclass(frozen=True)
class Heat:
    """A grid of colours: values[row][column], row 0 at the top, None where there is nothing.

    value: what the colours mean. low, high: ends of the colour scale; panels that are compared get the same ones.
    diverging: whether the scale has a middle at zero (differences). marked: cells (row, column) that stand out.
    """

    key: str
    title: str
    x: Axis
    y: Axis
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[Numbers, ...]
    value: Axis
    low: float
    high: float
    alternative: str
    caption: str = ""
    diverging: bool = False
    marked: frozenset[tuple[int, int]] = frozenset()

    def share(self, value: float) -> float:
        """Where a value stands on the colour scale, 0 (low) to 1 (high); what lies beyond an end is at that end."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low))) if self.high > self.low else 0.5


@dataclass(frozen=True)
class Views:
    """Several pictures of one thing, of which one is shown at a time: training steps, or horizontal axes.

    by: what tells them apart ("training step"). names: one per view. shown: the one that is shown first, or alone
    where nobody can switch.
    """

    key: str
    title: str
    by: str
    names: tuple[str, ...]
    views: tuple[Lines | Heat, ...]
    shown: int = 0


Picture = Lines | Heat | Views


def as_drawn(picture: Lines) -> Lines:
    """The same curves with lower ends that a logarithmic axis has: an interval that reaches below its lower edge ends
    there. For the drawing alone: what is said of an interval, in a table or on hover, is where it really ends."""
    if not picture.y.logarithmic or picture.y_range is None:
        return picture
    edge = picture.y_range[0]

    def above(series: Series) -> Series:
        if series.low is None:
            return series
        return replace(series, low=tuple(None if value is None else max(value, edge) for value in series.low))

    return replace(picture, series=tuple(map(above, picture.series)))


def still(picture: Picture) -> Lines | Heat:
    """The picture that stands for `picture` where nobody can switch."""
    return picture.views[picture.shown] if isinstance(picture, Views) else picture


def all_stills(picture: Picture) -> Iterator[Lines | Heat]:
    """Every picture in it."""
    yield from picture.views if isinstance(picture, Views) else (picture,)


def to_dict(picture: Picture) -> dict[str, Any]:
    """Everything in a picture as plain values, with its kind ("lines", "heat", "views"), for JSON."""
    if isinstance(picture, Views):
        head = asdict(replace(picture, views=()))
        return {"kind": "views", **head, "views": [to_dict(view) for view in picture.views]}
    plain = asdict(picture)
    if isinstance(picture, Heat):
        plain["marked"] = [list(place) for place in sorted(picture.marked)]
    return {"kind": type(picture).__name__.lower(), **plain}
