"""Sizes that must divide one another: found before anything is built, with the nearest sizes that would do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnres_cli.errors import UserError
from attnres_cli.preset.checks import _nearest_divisors, _nearest_multiples
from attnres_cli.preset.reading import load_preset


@pytest.mark.parametrize(
    ("sets", "where", "what", "expected"),
    [
        (["train.tokens_per_step=72"], 0, "no multiple of context_tokens = 16", "tokens_per_step = 64 or 80"),
        (["train.tokens_per_step=7"], 0, "no multiple of context_tokens = 16", "tokens_per_step = 16"),
        (["train.micro_batch_sequences=3"], 0, "does not divide the 4 sequences", "micro_batch_sequences = 2 or 4"),
        (["train.micro_batch_sequences=9"], 0, "does not divide the 4 sequences", "micro_batch_sequences = 4"),
        (["model.num_heads=5"], 0, "d_model = 64 is no multiple of num_heads = 5", "num_heads = 4 or 8, d_model ="),
        (["model.num_heads=64"], 0, "head size 1 is odd", "even head_dim"),
        (["model.head_dim=7"], 0, "head size 7 is odd", "such as 8"),
        (["model.num_kv_heads=3"], 0, "num_heads = 4 is no multiple of num_kv_heads = 3", "num_kv_heads = 2 or 4"),
        (["train.schedule=wsd", "train.warmup_fraction=0.5", "train.decay_fraction=0.6"], 2, "whole", "at most 0.5"),
        (["eval.tokens=15"], 0, "less than one sequence", "at least 16"),
        (['observe.observers=["gradients", "gradients"]'], 0, "twice", "once"),
        (['observe.observers=["gradient"]'], 0, "no observer", "gradients"),
        (["model.mixer=convolutoin"], 0, "no sequence mixer", "convolution"),
    ],
)  # fmt: skip
def test_what_does_not_fit(members: Any, project: Path, sets: list[str], where: int, what: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        load_preset("base.toml", sets=sets, members=members)
    (fault,) = caught.value.faults
    assert fault.where == f"--set {sets[where]}"
    assert what in fault.what
    assert expected in str(fault.expected)


def test_a_complaint_about_a_default_stands_at_the_section(members: Any, project: Path) -> None:
    sets = ["train.schedule=wsd", "train.warmup_fraction=0.9"]
    with pytest.raises(UserError) as caught:
        load_preset("base.toml", sets=sets, members=members)
    assert caught.value.faults[0].where == "base.toml:15"


def test_all_that_does_not_fit_at_once(members: Any, project: Path) -> None:
    sets = ["train.tokens_per_step=72", "model.num_heads=5", "eval.tokens=1"]
    with pytest.raises(UserError) as caught:
        load_preset("base.toml", sets=sets, members=members)
    assert len(caught.value.faults) == 3


@given(st.integers(1, 5000), st.integers(1, 6000))
def test_nearest_divisors(number: int, wanted: int) -> None:
    found = _nearest_divisors(number, wanted)
    every = [each for each in range(1, number + 1) if number % each == 0]
    assert found == [*[each for each in every if each <= wanted][-1:], *[each for each in every if each > wanted][:1]]
    assert found


@given(st.integers(1, 500), st.integers(1, 6000))
def test_nearest_multiples(unit: int, wanted: int) -> None:
    found = _nearest_multiples(unit, wanted)
    assert all(each % unit == 0 and each > 0 and abs(each - wanted) <= unit for each in found)
    assert found[-1] > wanted


@given(st.integers(1, 40), st.integers(1, 300), st.integers(1, 30))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_suggested_sizes_are_right(members: Any, project: Path, context: int, tokens: int, micro: int) -> None:
    """Following the suggestions ends in a valid preset, in at most two steps."""
    values = {"model.context_tokens": context, "train.tokens_per_step": tokens, "train.micro_batch_sequences": micro}
    for _ in range(3):
        sets = [f"{key}={value}" for key, value in values.items()]
        try:
            load_preset("base.toml", sets=[*sets, "eval.tokens=1000"], members=members)
        except UserError as error:
            (fault,) = error.faults
            key, _, sizes = str(fault.expected).partition(" = ")
            values[f"train.{key}"] = int(sizes.split(" or ")[-1])
        else:
            return
    pytest.fail(f"no valid size found: {values}")
