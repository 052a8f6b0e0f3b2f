"""The numbers of a picture as a table: for those who cannot see it, and for formats without pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnres_cli.report.picture import Axis, Heat, Lines, Series
from attnres_cli.report.table import Cell, Column, Row, Table

# A longer curve is shown at so many of its points, evenly spread, the first and the last among them.
MOST_ROWS = 40


def data_table(view: Lines | Heat) -> Table:
    """A row per point of the horizontal axis and a column per curve, or the grid as it is."""
    return _of_lines(view) if isinstance(view, Lines) else _of_heat(view)


def _of_lines(view: Lines) -> Table:
    points = sorted({x for series in view.series for x in series.x})
    shown = points if len(points) <= MOST_ROWS else _spread(points)
    columns = [_axis_column(view.x)]
    rows: list[dict[str, Any]] = [{"x": _on_axis(x, view.x)} for x in shown]
    for number, series in enumerate(view.series):
        columns += _series_columns(series, number, view.y)
        values = _by_x(series)
        for row, x in zip(rows, shown, strict=True):
            row |= {f"{name}_{number}": value for name, value in values.get(x, {}).items()}
    left_out = "" if len(shown) == len(points) else f"{len(shown)} of {len(points):,} points, evenly spread"
    return Table(f"{view.key}-numbers", f"{view.title}: numbers", tuple(columns), tuple(rows), caption=left_out)


def _series_columns(series: Series, number: int, y: Axis) -> list[Column]:
    unit = "" if y.names else y.unit
    kind = "text" if y.names else "number"
    found = [Column(f"y_{number}", series.label, unit, kind, digits=4)]  # type: ignore[arg-type]
    if series.low is not None and series.high is not None:
        found += [Column(f"{end}_{number}", end, "95 %", "number", digits=4) for end in ("low", "high")]
    return found


def _by_x(series: Series) -> Mapping[float, Mapping[str, float | None]]:
    none = (None,) * len(series.x)
    low, high = series.low or none, series.high or none
    points = zip(series.x, series.y, low, high, strict=True)
    return {x: {"y": y, "low": bottom, "high": top} for x, y, bottom, top in points}


def _axis_column(axis: Axis) -> Column:
    return Column("x", axis.label, axis.unit, "text" if axis.names else "number", digits=4)


def _on_axis(value: float, axis: Axis) -> Cell | float:
    if axis.names:
        return Cell(axis.names[int(value)])
    return Cell(value, text=f"{value:,.0f}") if value == round(value) and abs(value) < 1e15 else value


def _spread(points: list[float]) -> list[float]:
    last = len(points) - 1
    return [points[round(index * last / (MOST_ROWS - 1))] for index in range(MOST_ROWS)]


def _of_heat(view: Heat) -> Table:
    columns = [
        Column("row", f"{view.y.label} \\ {view.x.label}"),
        *(
            Column(f"column_{number}", name, kind="number", digits=3, signed=view.diverging)
            for number, name in enumerate(view.columns)
        ),
    ]
    rows: list[Row] = [
        {"row": name, **{f"column_{number}": value for number, value in enumerate(values)}}
        for name, values in zip(view.rows, view.values, strict=True)
    ]
    caption = f"the numbers are: {view.value.text}"
    return Table(f"{view.key}-numbers", f"{view.title}: numbers", tuple(columns), tuple(rows), caption=caption)
