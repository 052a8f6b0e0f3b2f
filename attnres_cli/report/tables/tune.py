"""A tune in tables: what every arm gets, its best beside the common rate, and every trial."""

from __future__ import annotations

from attnres_cli.analysis.tuning import Outcome, Trial, engine
from attnres_cli.report.sweep_price import price_sentence
from attnres_cli.report.sweep_results import FAILURES, SweepDocument
from attnres_cli.report.table import Cell, Column, Row, Table, Value
from attnres_cli.report.tuning import KEYS, OWN, Tuning, difference, finite, search_of, seeds_words

LOWEST_MARK = "↓"
MOST_COLUMNS = 4


def trials_plan_table(document: SweepDocument) -> Table:
    """How many trials every arm gets and what they cost; where the later ones lie is not known before."""
    rows: list[Row] = []
    for arm in document["arms"]:
        runs = [run for run in document["runs"] if run["arm"] == arm["label"]]
        rows.append(
            {
                "arm": arm["label"],
                "trials": len({run["cell"] for run in runs}),
                "runs": len(runs),
                "tokens": sum(run["planned_tokens"] for run in runs),
                "flops": sum(run["flops"] for run in runs),
                "seconds": sum(run["cost"] for run in runs) if document["budget"].get("step_seconds") else None,
            }
        )
    columns = (
        Column("arm", "arm"),
        Column("trials", "trials", kind="count"),
        Column("runs", "runs", kind="count"),
        Column("tokens", "tokens", kind="count"),
        Column("flops", "TFLOP", kind="number", scale=1e-12),
        Column("seconds", "in all", unit="s", kind="number", decimals=0),
    )
    search = search_of(document["request"])
    rule = engine(search).rule(search, document["preset"]["values"]["train"]["learning_rate"])
    remarks = (
        price_sentence(document),
        f"{rule}; seeds from {document['seeds'][0]}, which no verdict uses.",
    )
    return Table("plan", "Trials", columns, tuple(rows), remarks=remarks)


def best_table(tuning: Tuning) -> Table:
    """A row per arm: its best, the losses at it and at the preset's own values, each with Δ to the reference."""
    reference = tuning.labels[0]
    rows: list[Row] = []
    for label in tuning.labels:
        found, searched = tuning.outcome(label), tuning.searched(label)
        best = found.best or searched
        values = {} if best is None else {key: tuning.value(best, KEYS[key]) for key in KEYS}
        if not tuning.has_query(label):
            values["query"] = None
        own, common = tuning.own_loss(label), finite(tuning.losses[label].get(OWN))
        blank = Cell(text="")
        rows.append(
            {
                "arm": label,
                **values,
                "own_loss": own,
                "own_difference": blank if label == reference else difference(own, tuning.own_loss(reference)),
                "common_loss": common,
                "common_difference": blank
                if label == reference
                else difference(common, finite(tuning.losses[reference].get(OWN))),
                "tuned": _word(found),
            }
        )
    search = tuning.search
    columns = (
        Column("arm", "arm"),
        Column("rate", "rate", kind="number"),
        *((Column("decay", "decay", kind="number"),) if search.decay else ()),
        *((Column("query", "queries", unit="×", kind="number"),) if search.query else ()),
        Column("own_loss", "its own", unit="nats", kind="number", decimals=4),
        Column("own_difference", "Δ", kind="number", decimals=4, signed=True),
        Column("common_loss", "common", unit="nats", kind="number", decimals=4),
        Column("common_difference", "Δ", kind="number", decimals=4, signed=True),
        Column("tuned", "tuned"),
    )
    if len(tuning.labels) == 1:
        columns = tuple(column for column in columns if not column.key.endswith("difference"))
    n = len(tuning.document["seeds"])
    caption = f"validation loss at each arm's own best and at the common rate, the preset's; {seeds_words(n)}"
    if search.check:
        fraction = tuning.document["request"]["horizon_fraction"]
        caption += f", {fraction:g} of the horizon; the rate is what the check with all of it came to"
    return Table("best", "Best of each arm", columns, tuple(rows), caption=caption)


def trials_table(tuning: Tuning) -> Table:
    """A row per trial and a column per arm; of many arms a row per arm and trial."""
    search = tuning.search
    columns = (
        Column("rate", "rate", kind="number", digits=4),
        *((Column("decay", "decay", kind="number"),) if search.decay else ()),
        *((Column("query", "queries", unit="×", kind="number"),) if search.query else ()),
        *((Column("tokens", "tokens", kind="count"),) if search.check else ()),
    )
    rows: list[Row]
    if len(tuning.labels) <= MOST_COLUMNS:
        cells = {label: _loss_cells(tuning, label) for label in tuning.labels}
        rows = [
            {**_place(tuning, trial), **{f"loss_{label}": each.get(trial) for label, each in cells.items()}}
            for trial in tuning.cells
        ]
        columns += tuple(_loss_column(f"loss_{label}", label) for label in tuning.labels)
    else:
        rows = [
            {"arm": label, **_place(tuning, trial), "loss": cell}
            for label in tuning.labels
            for trial, cell in _loss_cells(tuning, label).items()
        ]
        columns = (Column("arm", "arm"), *columns, _loss_column("loss", "loss"))
    return Table("trials", "Trials", columns, tuple(rows), caption=f"validation loss; {LOWEST_MARK} the arm's lowest")


def _loss_column(key: str, heading: str) -> Column:
    return Column(key, heading, unit="nats", kind="number", decimals=4)


def _place(tuning: Tuning, trial: Trial) -> dict[str, Value | Cell]:
    """The values of a trial, and how long it trains."""
    key = tuning.cells[trial]["key"]
    tokens = next((run["planned_tokens"] for run in tuning.document["runs"] if run["cell"] == key), None)
    return {**{axis: tuning.value(trial, name) for axis, name in KEYS.items()}, "tokens": tokens}


def _loss_cells(tuning: Tuning, label: str) -> dict[Trial, Cell]:
    """The trials that an arm has, failed and unfinished ones included."""
    best = tuning.outcome(label).best or tuning.searched(label)
    cells = {}
    for trial, cell in tuning.cells.items():
        runs = [run for run in tuning.document["runs"] if (run["cell"], run["arm"]) == (cell["key"], label)]
        failed = next((run for run in runs if run["status"] in FAILURES), None)
        loss = tuning.losses[label].get(trial)
        if failed is not None:
            note = f"{label} at {cell['key']}: {failed['error']}" if failed["error"] else None
            cells[trial] = Cell(text="diverged" if failed["status"] == "diverged" else None, failed=True, note=note)
        elif runs:
            mark = f"{LOWEST_MARK} {loss:.4f}" if loss is not None and trial == best else None
            cells[trial] = Cell(loss, text=mark)
    return cells


def _word(found: Outcome) -> str:
    if found.is_tuned:
        return "yes"
    if found.edges:
        return "no: edge"
    return "no: diverged" if found.is_complete else "not yet"
