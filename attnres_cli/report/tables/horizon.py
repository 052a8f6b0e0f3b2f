"""The tables of a horizon ladder: its plan, losses at decayed ends, Δ by horizon, and compute multipliers."""

from __future__ import annotations

import math
from typing import Any

from attnres_cli.analysis.ladder import LadderMultiplier
from attnres_cli.report.horizon import Ladder, Rung
from attnres_cli.report.numbers import short_count
from attnres_cli.report.phrases import probability
from attnres_cli.report.sweep_price import price_sentence
from attnres_cli.report.sweep_results import Contrast, Mean, SweepDocument, seeds_remarks
from attnres_cli.report.table import ABSENT, Cell, Column, Table

RATIO = Column("horizon", "horizon", unit="× tokens", kind="number")
LOW = Column("low", "from", unit="95 %", kind="number")
HIGH = Column("high", "to", unit="95 %", kind="number")


def rungs_table(document: SweepDocument) -> Table:
    """What each rung trains itself, and what all of it costs."""
    columns = (
        RATIO,
        Column("tokens", "tokens", kind="count"),
        Column("steps", "steps", kind="count"),
        Column("first_step", "leaves at", unit="step", kind="count"),
        Column("constant_steps", "decays at", unit="step", kind="count"),
        Column("trained_steps", "trains", unit="steps", kind="count"),
        Column("flops", "FLOPs", unit="all runs", kind="number"),
    )
    rows = tuple(_rung_row(document, cell) for cell in document["cells"])
    return Table("rungs", "Rungs", columns, rows, remarks=_price(document))


def _rung_row(document: SweepDocument, cell: Any) -> dict[str, Any]:
    facts, ratio = cell["facts"], cell["coordinates"]["horizon"]
    flops = sum(run["flops"] for run in document["runs"] if run["cell"] == cell["key"])
    return {
        "horizon": Cell(ratio, text=f"{ratio:g}"),
        **{key: facts[key] for key in ("tokens", "steps", "constant_steps", "trained_steps")},
        "first_step": facts["steps"] - facts["trained_steps"],
        "flops": Cell(flops, text=f"{flops:.2e}"),
    }


def _price(document: SweepDocument) -> tuple[str, str]:
    return (
        price_sentence(document),
        "What the rungs of one scheme and seed share is trained once: each leaves the rung above it in this table "
        f"where that one begins to decay, which saves {document['facts']['saved']:.0%} of the steps.",
    )


def losses_table(ladder: Ladder) -> Table:
    """Validation loss at the end of every decayed run."""
    columns = (
        RATIO,
        Column("tokens", "tokens", kind="count"),
        *(Column(f"loss_{label}", label, unit="nats", kind="number", decimals=4) for label in ladder.labels),
    )
    rows = tuple(
        {
            "horizon": _ratio(rung),
            "tokens": Cell(rung.tokens, text=short_count(rung.tokens)),
            **{f"loss_{label}": _loss_cell(ladder, label, rung) for label in ladder.labels},
        }
        for rung in ladder.rungs
    )
    several = ladder.results.num_seeds > 1
    spread = "mean over seeds ± half of its 95 % interval" if several else "one seed, so no interval"
    caption = f"validation loss at the end of a schedule that has decayed; {spread}"
    return Table("losses", "Loss by horizon", columns, rows, caption=caption)


def _loss_cell(ladder: Ladder, label: str, rung: Rung) -> Cell:
    found: Mean | None = ladder.results.mean(rung.key, label)
    if found is None:
        return Cell(failed=ladder.results.has_failed(rung.key, label))
    seeds = ladder.results.num_seeds
    note = f"{found.n} of {seeds} seeds have finished" if found.n < seeds else None
    text = f"{found.value:.4f}" if math.isnan(found.half) else f"{found.value:.4f} ± {found.half:.4f}"
    return Cell(found.value, text=text, note=note)


def differences_table(ladder: Ladder) -> Table:
    """Δ of every other scheme by horizon."""
    columns = (
        RATIO,
        Column("scheme", "scheme"),
        Column("delta", "Δ loss", unit="nats", kind="number", decimals=4, signed=True),
        LOW,
        HIGH,
        Column("pairs", "pairs", kind="count"),
        Column("p", "p", unit="Holm", kind="number"),
        Column("outcome", "shown"),
    )
    rows = tuple(
        {"horizon": _ratio(rung), "scheme": label, **_difference_cells(ladder.contrast(label, rung))}
        for label in ladder.labels[1:]
        for rung in ladder.rungs
    )
    what = f"Δ: a scheme's loss minus that of {ladder.reference}; below zero it is lower."
    return Table("differences", "Δ loss by horizon", columns, rows, remarks=(what, *seeds_remarks(ladder.results)))


def _difference_cells(found: Contrast | None) -> dict[str, Any]:
    if found is None:
        return {"pairs": 0, "outcome": Cell(text=ABSENT)}
    known = found.to_dict()
    low, high, p = (known[key] for key in ("low", "high", "p_holm"))
    return {
        "delta": Cell(found.mean, text=found.text()),
        "low": Cell(low, text=None if low is None else f"{low:+.4f}"),
        "high": Cell(high, text=None if high is None else f"{high:+.4f}"),
        "pairs": found.n,
        "p": Cell(p, text=None if p is None else probability(p).removeprefix("= ")),
        "outcome": found.outcome,
    }


def multipliers_table(ladder: Ladder) -> Table:
    """How much more compute the reference needs for each scheme's loss."""
    columns = (
        RATIO,
        Column("scheme", "scheme"),
        Column("flops", "its FLOPs", kind="number"),
        Column("multiplier", f"{ladder.reference} needs", unit="× as many", kind="number"),
        LOW,
        HIGH,
        Column("pairs", "pairs", kind="count"),
    )
    rows = tuple(
        {"horizon": _ratio(rung), "scheme": label, **_multiplier_cells(ladder, label, rung)}
        for label in ladder.labels[1:]
        for rung in ladder.rungs
    )
    remark = (
        f"The FLOPs with which {ladder.reference} reaches the scheme's loss, on its own ladder (log loss straight over "
        "log training FLOPs, mixing counted), over the scheme's FLOPs. Beyond the ladder's ends nothing is said."
    )
    return Table("multipliers", "Compute multiplier", columns, rows, remarks=(remark,))


def _multiplier_cells(ladder: Ladder, label: str, rung: Rung) -> dict[str, Any]:
    per_token, found = rung.flops_per_token.get(label), ladder.multiplier(label, rung)
    flops = None if per_token is None else per_token * rung.tokens
    cells: dict[str, Any] = {"flops": Cell(flops, text=None if flops is None else f"{flops:.2e}")}
    if found is None:
        return {**cells, "pairs": len(ladder.deltas(label, rung))}
    return {
        **cells,
        "multiplier": Cell(found.value, text=multiplier_text(found)),
        "low": Cell(found.low, text=_end_text(found, found.low, f"< {found.first:.2f}")),
        "high": Cell(found.high, text=_end_text(found, found.high, f"> {found.last:.2f}")),
        "pairs": found.pairs,
    }


def multiplier_text(found: LadderMultiplier) -> str:
    """ "1.25", or the side of the ladder on which it lies: "more than 2"."""
    if found.value is not None:
        return f"{found.value:.2f}"
    return f"more than {found.last:.3g}" if found.side == "above" else f"less than {found.first:.3g}"


def _end_text(found: LadderMultiplier, end: float | None, beyond: str) -> str:
    """An open end of the interval lies beyond the ladder's; one seed has no interval."""
    if found.pairs < 2:
        return ABSENT
    return beyond if end is None else f"{end:.2f}"


def _ratio(rung: Rung) -> Cell:
    return Cell(rung.ratio, text=f"{rung.ratio:g}")
