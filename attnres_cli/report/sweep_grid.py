"""What a depth-width document says about its grid: losses, lowest cells, and how they moved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnres_cli.analysis.paired import FEWEST_PAIRS
from attnres_cli.report.cell_rates import cell_rates
from attnres_cli.report.sweep_results import (
    FAILURES,
    UNFINISHED,
    Contrast,
    Mean,
    Results,
    SweepDocument,
    against_reference,
    contrast,
)

# Where a cell stands: (heads/L_b or None, d_model/L_b), as asked for.
Place = tuple[float | None, float]

# What --match can hold equal: its key in the counts of a cell, and its name for people.
QUANTITIES = {
    "parameters": ("non_embedding_parameters", "non-embedding parameters"),
    "flops": ("training_flops_per_token", "training FLOPs per token"),
}


@dataclass(frozen=True)
class Grid:
    """What a sweep document says, by place in the grid. differences: by (cell key, arm), against the first arm,
    corrected over the whole grid."""

    document: SweepDocument
    results: Results
    rows: tuple[float | None, ...]
    columns: tuple[float, ...]
    cells: Mapping[Place, Mapping[str, Any]]
    differences: Mapping[tuple[str, str], Contrast]

    @classmethod
    def of(cls, document: SweepDocument) -> Grid:
        asked = [each["coordinates"] for each in (*document["cells"], *document["impossible"])]
        results = Results.of(document)
        return cls(
            document=document,
            results=results,
            rows=tuple(sorted({each["head_ratio"] for each in asked}, key=lambda ratio: ratio or 0.0)),
            columns=tuple(sorted({each["ratio"] for each in asked})),
            cells={place_of(cell): cell for cell in document["cells"]},
            differences=against_reference(results),
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return self.results.labels

    @property
    def has_head_axis(self) -> bool:
        return self.rows != (None,)

    @property
    def pairs(self) -> int:
        return self.results.num_seeds

    def mean(self, place: Place, label: str) -> Mean | None:
        """The final validation loss in nats per token over the seeds that have one, None where there is none (yet)."""
        cell = self.cells.get(place)
        return None if cell is None else self.results.mean(cell["key"], label)

    def loss(self, place: Place, label: str) -> float | None:
        mean = self.mean(place, label)
        return None if mean is None else mean.value

    def difference(self, place: Place, label: str) -> Contrast | None:
        """An arm's loss minus the first arm's, paired by seed."""
        cell = self.cells.get(place)
        return None if cell is None else self.differences.get((cell["key"], label))

    def status(self, place: Place, label: str) -> str | None:
        cell = self.cells.get(place)
        return None if cell is None else self.results.status(cell["key"], label)

    def has_failed(self, place: Place, label: str) -> bool:
        return self.status(place, label) in FAILURES

    def places(self) -> list[Place]:
        return [(row, column) for row in self.rows for column in self.columns]

    def compared(self) -> list[Place]:
        """The places where every scheme has every loss: only among these may the lowest cells be compared."""
        return [
            place
            for place in self.places()
            if place in self.cells
            and all(self.results.is_complete(self.cells[place]["key"], label) for label in self.labels)
        ]

    def lowest(self, label: str) -> Place | None:
        """The place of the lowest loss among `compared`, None when there is none."""
        return min(self.compared(), key=lambda place: self._rank(place, label), default=None)

    def runner_up(self, label: str) -> Place | None:
        """The place of the second lowest loss among `compared`."""
        ranked = sorted(self.compared(), key=lambda place: self._rank(place, label))
        return ranked[1] if len(ranked) > 1 else None

    def is_shown(self, label: str) -> bool:
        """Whether the lowest cell is lower than each of its neighbours by more than the interval of the difference,
        paired by seed: then it is a minimum that another set of seeds would find, too. Not while runs are to come: they
        may bring a lower cell, or a neighbour."""
        place = self.lowest(label)
        if place is None or self.pairs < FEWEST_PAIRS or self.results.waiting:
            return False
        neighbours = self.neighbours(place)
        found = [contrast(self.losses(place, label), self.losses(each, label)) for each in neighbours]
        return bool(neighbours) and all(each is not None and each.mean + each.half < 0 for each in found)

    def neighbours(self, place: Place) -> list[Place]:
        """The nearest compared cells on either side along each axis."""
        compared = self.compared()
        row = [each for each in compared if each[0] == place[0]]
        column = [each for each in compared if each[1] == place[1]]
        return [*_beside(place, sorted(row, key=_ratio)), *_beside(place, sorted(column, key=_head_ratio))]

    def edges(self, place: Place) -> list[str]:
        """On which edges of the compared cells a place lies; none along an axis with fewer than two values."""
        found = []
        columns = sorted({ratio for _, ratio in self.compared()})
        rows = sorted({ratio for ratio, _ in self.compared() if ratio is not None})
        if len(columns) > 1 and place[1] in (columns[0], columns[-1]):
            found.append(f"the {'smallest' if place[1] == columns[0] else 'largest'} d_model/L_b")
        if len(rows) > 1 and place[0] in (rows[0], rows[-1]):
            found.append(f"the {'smallest' if place[0] == rows[0] else 'largest'} heads/L_b")
        return found

    def losses(self, place: Place, label: str) -> Mapping[int, float]:
        """Of a cell that is there, by seed."""
        return self.results.losses(self.cells[place]["key"], label)

    def _rank(self, place: Place, label: str) -> float:
        loss = self.loss(place, label)
        return math.inf if loss is None else loss


def place_of(cell: Mapping[str, Any]) -> Place:
    return cell["coordinates"]["head_ratio"], cell["coordinates"]["ratio"]


def _ratio(place: Place) -> float:
    return place[1]


def _head_ratio(place: Place) -> float:
    return place[0] or 0.0


def _beside(place: Place, line: list[Place]) -> list[Place]:
    at = line.index(place)
    return [*line[max(0, at - 1) : at], *line[at + 1 : at + 2]]


# ---------------------------------------------------------------------- sentences


def lowest_sentences(grid: Grid) -> list[str]:
    """How the lowest cell moved, and what that does not show."""
    if not grid.compared():
        return ["No cell is finished with every scheme yet, so there is nothing to compare."]
    lines = [_lowest_sentence(grid, label) for label in grid.labels]
    lines += [_move_sentence(grid, label) for label in grid.labels[1:]]
    for label in grid.labels:
        place = grid.lowest(label)
        assert place is not None
        if edges := grid.edges(place):
            lines.append(
                f"{label}'s lowest cell is at the edge of the grid ({' and '.join(edges)}): "
                "a lower one may lie beyond it."
            )
    missing = sum(1 for place in grid.cells if place not in grid.compared())
    if missing:
        lines.append(f"{missing} of {len(grid.cells)} cells have no loss from every scheme and were left out of this.")
    lines.append(_limits(grid))
    return lines


def _limits(grid: Grid) -> str:
    rates = cell_rates(grid.document).values()
    how = "one learning rate per width" if not rates else "a learning rate per cell from a few trials"
    if grid.pairs == 1:
        return f"One seed and {how}: this is the lowest cell here, not an optimum."
    if grid.pairs < FEWEST_PAIRS:
        return f"{grid.pairs} seeds and {how}: too few to tell neighbouring cells apart."
    if not rates:
        return "The learning rate of every width comes from a rule, not from a search of its own."
    untuned = sum(each.verdict != "tuned" for each in rates)
    if untuned:
        return (
            f"{untuned} of {len(rates)} learning rates are not tuned (table Learning rates): those cells may do better."
        )
    return "Every cell and scheme has the best of the learning rates that it tried."


def _lowest_sentence(grid: Grid, label: str) -> str:
    place, second = grid.lowest(label), grid.runner_up(label)
    assert place is not None
    loss = grid.loss(place, label)
    assert loss is not None
    sentence = f"{label}: lowest at {_spoken(grid, place)} with {loss:.4f}"
    if second is not None:
        sentence += f"; next {grid.loss(second, label) or math.nan:.4f} at {_name(second)}"
    if grid.pairs >= FEWEST_PAIRS and grid.results.waiting:
        sentence += f"; unfinished ({UNFINISHED}), so not held against its neighbours yet"
    elif grid.pairs >= FEWEST_PAIRS and grid.neighbours(place):
        shown = "lower than its neighbours" if grid.is_shown(label) else "not shown to be lower than its neighbours (~)"
        sentence += f"; {shown}"
    return sentence + "."


def _move_sentence(grid: Grid, label: str) -> str:
    first, ours = grid.lowest(grid.labels[0]), grid.lowest(label)
    assert first is not None
    assert ours is not None
    if first == ours:
        return f"From {grid.labels[0]} to {label} the lowest cell stays at {_name(first)}."
    directions = []
    if ours[1] != first[1]:
        directions.append("deeper and narrower" if ours[1] < first[1] else "shallower and wider")
    if ours[0] != first[0]:
        directions.append("fewer heads per block" if (ours[0] or 0) < (first[0] or 0) else "more heads per block")
    moved = f"moves from {_name(first)} to {_name(ours)}: {', '.join(directions)}"
    return f"From {grid.labels[0]} to {label} the lowest cell {moved}."


def _name(place: Place) -> str:
    return f"d_model/L_b {place[1]:g}" + ("" if place[0] is None else f", heads/L_b {place[0]:g}")


def _spoken(grid: Grid, place: Place) -> str:
    shape = grid.cells[place]["facts"]["shape"]
    blocks = f"{shape['transformer_blocks']} block{'s' if shape['transformer_blocks'] > 1 else ''}"
    return f"{_name(place)} ({blocks} × {shape['d_model']} wide)"


def lowest_facts(grid: Grid) -> dict[str, Any]:
    """The same as data: by arm, the lowest cell among the compared ones."""
    facts: dict[str, Any] = {"compared_cells": len(grid.compared()), "arms": {}}
    for label in grid.labels:
        place = grid.lowest(label)
        if place is not None:
            facts["arms"][label] = {
                "cell": grid.cells[place]["key"],
                "ratio": place[1],
                "head_ratio": place[0],
                "loss": grid.loss(place, label),
                "at_edge": grid.edges(place),
                "shown": grid.is_shown(label),
            }
    return facts
