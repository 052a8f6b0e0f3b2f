"""Rows by kind, and the token count at which runs can be compared."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.runs.metrics import at_tokens, events, kept_after_resume, largest_equal_tokens, number, rows_of_kind


def evaluation(step: int, loss: float | None = 1.0) -> dict[str, object]:
    return {"kind": "eval", "step": step, "tokens": 10 * step, "loss": loss}


def test_rows_of_a_kind_are_ordered_by_step_and_the_later_line_holds() -> None:
    rows = [evaluation(20), {"kind": "train", "step": 5}, evaluation(10, 3.0), evaluation(10, 2.0), {"kind": "eval"}]
    assert [(row["step"], row["loss"]) for row in rows_of_kind(rows, "eval")] == [(10, 2.0), (20, 1.0)]


def test_events_may_share_a_step() -> None:
    rows = [{"kind": "event", "step": 3, "event": name} for name in ("checkpoint", "interrupted", "resumed")]
    assert events(rows) == rows
    assert events(rows, "resumed") == rows[2:]


def test_resuming_keeps_everything_up_to_the_checkpoint() -> None:
    rows = [evaluation(10), evaluation(20), {"kind": "event", "step": 20, "event": "checkpoint"}, evaluation(30)]
    assert kept_after_resume([*rows, {"note": "no step"}], 20) == [*rows[:3], {"note": "no step"}]
    assert kept_after_resume(rows, -1) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1.0), (0.5, 0.5), (None, None), (math.nan, None), (math.inf, None), ("1", None), (True, None)],
)
def test_only_a_finite_number_is_a_number(value: object, expected: float | None) -> None:
    assert number({"loss": value}, "loss") == expected


def test_absent_is_none() -> None:
    assert number({}, "loss") is None
    assert number(None, "loss") is None


def test_nothing_is_interpolated() -> None:
    rows = [evaluation(10), evaluation(30)]
    assert at_tokens(rows, 300) == rows[1]
    assert at_tokens(rows, 200) is None


def test_equal_tokens_is_the_largest_common_count_with_a_loss() -> None:
    a = [evaluation(10), evaluation(20), evaluation(30)]
    b = [evaluation(10), evaluation(20), evaluation(30, None), evaluation(40)]
    assert largest_equal_tokens([a, b]) == 200
    assert largest_equal_tokens([a, [evaluation(7)]]) is None
    assert largest_equal_tokens([a, []]) is None
    assert largest_equal_tokens([]) is None


steps = st.lists(st.integers(0, 30), max_size=12)


@given(st.lists(steps, min_size=1, max_size=4))
def test_equal_tokens_does_not_depend_on_order_and_is_common(runs: list[list[int]]) -> None:
    evaluated = [[evaluation(step) for step in run] for run in runs]
    found = largest_equal_tokens(evaluated)
    assert found == largest_equal_tokens(reversed(evaluated))
    common = set.intersection(*({10 * step for step in run} for run in runs))
    assert found == (max(common) if common else None)
