"""What the document in sweep.json (docs/sweep.md) says about its grid: losses, lowest cells, and how they moved.

Nothing but the document is read, so a finished sweep reprints without its runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SweepDocument = Mapping[str, Any]
# Where a cell stands: (heads/L_b or None, d_model/L_b), as asked for.
Place = tuple[float | None, float]

# What --match can hold equal: its key in the counts of a cell, and its name for people.
QUANTITIES = {
    "parameters": ("non_embedding_parameters", "non-embedding parameters"),
    "flops": ("training_flops_per_token", "training FLOPs per token"),
}


@dataclass(frozen=True)
class Grid:
    """What a sweep document says, by place in the grid."""

    document: SweepDocument
    rows: tuple[float | None, ...]
    columns: tuple[float, ...]
    cells: Mapping[Place, Mapping[str, Any]]
    runs: Mapping[tuple[str, str], Mapping[str, Any]]  # by (cell key, arm label)
    labels: tuple[str, ...]

    @classmethod
    def of(cls, document: SweepDocument) -> Grid:
        asked = [*document["cells"], *document["impossible"]]
        return cls(
            document=document,
            rows=tuple(sorted({cell["head_ratio"] for cell in asked}, key=lambda ratio: ratio or 0.0)),
            columns=tuple(sorted({cell["ratio"] for cell in asked})),
            cells={(cell["head_ratio"], cell["ratio"]): cell for cell in document["cells"]},
            runs={(run["cell"], run["arm"]): run for run in document["runs"]},
            labels=tuple(arm["label"] for arm in document["arms"]),
        )

    @property
    def has_head_axis(self) -> bool:
        return self.rows != (None,)

    def run(self, place: Place, label: str) -> Mapping[str, Any] | None:
        cell = self.cells.get(place)
        return None if cell is None else self.runs.get((cell["key"], label))

    def loss(self, place: Place, label: str) -> float | None:
        """The final validation loss in nats per token, None where there is none (yet)."""
        run = self.run(place, label)
        finished = run is not None and run["status"] == "finished" and run["loss"] is not None
        return float(run["loss"]) if run is not None and finished else None

    def places(self) -> list[Place]:
        return [(row, column) for row in self.rows for column in self.columns]

    def compared(self) -> list[Place]:
        """The places where every scheme has a loss: only among these may the lowest cells be compared."""
        return [place for place in self.places() if all(self.loss(place, label) is not None for label in self.labels)]

    def lowest(self, label: str) -> Place | None:
        """The place of the lowest loss among `compared`, None when there is none."""
        return min(self.compared(), key=lambda place: self.loss(place, label) or math.inf, default=None)

    def runner_up(self, label: str) -> Place | None:
        """The place of the second lowest loss among `compared`."""
        ranked = sorted(self.compared(), key=lambda place: self.loss(place, label) or math.inf)
        return ranked[1] if len(ranked) > 1 else None

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


def lowest_sentences(grid: Grid) -> list[str]:
    """How the lowest cell moved, and what that does not show."""
    if not grid.compared():
        return ["No cell is finished with every scheme yet, so there is nothing to compare."]
    lines = [_lowest_sentence(grid, label) for label in grid.labels]
    if len(grid.labels) > 1:
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
    lines.append("One seed and one learning rate per width: this is the lowest cell here, not an optimum.")
    return lines


def _lowest_sentence(grid: Grid, label: str) -> str:
    place, second = grid.lowest(label), grid.runner_up(label)
    assert place is not None
    loss = grid.loss(place, label)
    assert loss is not None
    sentence = f"{label}: lowest at {_spoken(grid, place)} with {loss:.4f}"
    if second is not None:
        sentence += f"; next {grid.loss(second, label) or math.nan:.4f} at {_name(second)}"
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
    shape = grid.cells[place]["shape"]
    blocks = f"{shape['transformer_blocks']} block{'s' if shape['transformer_blocks'] > 1 else ''}"
    return f"{_name(place)} ({blocks} × {shape['d_model']} wide)"


def lowest_facts(grid: Grid) -> dict[str, Any]:
    """The same as data: by arm, the lowest cell among the compared ones."""
    facts: dict[str, Any] = {"compared_cells": len(grid.compared()), "arms": {}}
    for label in grid.labels:
        place = grid.lowest(label)
        if place is not None:
            cell = grid.cells[place]
            facts["arms"][label] = {
                "cell": cell["key"],
                "ratio": place[1],
                "head_ratio": place[0],
                "loss": grid.loss(place, label),
                "at_edge": grid.edges(place),
            }
    return facts
