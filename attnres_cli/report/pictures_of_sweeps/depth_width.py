"""A depth-width sweep: the loss of every shape as a heat map per scheme, and the differences to the first scheme.

Without a second axis of heads the schemes are the rows of one grid, and the losses are drawn as curves, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from attnres_cli.report.numbers import short_count
from attnres_cli.report.picture import Axis, Heat, Lines, Numbers, Picture
from attnres_cli.report.pictures._series import on_fitting_scale, sentences, told
from attnres_cli.report.pictures_of_sweeps._curves import LOSS, has_points, loss_curve, seeds_words
from attnres_cli.report.sweep_grid import QUANTITIES, Grid, Place
from attnres_cli.report.sweep_results import SweepDocument

RATIO = Axis("d_model / L_b")
HEADS = Axis("heads / L_b")
DELTA = Axis("Δ loss", "nats per token")


def build(document: SweepDocument) -> list[Picture]:
    grid = Grid.of(document)
    found: list[Picture] = []
    if grid.has_head_axis:
        found += [each for label in grid.labels if (each := _losses(grid, label))]
        found += [each for label in grid.labels[1:] if (each := _differences(grid, label))]
    else:
        found += [*_curves(grid), *_by_scheme(grid)]
    return found


# ---------------------------------------------------------------------- one axis: the schemes are rows


def _curves(grid: Grid) -> tuple[Lines, ...]:
    places = [(column, grid.cells[None, column]["key"]) for column in grid.columns if (None, column) in grid.cells]
    series = [
        curve for label in grid.labels if has_points(curve := loss_curve(grid.results, label, places))
    ]  # fmt: skip
    if not series:
        return ()
    x = Axis(RATIO.label, logarithmic=True)
    title = "Validation loss by shape"
    caption = sentences(_matched(grid), seeds_words(grid.results), "left: deep and narrow, right: shallow and wide")
    return on_fitting_scale([Lines("shapes", title, x, LOSS, tuple(series), told(title, series, x), caption)])


def _by_scheme(grid: Grid) -> list[Heat]:
    found = []
    losses = [tuple(grid.loss((None, column), label) for column in grid.columns) for label in grid.labels]
    if scale := _span(losses):
        marked = {
            (row, grid.columns.index(place[1]))
            for row, label in enumerate(grid.labels)
            if (place := grid.lowest(label)) is not None
        }
        found.append(
            _heat(grid, "loss-grid", "Validation loss by shape and scheme", grid.labels, losses, LOSS, scale, marked)
        )
    others = grid.labels[1:]
    deltas = [tuple(_delta(grid, (None, column), label) for column in grid.columns) for label in others]
    if scale := _span(deltas):
        shown = {
            (row, at)
            for row, label in enumerate(others)
            for at, column in enumerate(grid.columns)
            if _is_shown(grid, (None, column), label)
        }
        title = f"Loss minus that of {grid.labels[0]} by shape"
        found.append(_heat(grid, "difference-grid", title, others, deltas, DELTA, _both_ways(scale), shown))
    return found


# ---------------------------------------------------------------------- two axes: a grid per scheme


def _losses(grid: Grid, label: str) -> Heat | None:
    values = [tuple(grid.loss((row, column), label) for column in grid.columns) for row in grid.rows]
    everyone = [tuple(grid.loss(place, each) for place in grid.places()) for each in grid.labels]
    scale, lowest = _span(everyone), grid.lowest(label)
    if scale is None or _span(values) is None:
        return None
    marked = set() if lowest is None else {(grid.rows.index(lowest[0]), grid.columns.index(lowest[1]))}
    title = f"Validation loss by shape, {label}"
    return _heat(grid, f"loss-grid-{label}", title, _head_names(grid), values, LOSS, scale, marked)


def _differences(grid: Grid, label: str) -> Heat | None:
    values = [tuple(_delta(grid, (row, column), label) for column in grid.columns) for row in grid.rows]
    everyone = [tuple(_delta(grid, place, each) for place in grid.places()) for each in grid.labels[1:]]
    scale = _span(everyone)
    if scale is None or _span(values) is None:
        return None
    shown = {
        (at_row, at)
        for at_row, row in enumerate(grid.rows)
        for at, column in enumerate(grid.columns)
        if _is_shown(grid, (row, column), label)
    }
    title = f"Loss of {label} minus that of {grid.labels[0]} by shape"
    return _heat(grid, f"difference-grid-{label}", title, _head_names(grid), values, DELTA, _both_ways(scale), shown)


# ---------------------------------------------------------------------- what both have


def _heat(
    grid: Grid,
    key: str,
    title: str,
    rows: Sequence[str],
    values: Sequence[Numbers],
    value: Axis,
    scale: tuple[float, float],
    marked: set[tuple[int, int]],
) -> Heat:
    is_delta = value is DELTA
    columns = tuple(f"{column:g}" for column in grid.columns)
    meaning = "marked: a difference that the seeds show" if is_delta else "marked: lowest"
    return Heat(
        key, title, RATIO, HEADS if grid.has_head_axis else Axis("scheme"), columns, tuple(rows), tuple(values), value,
        *scale, _told(grid, title, rows, columns, values, is_delta=is_delta),
        sentences(_matched(grid), seeds_words(grid.results).partition(",")[0], meaning if marked else ""),
        diverging=is_delta, marked=frozenset(marked),
    )  # fmt: skip


def _told(
    grid: Grid, title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Numbers], *, is_delta: bool
) -> str:
    """Lowest and highest cell of the grid, or of each of its rows where those are schemes."""

    def ends(cells: Sequence[tuple[float, str]]) -> str:
        (low, where_low), (high, where_high) = min(cells), max(cells)
        sign = "+" if is_delta else ""
        return f"lowest {low:{sign}.4f} at {where_low}, highest {high:{sign}.4f} at {where_high}"

    cells = [
        [(value, f"{RATIO.label} {column}" + (f", {HEADS.label} {row}" if grid.has_head_axis else ""))
         for column, value in zip(columns, of_row, strict=True) if value is not None]
        for row, of_row in zip(rows, values, strict=True)
    ]  # fmt: skip
    if grid.has_head_axis:
        return f"{title}: {ends([cell for row in cells for cell in row])}."
    return f"{title}: {'; '.join(f'{row} {ends(of_row)}' for row, of_row in zip(rows, cells, strict=True) if of_row)}."


def _matched(grid: Grid) -> str:
    """What all cells share."""
    document = grid.document
    _, words = QUANTITIES[document["request"]["match"]]
    return f"all shapes with the same {words} and {short_count(document['tokens'])} training tokens"


def _head_names(grid: Grid) -> tuple[str, ...]:
    return tuple(f"{row:g}" for row in grid.rows if row is not None)


def _delta(grid: Grid, place: Place, label: str) -> float | None:
    found = grid.difference(place, label)
    return None if found is None else found.mean


def _is_shown(grid: Grid, place: Place, label: str) -> bool:
    found = grid.difference(place, label)
    return found is not None and found.outcome in ("lower", "higher")


def _span(values: Sequence[Numbers]) -> tuple[float, float] | None:
    """The smallest and the largest; None where there is no number."""
    known = [value for row in values for value in row if value is not None]
    return (min(known), max(known)) if known else None


def _both_ways(scale: tuple[float, float]) -> tuple[float, float]:
    """As far below zero as above."""
    largest = max(abs(scale[0]), abs(scale[1])) or 1e-6
    return -largest, largest
