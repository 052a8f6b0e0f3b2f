"""Sizes that must divide one another: found before anything is built, with the nearest sizes that would do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnres_cli.errors import UserError
from attnres_cli.preset.checks import _nearest_divisors, _nearest_multiples, heads_divide_width
from attnres_cli.preset.reading import load_preset
from attnres_cli.preset.schema import Complaint, ModelConfig


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
    assert str(fault.where).split(", ")[0] == f"--set {sets[where]}".split(", ")[0]  # the user's own place first
    assert what in fault.what
    assert expected in str(fault.expected)


def test_a_complaint_about_a_default_stands_where_the_other_key_was_said(members: Any, project: Path) -> None:
    sets = ["train.schedule=wsd", "train.warmup_fraction=0.9"]
    with pytest.raises(UserError) as caught:
        load_preset("base.toml", sets=sets, members=members)
    assert caught.value.faults[0].where == "--set train.warmup_fraction=0.9"


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        # The width alone was changed: the line of num_heads is named, too, after what the user said.
        (["model.d_model=63"], ["--set model.d_model=63", "base.toml:NUM_HEADS"]),
        (["model.num_heads=5", "model.d_model=63"], ["--set model.num_heads=5", "--set model.d_model=63"]),
        (["model.context_tokens=128"], ["--set model.context_tokens=128", "base.toml:TOKENS"]),
    ],
)
def test_all_places_of_a_complaint_are_named_the_users_own_first(
    members: Any, project: Path, sets: list[str], expected: list[str]
) -> None:
    lines = Path("base.toml").read_text(encoding="utf-8").splitlines()
    for name, key in (("NUM_HEADS", "num_heads"), ("TOKENS", "tokens_per_step")):
        line = next(number for number, each in enumerate(lines, 1) if each.startswith(key))
        expected = [each.replace(name, str(line)) for each in expected]
    with pytest.raises(UserError) as caught:
        load_preset("base.toml", sets=sets, members=members)
    assert caught.value.faults[0].where == ", ".join(expected)


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


@given(
    st.integers(1, 300), st.integers(1, 40), st.none() | st.integers(1, 40), st.none() | st.integers(1, 40)
)  # fmt: skip
def test_every_proposed_size_of_heads_is_valid(
    width: int, heads: int, kv_heads: int | None, head_dim: int | None
) -> None:
    """Whatever number is proposed, put in, leaves no complaint of this check; of two complaints at most the other."""
    sizes = {"d_model": width, "num_heads": heads, "num_kv_heads": kv_heads, "head_dim": head_dim}
    said = _complaints_about_heads(sizes)
    for followed in _followed(sizes, said):
        left = _complaints_about_heads(followed)
        assert len(left) < len(said)
        assert not any(_complaints_about_heads(each) for each in _followed(followed, left))


def _followed(sizes: dict[str, int | None], complaints: list[Complaint]) -> Iterator[dict[str, int | None]]:
    """`sizes` with one number that a complaint proposes, for each of them."""
    for complaint in complaints:
        for key, numbers in re.findall(r"(\w+) = (\d+(?: or \d+)*)", str(complaint.expected)):
            yield from ({**sizes, key: int(number)} for number in numbers.split(" or "))
        for number in re.findall(r"even head_dim, such as (\d+)", str(complaint.expected)):
            yield {**sizes, "head_dim": int(number)}


@pytest.mark.parametrize(
    ("width", "heads", "expected"),
    [
        (63, 4, "d_model = 56 or 64, or an even head_dim given"),  # an odd width has no even heads
        (100, 16, "num_heads = 10 or 25, d_model = 96 or 128, or an even head_dim given"),
        (64, 64, "num_heads = 32, d_model = 128, or an even head_dim, such as 2"),
        (2, 7, "d_model = 14, or an even head_dim given"),  # one head is too far from seven
    ],
)
def test_sizes_of_heads_that_are_proposed(width: int, heads: int, expected: str) -> None:
    (complaint,) = _complaints_about_heads({"d_model": width, "num_heads": heads})
    assert complaint.expected == expected


def _complaints_about_heads(sizes: dict[str, int | None]) -> list[Complaint]:
    whole = {"transformer_blocks": 2, "context_tokens": 16, **sizes}
    return list(heads_divide_width(SimpleNamespace(model=ModelConfig.model_validate(whole))))
