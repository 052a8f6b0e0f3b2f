"""How many hops each scheme follows: the deepest number solved by depth, and the share of right answers by number of
hops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnres_cli.report.picture import Axis, Lines, Picture, Series, Views
from attnres_cli.report.pictures._series import mean_curve, sentences, told
from attnres_cli.report.pictures_of_sweeps._curves import seeds_words
from attnres_cli.report.sweep_results import Results, SweepDocument
from attnres_cli.report.sweeps.hops import payload

DEPTH = Axis("transformer blocks")
HOPS = Axis("number of hops")
SOLVED = Axis("largest number of hops solved")
ANSWERS = Axis("share of right answers")
ROOM = 0.03

Run = dict[str, Any]


def build(document: SweepDocument) -> list[Picture]:
    runs: list[Run] = payload(document)["hops"]
    if not runs:
        return []
    results = Results.of(document)
    cells = sorted(document["cells"], key=lambda cell: float(cell["coordinates"]["transformer_blocks"]))
    found: list[Picture] = [_solved(document, results, cells, runs)]
    views = {
        str(cell["coordinates"]["transformer_blocks"]): _answers(document, results, cell, of_cell)
        for cell in cells
        if (of_cell := [run for run in runs if run["cell"] == cell["key"]])
    }
    if len(views) == 1:
        return [*found, *views.values()]
    title = "Right answers by number of hops"
    return [*found, Views("hops", title, DEPTH.label, tuple(views), tuple(views.values()), len(views) - 1)]


def _solved(document: SweepDocument, results: Results, cells: Sequence[Any], runs: Sequence[Run]) -> Lines:
    """What more than half of the seeds solve, over depth."""
    series = []
    for place, label in enumerate(results.labels):
        points = [
            (float(cell["coordinates"]["transformer_blocks"]), float(_of_most(solved)))
            for cell in cells
            if (solved := [run["deepest_solved"] for run in runs if (run["cell"], run["arm"]) == (cell["key"], label)])
        ]
        if points:
            x, y = (tuple(point[side] for point in points) for side in (0, 1))
            series.append(Series(label, place, x, y))
    title = "Hops solved by depth"
    caption = sentences(
        f"solved: at least {document['facts']['solved_accuracy']:.0%} right answers at that number of hops and at "
        "every smaller one, by more than half of the seeds"
    )
    ends = (-ROOM * document["facts"]["hops"], (1 + ROOM) * document["facts"]["hops"])
    return Lines("hops-solved", title, DEPTH, SOLVED, tuple(series), told(title, series, DEPTH), caption, y_range=ends)


def _of_most(solved: Sequence[int]) -> int:
    """The largest number that more than half of the runs reach."""
    return sorted(solved)[(len(solved) - 1) // 2]


def _answers(document: SweepDocument, results: Results, cell: Any, runs: Sequence[Run]) -> Lines:
    """At one depth, over the number of hops."""
    hops = range(1, document["facts"]["hops"] + 1)
    series = []
    for place, label in enumerate(results.labels):
        lists = [[run["accuracy"][str(k)] for k in hops] for run in runs if run["arm"] == label]
        if lists:
            curve = mean_curve(lists)
            series.append(Series(label, place, tuple(map(float, hops)), curve.y, curve.low, curve.high))
    blocks = cell["coordinates"]["transformer_blocks"]
    title = f"Right answers by number of hops, {blocks} transformer blocks"
    said = told(title, series, HOPS)
    caption = sentences(seeds_words(results))
    return Lines("hops", title, HOPS, ANSWERS, tuple(series), said, caption, y_range=(-ROOM, 1 + ROOM))
