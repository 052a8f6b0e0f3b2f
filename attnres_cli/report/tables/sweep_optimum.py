"""The smooth optima of a depth-width sweep as a table."""

from __future__ import annotations

from attnres_cli.analysis.optimum import RowOptimum
from attnres_cli.report.sweep_grid import Grid
from attnres_cli.report.sweep_optimum import Optima
from attnres_cli.report.table import ABSENT, Cell, Column, Table


def optimum_table(grid: Grid, optima: Optima) -> Table | None:
    """Per row and scheme the minimum of a parabola in log d_model/L_b; None where no row has cells enough."""
    if not optima.found:
        return None
    several = grid.results.num_seeds > 1
    rows = tuple(
        {
            "head_ratio": row,
            "arm": label,
            "ratio": Cell(each.ratio, text=_ratio(each)),
            "interval": _interval(each),
            "loss": each.loss,
        }
        for (row, label), each in optima.found.items()
    )
    columns = (
        *((Column("head_ratio", "H/L_b", kind="number"),) if grid.has_head_axis else ()),
        Column("arm", "arm"),
        Column("ratio", "d/L_b", kind="number"),
        *((Column("interval", "95 %"),) if several else ()),
        Column("loss", "loss there", unit="nats", kind="number", decimals=4),
    )
    remarks = ["The minimum of a parabola in log d_model/L_b through every loss of the row, at the ratios trained."]
    if not several:
        remarks.append("One seed: no interval.")
    return Table("optimum", "Smooth optimum", columns, rows, remarks=tuple(remarks))


def _ratio(found: RowOptimum) -> str:
    if found.ratio is not None:
        return f"{found.ratio:.3g}"
    return "at or below the lowest" if found.edge == "lowest" else "at or above the highest"


def _interval(found: RowOptimum) -> Cell:
    """An open end is one that seeds do not exclude."""
    if found.low is None and found.high is None:
        return Cell(text=ABSENT)
    if found.low is None:
        return Cell(text=f"below {found.high:.3g}")
    if found.high is None:
        return Cell(text=f"above {found.low:.3g}")
    return Cell(text=f"{found.low:.3g} to {found.high:.3g}")
