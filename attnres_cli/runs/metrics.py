"""Reading metrics.jsonl: rows by kind, and what a resumed run has to forget.

Rows are dictionaries as documented in docs/run-directory.md. A field that a row lacks, or that is no finite number,
is absent, and absent is None everywhere below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attnres_cli.runs.files import Row
from attnres_cli.runs.reading import is_number


def rows_of_kind(rows: Iterable[Row], kind: str) -> list[Row]:
    """Rows of one kind in order of their step; where a step was written twice, the later line holds."""
    by_step: dict[int, Row] = {}
    for row in rows:
        step = row.get("step")
        if row.get("kind") == kind and isinstance(step, int):
            by_step[step] = row
    return [by_step[step] for step in sorted(by_step)]


def events(rows: Iterable[Row], name: str | None = None) -> list[Row]:
    """Event rows as written (several may share a step), or only those called `name`."""
    return [row for row in rows if row.get("kind") == "event" and (name is None or row.get("event") == name)]


def kept_after_resume(rows: Iterable[Row], after_step: int) -> list[Row]:
    """The rows a run keeps when it continues from the checkpoint of `after_step`: everything up to that step.

    A row without a step belongs to the run as a whole and stays.
    """
    return [row for row in rows if not isinstance(row.get("step"), int) or row["step"] <= after_step]


def number(row: Mapping[str, Any] | None, key: str) -> float | None:
    """A finite number of a row, or None."""
    value = None if row is None else row.get(key)
    return float(value) if is_number(value) else None  # type: ignore[arg-type]  # as is_number says


def at_tokens(evaluations: Iterable[Row], tokens: int) -> Row | None:
    """The evaluation made at exactly `tokens` training tokens; nothing is interpolated."""
    return next((row for row in evaluations if row.get("tokens") == tokens), None)


def largest_equal_tokens(runs: Iterable[Iterable[Row]]) -> int | None:
    """The largest training-token count at which every one of the runs was evaluated, or None when there is none."""
    counts = [
        {row["tokens"] for row in evaluations if isinstance(row.get("tokens"), int) and number(row, "loss") is not None}
        for evaluations in runs
    ]
    common = set.intersection(*counts) if counts else set()
    return max(common, default=None)
