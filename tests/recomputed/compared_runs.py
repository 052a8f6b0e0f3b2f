"""Oracles of the tables that comparisons of single runs have alone, from docs/compare.md, "The tables"."""

from __future__ import annotations

import math

from tests.recomputed.arms import Compared
from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.raw import Row


def which_runs(compared: Compared) -> Rows:
    return [
        {"run": arm.title, "status": arm.runs[0].state["status"], "name": arm.runs[0].name} for arm in compared.arms
    ]


def loss(compared: Compared) -> Rows:
    """The last evaluation of each run, and the one after as many tokens as all of them were evaluated at."""
    tokens = compared.equal_tokens
    base = compared.base.runs[0]
    rows = []
    for arm in compared.arms:
        run = arm.runs[0]
        last = run.last_evaluation
        at_equal = None if tokens is None else run.evaluation_at(tokens)
        base_at_equal = None if tokens is None else base.evaluation_at(tokens)
        is_base = run is base
        rows.append(
            {
                "run": arm.title,
                "loss_nats": _of(last, "loss"),
                "loss_delta_nats": None
                if is_base or not _together(last, base.last_evaluation)
                else _minus(last, base.last_evaluation),
                "equal_tokens_loss_nats": _of(at_equal, "loss"),
                "equal_tokens_loss_delta_nats": None if is_base else _minus(at_equal, base_at_equal),
                "perplexity": None if last is None else math.exp(last["loss"]),
                "bits_per_byte": _of(last, "bits_per_byte"),
            }
        )
    return rows


def _of(row: Row | None, key: str) -> float | None:
    return None if row is None else row[key]


def _together(row: Row | None, other: Row | None) -> bool:
    """Whether two evaluations come after as many tokens: elsewhere their difference says nothing."""
    return row is not None and other is not None and row["tokens"] == other["tokens"]


def _minus(row: Row | None, other: Row | None) -> float | None:
    return None if row is None or other is None else row["loss"] - other["loss"]


ORACLES: dict[str, Oracle] = {"runs": which_runs, "loss": loss}
BUILT_IN = {"runs": "report/compare.py", "loss": "report/tables/loss.py"}
