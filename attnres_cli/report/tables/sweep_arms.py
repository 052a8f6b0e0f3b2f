"""Arms against the reference, cell by cell: mean loss with its interval, paired difference, and the paper's beside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnres_cli.analysis.paired import FEWEST_PAIRS
from attnres_cli.report.numbers import short_count
from attnres_cli.report.sweep_price import price_sentence
from attnres_cli.report.sweep_results import (
    Contrast,
    Key,
    Mean,
    Results,
    against_reference,
    contrast,
    seeds_remarks,
)
from attnres_cli.report.table import ABSENT, Cell, Column, Row, Table
from attnres_cli.report.values import spelt_out

# The lowest of a cell where seeds show it against the next, and where they do not.
SHOWN_MARK = "★"
LOWEST_MARK = "↓"


def arms_table(results: Results, width_columns: int | None = None, *, by_loss: bool = False) -> Table:
    """A row per cell and arm, impossible ones included.

    width_columns: of the terminal; where the whole table is wider, it goes without the FLOPs. by_loss: after the
    reference, the lowest loss first.
    """
    differences = against_reference(results)
    axes = axis_columns(results)
    rows = [
        row for cell in results.document["cells"] for row in _cell_rows(results, cell, differences, by_loss=by_loss)
    ]
    rows += [_impossible_row(each) for each in results.document["impossible"]]
    several = results.num_seeds > 1
    columns = (
        *axes,
        Column("arm", "arm"),
        Column("loss", "loss", unit="nats", kind="number", decimals=4),
        *((Column("loss_half", "± 95 %", kind="number", decimals=4),) if several else ()),
        Column("difference", "Δ", unit="nats", kind="number", decimals=4, signed=True),
        *((Column("difference_half", "± 95 %", kind="number", decimals=4),) if several else ()),
        *((Column("p_holm", "p", kind="number"),) if results.num_seeds >= FEWEST_PAIRS else ()),
        Column("flops", "FLOPs", unit="%", kind="number", decimals=1, scale=100, signed=True),
    )
    if len(results.labels) == 1:
        columns = tuple(column for column in columns if not column.key.startswith(("difference", "p_holm", "flops")))
    whole = Table("arms", "Arms", columns, tuple(rows), _caption(results), tuple(seeds_remarks(results)))
    if width_columns is None or whole.width_columns <= width_columns:
        return whole
    return replace(whole, columns=tuple(column for column in columns if column.key != "flops"))


def axis_columns(results: Results) -> tuple[Column, ...]:
    """One column per axis of the grid."""
    axes = {axis: None for cell in results.document["cells"] for axis in cell["coordinates"]}
    return tuple(Column(f"axis_{axis}", axis.rpartition(".")[2].replace("_", " ")) for axis in axes)


def axis_cells(coordinates: Mapping[str, Any]) -> dict[str, Cell]:
    return {f"axis_{axis}": Cell(_plain(value), text=spelt_out(value)) for axis, value in coordinates.items()}


def _plain(value: Any) -> float | int | str | bool | None:
    return value if isinstance(value, (float, int, str, bool)) or value is None else spelt_out(value)


def _cell_rows(
    results: Results, cell: Mapping[str, Any], differences: Mapping[Key, Contrast], *, by_loss: bool
) -> list[Row]:
    key = cell["key"]
    labels = [label for label in results.labels if (key, label) in results.runs]
    means = {label: results.mean(key, label) for label in labels}
    complete = [label for label in labels if results.is_complete(key, label)]
    order = sorted(complete, key=lambda label: _loss(means[label]))
    lowest = order[0] if len(order) > 1 else None
    shown = lowest and not results.waits_for(key, *labels) and _is_shown(results, key, order)
    mark = SHOWN_MARK if shown else LOWEST_MARK
    if by_loss:
        labels[1:] = sorted(labels[1:], key=lambda label: _loss(means[label]))
    counts = cell["facts"]["counts"]
    reference = counts.get(results.labels[0])
    rows: list[Row] = []
    for label in labels:
        own, base = (each and each["training_flops_per_token"] for each in (counts.get(label), reference))
        rows.append(
            {
                **axis_cells(cell["coordinates"]),
                "arm": label,
                **_loss_cells(results, key, label, means[label], mark if label == lowest else ""),
                **_difference_cells(results, key, label, differences.get((key, label))),
                "flops": own / base - 1 if own and base and label != results.labels[0] else None,
            }
        )
    return rows


def _loss(mean: Mean | None) -> float:
    return math.inf if mean is None else mean.value


def _is_shown(results: Results, cell: str, order: Sequence[str]) -> bool:
    """Whether the lowest arm is below the next by more than the interval of the paired difference."""
    found = contrast(results.losses(cell, order[0]), results.losses(cell, order[1]))
    return found is not None and found.n >= FEWEST_PAIRS and found.mean + found.half < 0


def _loss_cells(results: Results, cell: str, label: str, mean: Mean | None, mark: str) -> dict[str, Cell]:
    failures = [
        f"seed {run['seed']} {run['status']}: {run['error']}" if run["error"] else f"seed {run['seed']} {run['status']}"
        for run in results.runs[(cell, label)]
        if run["status"] in ("failed", "diverged")
    ]
    note = f"{label}: {'; '.join(failures)}" if failures else None
    if mean is None:
        status = results.status(cell, label)
        if failures:
            return {"loss": Cell(failed=True, note=note), "loss_half": Cell()}
        return {"loss": Cell(text=ABSENT if status == "planned" else status), "loss_half": Cell()}
    short = len(results.runs[(cell, label)]) - mean.n
    note = note or (f"{label}: {short} seed{'s' * (short > 1)} without a loss yet" if short else None)
    text = f"{mark} {mean.value:.4f}" if mark else None
    return {"loss": Cell(mean.value, text=text, note=note), "loss_half": _finite(mean.half)}


def _difference_cells(results: Results, cell: str, label: str, found: Contrast | None) -> dict[str, Cell]:
    if label == results.labels[0]:
        blank = Cell(text="")
        return {"difference": blank, "difference_half": blank, "p_holm": blank}
    if found is None:
        failed = any(results.has_failed(cell, each) for each in (label, results.labels[0]))
        return {"difference": Cell(failed=failed), "difference_half": Cell(), "p_holm": Cell()}
    tested = found.n >= FEWEST_PAIRS and not found.unfinished
    return {
        "difference": Cell(found.mean, text=found.text() if tested or found.unfinished else None),
        "difference_half": _finite(found.half),
        "p_holm": Cell(found.p, text=probability(found.p)) if tested else Cell(),
    }


def probability(p: float) -> str:
    """0.0312, or <0.0001."""
    return f"{p:.4f}" if p >= 0.00005 else "<0.0001"


def _finite(value: float) -> Cell:
    return Cell(None if math.isnan(value) else value)


def _impossible_row(each: Mapping[str, Any]) -> Row:
    reason = f"{each['arm'] or each['key']}: {each['reason']}"
    return {
        **axis_cells(each["coordinates"]),
        "arm": each["arm"] or "(all)",
        "loss": Cell(failed=True, note=reason),
        "difference": Cell(failed=True),
        "loss_half": Cell(),
        "difference_half": Cell(),
        "p_holm": Cell(),
    }


def _caption(results: Results) -> str:
    tokens = sorted({run["planned_tokens"] for run in results.document["runs"]})
    span = short_count(tokens[0]) if len(tokens) == 1 else f"{short_count(tokens[0])} to {short_count(tokens[-1])}"
    seeds = f"{results.num_seeds} seed{'s' * (results.num_seeds > 1)}"
    caption = f"validation loss after {span} training tokens, {seeds}"
    if len(results.labels) > 1:
        caption += f"; Δ: minus that of {results.labels[0]}; {LOWEST_MARK} lowest here"
        caption += f", {SHOWN_MARK} and shown to be below the next" if results.num_seeds >= FEWEST_PAIRS else ""
    return caption


# ---------------------------------------------------------------------- beside the paper


def paper_table(results: Results) -> Table | None:
    """Yours beside the paper's, for every arm that stands for a row of it; None where there is no such arm.

    The paper's Δ is taken against its own row for the reference.
    """
    document = results.document
    arms = [*document["arms"], *({"label": each["arm"], "facts": each["facts"]} for each in _unfit(document))]
    said = {arm["label"]: arm["facts"].get("paper", ()) for arm in arms}
    base = next(iter(said.get(results.labels[0], ())), None)
    if sum(bool(rows) for rows in said.values()) < 2:
        return None
    differences = against_reference(results)
    cell = document["cells"][0]["key"]
    rows: list[Row] = []
    for label, paper in said.items():
        # A point that stands in a table and in a figure of the paper is one row.
        for theirs in dict.fromkeys(each["validation_loss"] for each in paper):
            places = [f"{each['table']}: {each['row']}" for each in paper if each["validation_loss"] == theirs]
            found = differences.get((cell, label))
            shown = found is not None and (found.unfinished or found.n >= FEWEST_PAIRS)
            delta = None if base is None or label == results.labels[0] else theirs - base["validation_loss"]
            here = Cell(found.mean, text=found.text() if shown else None) if found else Cell()
            rows.append(
                {
                    "arm": label,
                    "difference": Cell(text="") if label == results.labels[0] else here,
                    "paper_difference": Cell(text="") if delta is None else delta,
                    "paper_loss": theirs,
                    "paper_row": "; ".join(places),
                }
            )
    columns = (
        Column("arm", "arm"),
        Column("difference", "Δ here", kind="number", decimals=4, signed=True),
        Column("paper_difference", "Δ paper", kind="number", decimals=3, signed=True),
        Column("paper_loss", "loss", kind="number", decimals=3),
        Column("paper_row", "the paper's row"),
    )
    remarks = (
        "The paper: 436M active parameters, 32 sublayers, 87.9B tokens, one loss per row; it names no number of seeds. "
        "Compare signs and order, not sizes.",
    )
    return Table("paper", "Beside the paper", columns, tuple(rows), remarks=remarks)


def _unfit(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Arms that could not even be put on the preset, and so are no arms of the sweep."""
    return [each for each in document["impossible"] if "facts" in each]


# ---------------------------------------------------------------------- seeds, and plans


def seeds_table(results: Results) -> Table | None:
    """Every loss by seed; None with one seed."""
    if results.num_seeds < 2:
        return None
    seeds = results.document["seeds"]
    rows: list[Row] = []
    for cell in results.document["cells"]:
        for label in results.labels:
            runs = {run["seed"]: run for run in results.runs.get((cell["key"], label), ())}
            losses = results.losses(cell["key"], label)
            rows.append(
                {
                    **axis_cells(cell["coordinates"]),
                    "arm": label,
                    **{f"seed_{seed}": _seed_cell(losses.get(seed), runs.get(seed)) for seed in seeds},
                }
            )
    columns = (
        *axis_columns(results),
        Column("arm", "arm"),
        *(Column(f"seed_{seed}", f"seed {seed}", kind="number", decimals=4) for seed in seeds),
    )
    return Table("seeds", "Loss by seed", columns, tuple(rows))


def _seed_cell(loss: float | None, run: Mapping[str, Any] | None) -> Cell:
    return Cell(loss, failed=loss is None and run is not None and run["status"] in ("failed", "diverged"))


def plan_table(results: Results) -> Table:
    """Every cell and arm with its real counts, and the price of it all."""
    document = results.document
    rows: list[Row] = []
    for cell in document["cells"]:
        for label in results.labels:
            counts = cell["facts"]["counts"].get(label)
            runs = results.runs.get((cell["key"], label), ())
            if counts is None or not runs:
                continue
            rows.append(
                {
                    **axis_cells(cell["coordinates"]),
                    "arm": label,
                    "runs": len(runs),
                    "non_embedding_parameters": counts["non_embedding_parameters"],
                    "training_flops_per_token": counts["training_flops_per_token"],
                    "tokens": runs[0]["planned_tokens"],
                    "seconds": runs[0]["cost"] if document["budget"].get("step_seconds") else None,
                }
            )
    columns = (
        *axis_columns(results),
        Column("arm", "arm"),
        Column("runs", "runs", kind="count"),
        Column("non_embedding_parameters", "non-emb.", kind="count"),
        Column("training_flops_per_token", "MFLOP/tok", kind="number", scale=1e-6, digits=4),
        Column("tokens", "tokens", kind="count"),
        Column("seconds", "run", unit="s", kind="number", decimals=0),
    )
    return Table("plan", "Runs", columns, tuple(rows), remarks=(price_sentence(document),))
