"""The grammar of conditions: against Python's own arithmetic, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.analysis.conditions import COMPARISONS, MOST_PARENTHESES, Name, parse_condition
from attnres_cli.errors import ExitCode, UserError

VALUES: dict[Name, float] = {
    ("attnres-block", "step_ratio"): 1.06,
    ("prenorm", "loss"): 2.5,
    ("baseline", "attnres-block", "step_ratio"): 1.02,
    ("attnres-block@16", "peak_ratio"): 1.5,
    ("my run #3", "loss"): 2.25,
}


def holds(text: str) -> bool:
    return parse_condition(text).judge(VALUES.__getitem__).holds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("attnres-block.step_ratio > 1.05", True),
        ("attnres-block.step_ratio>1.07", False),
        ("attnres-block.step_ratio > baseline.attnres-block.step_ratio + 0.01", True),
        ("attnres-block.step_ratio > baseline.attnres-block.step_ratio * 1.05", False),
        ("attnres-block@16.peak_ratio >= 1.5", True),
        ('"my run #3".loss < prenorm.loss - 0.2', True),
        ("prenorm.loss-2 == .5", True),
        ("prenorm.loss != 2.5e0", False),
        ("-prenorm.loss < --1", True),
        ("2 - 3 - 4 == -5", True),
        ("24 / 4 / 2 == 3", True),
        ("2 + 3 * 4 == 14", True),
        ("(2 + 3) * 4 == 20", True),
        ("  1<=1  ", True),
    ],
)
def test_examples(text: str, expected: bool) -> None:
    assert holds(text) is expected


def test_names_and_the_sentence() -> None:
    condition = parse_condition("a-b.x > baseline.a-b.x * (1 + a-b.y) - a-b.x")
    assert condition.names == (("a-b", "x"), ("baseline", "a-b", "x"), ("a-b", "y"))
    outcome = parse_condition("prenorm.loss > 1 + 2").judge(VALUES.__getitem__)
    assert str(outcome) == "prenorm.loss > 1 + 2: 2.5 > 3 is false"


# Expressions as Python source, which is the reference here; every name stands for a number.
NUMBERS = st.floats(min_value=0, max_value=1e6).map(repr)
NAMES = st.sampled_from(["prenorm.loss", "attnres-block.step_ratio", "baseline.attnres-block.step_ratio"])


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = st.sampled_from(["+", " -", "*", "/", " + ", " - "])
    return st.one_of(
        st.tuples(parts, signs, parts).map("".join),
        parts.map(lambda each: f"({each})"),
        parts.map(lambda each: f"-{each}"),
    )


EXPRESSIONS = st.recursive(st.one_of(NUMBERS, NAMES), joined, max_leaves=12)


def by_python(source: str) -> Any:
    for name, value in sorted(VALUES.items(), key=lambda item: -len(item[0])):
        source = source.replace(".".join(name), repr(value))
    return eval(source)


@given(EXPRESSIONS, st.sampled_from(list(COMPARISONS)), EXPRESSIONS)
def test_it_computes_what_python_computes(left: str, comparison: str, right: str) -> None:
    # Python's "--1" is a number, too, and "1--1" is the same in both.
    text = f"{left} {comparison} {right}"
    try:
        expected = (by_python(left), by_python(right), by_python(f"({left}) {comparison} ({right})"))
    except ZeroDivisionError:
        with pytest.raises(UserError, match="divides by zero"):
            parse_condition(text).judge(VALUES.__getitem__)
        return
    if not all(map(math.isfinite, expected[:2])):
        with pytest.raises(UserError, match="compares"):
            parse_condition(text).judge(VALUES.__getitem__)
        return
    outcome = parse_condition(text).judge(VALUES.__getitem__)
    assert (outcome.left, outcome.right, outcome.holds) == expected


def refusal(text: str) -> UserError | None:
    try:
        parse_condition(text)
    except UserError as error:
        return error
    return None


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    error = refusal(text)
    assert error is None or (error.exit_code, error.faults[0].where) == (ExitCode.USAGE, "--fail-on")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "ends too early"),
        ("a.x", "ends too early"),
        ("a.x >", "ends too early"),
        ("a.x > 1 2", "from '2' on"),
        ("a.x > 1 > 2", "from '> 2' on"),
        ("a.x = 1", "from '= 1' on"),
        ("loss > 1", "from 'loss > 1' on"),
        ("a.x > (1 + 2", "ends too early"),
        ("a.x > 1 + * 2", "from '* 2' on"),
        ("a.x > 5%", "from '%' on"),
        ("a.x > __import__('os')", "__import__"),
        ("1 > " + "(" * 5000 + "1", "cannot be read"),
    ],
)
def test_what_is_no_condition(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_condition(text)
    assert said in caught.value.faults[0].what


def test_parentheses_have_a_limit_and_work_up_to_it() -> None:
    for depth, fine in ((MOST_PARENTHESES, True), (MOST_PARENTHESES + 1, False)):
        text = "1 == " + "(" * depth + "1" + ")" * depth
        if fine:
            assert holds(text)
        else:
            with pytest.raises(UserError, match="cannot be read"):
                parse_condition(text)
