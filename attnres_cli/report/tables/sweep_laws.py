"""Power laws of a scaling sweep: L = A · C^−α (+ E) by scheme, and what they make of the difference in compute."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnres_cli.analysis.power_law import (
    FEWEST_SIZES,
    FEWEST_SIZES_WITH_IRREDUCIBLE,
    Estimate,
    FittedLaw,
    compare_laws,
    law_with_intervals,
    paper_laws,
)
from attnres_cli.report.sweep_results import Results
from attnres_cli.report.table import ABSENT, Cell, Column, Row, Table

# Tables, the chart and JSON show the same laws, whose thousands of draws are fitted once.
_law_with_intervals = functools.lru_cache(maxsize=64)(law_with_intervals)
_compare_laws = functools.lru_cache(maxsize=64)(compare_laws)
# One PFLOP/s for a day, the unit of the paper's C.
FLOPS_PER_PFLOP_S_DAY = 8.64e19


@dataclass(frozen=True)
class Points:
    """What one law is fitted to: per size, compute in PFLOP/s-days (mixing counted) and the losses by seed."""

    compute: tuple[float, ...]
    losses: tuple[Mapping[int, float], ...]


@dataclass(frozen=True)
class Laws:
    """The laws of a sweep. multipliers: by arm, how much more compute the reference needs for its loss at the largest
    size."""

    fitted: Mapping[str, FittedLaw]
    multipliers: Mapping[str, Estimate]
    points: Mapping[str, Points]

    @classmethod
    def of(cls, results: Results) -> Laws | None:
        """None with fewer than three sizes that every scheme has finished: a law through two points is no fit."""
        cells = [
            cell["key"]
            for cell in results.document["cells"]
            if all(results.is_complete(cell["key"], label) for label in results.labels)
        ]
        if len(cells) < FEWEST_SIZES:
            return None
        with_floor = len(cells) >= FEWEST_SIZES_WITH_IRREDUCIBLE
        points = {label: _points(results, label, cells) for label in results.labels}
        fitted = {
            label: _law_with_intervals(each.compute, _values(each), irreducible=with_floor)
            for label, each in points.items()
        }
        reference = points[results.labels[0]]
        multipliers = {}
        for label in results.labels[1:]:
            # Both laws over the reference's compute; what the scheme itself costs more is taken off afterwards.
            ours = points[label]
            found = _compare_laws(
                reference.compute, _values(reference), _values(ours), at=reference.compute[-1], irreducible=with_floor
            ).multiplier
            dearer = ours.compute[-1] / reference.compute[-1]
            multipliers[label] = Estimate(found.value / dearer, found.low / dearer, found.high / dearer)
        return cls(fitted, multipliers, points)

    def to_dict(self) -> dict[str, Any]:
        return {
            label: {
                "coefficient": _plain(each.coefficient),
                "exponent": _plain(each.exponent),
                "irreducible": _plain(each.irreducible),
                "compute_multiplier": _plain(self.multipliers.get(label)),
            }
            for label, each in self.fitted.items()
        }


def laws_table(results: Results, laws: Laws) -> Table:
    """The constants by scheme with their intervals, and the paper's."""
    paper = paper_laws()
    schemes = {arm["label"]: arm["residual"].get("scheme") for arm in results.document["arms"]}
    has_floor = any(each.irreducible is not None for each in laws.fitted.values())
    rows: list[Row] = []
    for label, law in laws.fitted.items():
        theirs = paper.get(str(schemes[label]))
        rows.append(
            {
                "arm": label,
                "coefficient": _cell(law.coefficient, 3),
                "exponent": _cell(law.exponent, 4),
                "irreducible": _cell(law.irreducible, 3),
                "multiplier": _cell(laws.multipliers.get(label), 2),
                "paper_coefficient": theirs.coefficient if theirs else None,
                "paper_exponent": theirs.exponent if theirs else None,
            }
        )
    columns = (
        Column("arm", "arm"),
        Column("coefficient", "A", kind="number"),
        Column("exponent", "α", kind="number"),
        *((Column("irreducible", "E", kind="number"),) if has_floor else ()),
        Column("multiplier", "compute ×", kind="number"),
        Column("paper_coefficient", "A", unit="paper", kind="number", decimals=3),
        Column("paper_exponent", "α", unit="paper", kind="number", decimals=3),
    )
    floor = " + E" if has_floor else ""
    remarks = [
        f"L = A · C^−α{floor}, C in PFLOP/s-days of training, mixing counted. An irreducible term E is fitted from "
        f"{FEWEST_SIZES_WITH_IRREDUCIBLE} sizes on. Data and sizes are not the paper's: α compares, A hardly does.",
        f"compute ×: what {results.labels[0]} would need for the loss of the scheme at the largest size, over what the "
        "scheme took.",
    ]
    if results.num_seeds == 1:
        remarks.append("One seed: the constants have no intervals.")
    else:
        remarks.append("In brackets: 95 % intervals by a bootstrap over the seeds, joint for both schemes.")
    return Table("laws", "Power laws", columns, tuple(rows), remarks=tuple(remarks))


def _points(results: Results, label: str, cells: list[str]) -> Points:
    compute = tuple(results.runs[(cell, label)][0]["flops"] / FLOPS_PER_PFLOP_S_DAY for cell in cells)
    return Points(compute, tuple(results.losses(cell, label) for cell in cells))


def _values(points: Points) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(by_seed[seed] for seed in sorted(by_seed)) for by_seed in points.losses)


def _cell(found: Estimate | None, decimals: int) -> Cell:
    if found is None:
        return Cell(text=ABSENT)
    text = f"{found.value:.{decimals}f}"
    if math.isfinite(found.low) and math.isfinite(found.high):
        text += f" [{found.low:.{decimals}f}, {found.high:.{decimals}f}]"
    return Cell(found.value, text=text)


def _plain(found: Estimate | None) -> dict[str, float | None] | None:
    if found is None:
        return None
    values = {"value": found.value, "low": found.low, "high": found.high}
    return {key: value if math.isfinite(value) else None for key, value in values.items()}
