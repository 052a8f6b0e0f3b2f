"""The runs that are watched: as a table, as lines for a log, and what to say of their differences before the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnres_cli.report.document import Block, Document, Notice
from attnres_cli.report.numbers import duration, short_duration
from attnres_cli.report.phrases import nats
from attnres_cli.report.sparkline import sparkline
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.report.tables.runs import CHOSEN_NAME
from attnres_cli.report.visible import visible
from attnres_cli.report.watching_runs import Watch, WatchedRun
from attnres_cli.residual.arms import BASELINE
from attnres_cli.runs.fairness import allowed_differences, unfair_differences
from attnres_cli.runs.lookup import SHORTENED
from attnres_cli.runs.metrics import number

CURVE_COLUMNS = 24
LONGEST_SHORT_NAME = 22
COLUMNS = (
    Column("name", "run"),
    Column("scheme", "scheme"),
    Column("seed", "seed", kind="count"),
    Column("status", "status"),
    Column("step", "step", kind="number", decimals=0),
    Column("loss_nats", "loss", "nats", "number", decimals=4),
    Column("validation_loss_nats", "val.", "nats", "number", decimals=4),
    Column("learning_rate", "lr", kind="number"),
    Column("tokens_per_second", "tok/s", kind="number", decimals=0),
    Column("eta_seconds", "ETA", kind="number"),
    Column("curve", "loss so far"),
)
# What is left out where even the pages of the table are higher than the terminal, and it is said where it went.
LESS_NEEDED = ("learning_rate", "tokens_per_second", "eta_seconds", "curve")
MOST_PAIRS = 8


def watch_document(watch: Watch, *, width_columns: int | None = None, height_lines: int | None = None) -> Document:
    """The table of the runs and what may be said of their differences.

    width_columns: of the terminal; where the table is wider, long names are shortened. height_lines: that a live
    picture may take; where it would be higher, columns and then runs that have ended are left out.
    """
    pairs = list(comparisons(watch.runs))
    blocks = _blocks(watch.runs, pairs, width_columns)
    if height_lines is not None and width_columns is not None:
        blocks = _fitted(watch.runs, pairs, blocks, width_columns, height_lines)
    payload = {
        "runs_dir": str(watch.root),
        "is_over": watch.is_over,
        "runs": [_facts(run) for run in watch.runs],
        "differences": [each.to_dict() for each in pairs],
    }
    return Document("watch", tuple(blocks), payload)


def line(run: WatchedRun) -> str:
    """The figures of one run on one line, for a log."""
    parts = [f"{visible(run.name)}: {run.status}", f"step {_steps(run)}"]
    if (loss := number(run.log.last_train, "loss")) is not None:
        parts.append(f"loss {loss:.4f}")
    if (loss := number(run.log.last_evaluation, "loss")) is not None:
        parts.append(f"val@{(run.log.last_evaluation or {}).get('step')} {loss:.4f}")
    if not run.is_over:
        if (rate := number(run.log.last_train, "learning_rate")) is not None:
            parts.append(f"lr {rate:.2e}")
        if (speed := number(run.log.last_train, "tokens_per_second")) is not None:
            parts.append(f"tok/s {speed:,.0f}")
        if run.eta_seconds is not None:
            parts.append(f"ETA {duration(run.eta_seconds)}")
    elif isinstance(error := run.state.get("error"), str):
        parts.append(visible(error))
    return "  ".join(parts)


# ---------------------------------------------------------------------- the table


def _blocks(runs: Sequence[WatchedRun], pairs: Sequence[Comparison], width_columns: int | None) -> list[Block]:
    table = Table("watched", "", COLUMNS, tuple(_row(run) for run in runs), remarks=tuple(_remarks(runs)))
    labels = {run.name: run.name for run in runs}
    if width_columns is not None and table.width_columns > width_columns:
        labels = _short_names(list(labels))
        rows = ({**row, "name": Cell(str(row["name"]), text=labels[str(row["name"])])} for row in table.rows)
        table = replace(table, rows=tuple(rows))
    return [table, *_difference_notice(pairs, labels)]


def _fitted(
    runs: Sequence[WatchedRun],
    pairs: Sequence[Comparison],
    blocks: list[Block],
    width_columns: int,
    height_lines: int,
) -> list[Block]:
    """The blocks so that they take at most `height_lines`: without the columns that are less needed, then without runs
    that have ended, then without the oldest."""
    table = blocks[0]
    assert isinstance(table, Table)
    if _height(blocks, width_columns) > height_lines:
        kept = tuple(column for column in table.columns if column.key not in LESS_NEEDED)
        said = "A wider or higher terminal shows learning rate, speed, ETA and curve, too."
        table = replace(table, columns=kept, remarks=(*table.remarks, said))
        blocks = [table, *blocks[1:]]
    shown = list(runs)
    while len(shown) > 1 and _height(blocks, width_columns) > height_lines:
        shown.remove(next((run for run in shown if run.is_over), shown[0]))
        rows = tuple(row for run, row in zip(runs, table.rows, strict=True) if run in shown)
        hidden = len(runs) - len(shown)
        more = f"{hidden} more run{'s' * (hidden > 1)}, ended ones first to go: attnres watch --once shows all."
        blocks = [replace(table, rows=rows, remarks=(*table.remarks, more)), *blocks[1:]]
    return blocks


def _height(blocks: Sequence[Block], width_columns: int) -> int:
    from attnres_cli.report.document import render

    text = render(Document("watch", tuple(blocks)), "table", width_columns=width_columns)
    return text.count("\n")


def _row(run: WatchedRun) -> Row:
    failed = run.status in ("diverged", "failed")
    error = run.state.get("error")
    eta = run.eta_seconds
    curve = sparkline([loss for _, loss in run.log.points], CURVE_COLUMNS)
    return {
        "name": run.name,
        "scheme": run.scheme,
        "seed": Cell(run.seed, text=None if run.seed is None else str(run.seed)),
        "status": Cell(run.status, note=f"{run.name}: {error}" if failed and isinstance(error, str) else None),
        "step": Cell(run.step, text=_steps(run)),
        "loss_nats": number(run.log.last_train, "loss"),
        "validation_loss_nats": number(run.log.last_evaluation, "loss"),
        "learning_rate": _text_cell(number(run.log.last_train, "learning_rate"), ".2e", run),
        "tokens_per_second": Cell(text="") if run.is_over else number(run.log.last_train, "tokens_per_second"),
        "eta_seconds": Cell(text="") if run.is_over else Cell(eta, text=None if eta is None else short_duration(eta)),
        "curve": curve or None,
    }


def _text_cell(value: float | None, form: str, run: WatchedRun) -> Cell:
    if value is None or run.is_over:
        return Cell(value, text="" if run.is_over else None)
    return Cell(value, text=format(value, form))


def _steps(run: WatchedRun) -> str:
    return f"{run.step}/{'?' if run.steps is None else run.steps}"


def _remarks(runs: Sequence[WatchedRun]) -> Iterator[str]:
    torn = [f"{visible(run.name)} {run.log.torn}" for run in runs if run.log.torn]
    if torn:
        yield f"Torn lines of metrics.jsonl, left out: {', '.join(torn)}."


def _facts(run: WatchedRun) -> dict[str, Any]:
    """What JSON says of a run beside its row."""
    evaluation = run.log.last_evaluation or {}
    return {
        "name": run.name,
        "path": str(run.run.path),
        "status": run.status,
        "step": run.step,
        "steps": run.steps,
        "tokens": number(run.log.last_train, "tokens"),
        "tokens_of_the_whole_run": run.tokens,
        "validation_step": evaluation.get("step"),
        "error": run.state.get("error"),
        "torn_lines": run.log.torn,
    }


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """Name → its end where it is long, or was chosen by the program; whole where several end so."""
    found = {}
    for name in names:
        chosen = CHOSEN_NAME.fullmatch(name)
        end = name[chosen.start("digits") :] if chosen else name[1 - LONGEST_SHORT_NAME :]
        is_long = chosen is not None or len(name) > LONGEST_SHORT_NAME
        is_one = sum(other.endswith(end) for other in names) == 1
        found[name] = f"{SHORTENED}{end}" if is_long and is_one else name
    return found


# ---------------------------------------------------------------------- differences


@dataclass(frozen=True)
class Comparison:
    """A run against the run of the baseline that differs from it in the residual scheme only.

    nats: validation loss minus that of the baseline, after `tokens` training tokens of both. share: of the whole
    schedule. ended: both have finished, and this is their last evaluation.
    """

    run: WatchedRun
    baseline: WatchedRun
    tokens: int
    nats: float
    share: float | None
    ended: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.run.name,
            "baseline": self.baseline.name,
            "tokens": self.tokens,
            "difference_nats": self.nats,
            "share_of_the_schedule": self.share,
            "at_the_end": self.ended,
        }

    def sentence(self, labels: Mapping[str, str]) -> str:
        """labels: how the table calls the runs."""
        where = f"after {self.tokens:,} tokens"
        if self.ended:
            where += ", the end"
        elif self.share is not None:
            where += f", {self.share:.0%} of the schedule"
        ours, theirs = (f"{each.scheme} ({labels[each.name]})" for each in (self.run, self.baseline))
        return f"{ours} {nats(self.nats, signed=True)} nats against {theirs} {where}"


def comparisons(runs: Sequence[WatchedRun]) -> Iterator[Comparison]:
    """Every run beside a baseline of the same seed and settings, at the largest number of tokens at which both were
    evaluated.

    The baseline is a run of the scheme that residual/arms.toml calls so, or else of the first run's scheme; of several
    the one that differs in the fewest values that may be tuned.
    """
    scheme = BASELINE if any(run.scheme == BASELINE for run in runs) else next((run.scheme for run in runs), None)
    bases = [run for run in runs if run.scheme == scheme and scheme is not None]
    for run in runs:
        base = _nearest(run, bases) if run.scheme != scheme else None
        common = set(run.log.evaluated) & set(base.log.evaluated) if base is not None else set()
        tokens = max(common - {0}, default=None)
        if base is None or tokens is None:
            continue
        whole = run.tokens
        yield Comparison(
            run,
            base,
            tokens,
            run.log.evaluated[tokens] - base.log.evaluated[tokens],
            tokens / whole if whole else None,
            ended=tokens == whole and run.status == base.status == "finished",
        )


def _nearest(run: WatchedRun, bases: Sequence[WatchedRun]) -> WatchedRun | None:
    """Of the runs that may be compared with this one, the one that differs in least; None where there is none."""
    facts = run.facts
    if facts is None:
        return None
    found = [each for each in bases if each.facts is not None and not unfair_differences(facts, each.facts)]
    return min(found, key=lambda each: len(allowed_differences(facts, each.facts or facts)), default=None)


def _difference_notice(pairs: Sequence[Comparison], labels: Mapping[str, str]) -> list[Notice]:
    """What the pairs say now, under a title that says what it is worth."""
    if not pairs:
        return []
    lines = [each.sentence(labels) for each in pairs[:MOST_PAIRS]]
    if len(pairs) > MOST_PAIRS:
        lines.append(f"and {len(pairs) - MOST_PAIRS} more pairs (--json has all)")
    if all(each.ended for each in pairs):
        lines.append("Pairs of single runs: attnres compare says what they show.")
        return [Notice("Validation loss against the baseline, at the end", tuple(lines))]
    lines.append("Before the schedule has decayed, a scheme that ends behind may lead. Wait for the end.")
    return [Notice("Validation loss against the baseline so far: not a result", tuple(lines), "warning")]
