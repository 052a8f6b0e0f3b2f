"""Sampling against slow definitions."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.errors import UserError
from attnres_cli.generate.sampling import SamplingConfig, choose, pick, probabilities, uniform

# Small whole numbers make ties, large ones underflow.
logits_lists = st.lists(st.integers(-40, 40) | st.floats(-800, 800), min_size=1, max_size=7)
temperatures = st.floats(0.01, 100)
uniforms = st.floats(0, 1, exclude_max=True)
LARGEST = 1 - 2**-53


def softmax(logits: list[float], temperature: float) -> list[float]:
    largest = max(logits)
    powers = [math.exp((logit - largest) / temperature) for logit in logits]
    return [power / sum(powers) for power in powers]


def kept_alone(distribution: list[float], kept: set[int]) -> list[float]:
    mass = sum(distribution[token] for token in kept)
    return [p / mass if token in kept else 0.0 for token, p in enumerate(distribution)]


def found(logits: list[float], **settings: float) -> list[float]:
    sampling = SamplingConfig(**settings)  # type: ignore[arg-type]
    return [float(p) for p in probabilities(torch.tensor(logits, dtype=torch.float64), sampling)]


def tokens_of(distribution: list[float]) -> set[int]:
    return {token for token, p in enumerate(distribution) if p > 0}


@given(logits_lists, temperatures)
def test_temperature(logits: list[float], temperature: float) -> None:
    assert found(logits, temperature=temperature) == pytest.approx(softmax(logits, temperature), rel=1e-12, abs=1e-300)


@given(logits_lists)
def test_temperature_0_is_greedy_and_the_first_of_equals_wins(logits: list[float]) -> None:
    best = logits.index(max(logits))
    assert found(logits, temperature=0.0) == [float(token == best) for token in range(len(logits))]
    config = SamplingConfig(temperature=0.0, top_k=3, top_p=0.5)
    assert choose(torch.tensor(logits, dtype=torch.float64), config, sample=2, place=9) == best


@given(logits_lists, temperatures, st.integers(1, 9))
def test_top_k_keeps_the_k_largest(logits: list[float], temperature: float, k: int) -> None:
    """Ranked by probability, then by id: tiny differences of logits may vanish in it."""
    whole = found(logits, temperature=temperature)
    kept = set(sorted(range(len(logits)), key=lambda token: (-whole[token], token))[:k])
    assert found(logits, temperature=temperature, top_k=k) == pytest.approx(
        kept_alone(whole, kept), rel=1e-9, abs=1e-300
    )


@given(logits_lists, st.floats(0.001, 1))
def test_top_p_keeps_the_smallest_set_that_has_the_mass(logits: list[float], p: float) -> None:
    """Against all subsets: no smaller one has the mass, and of its size none has more."""
    whole = found(logits, temperature=1.0)
    limited = found(logits, temperature=1.0, top_p=p)
    kept = tokens_of(limited)
    assert limited == pytest.approx(kept_alone(whole, kept), rel=1e-9, abs=1e-300)

    def mass(tokens: tuple[int, ...] | set[int]) -> float:
        return math.fsum(whole[token] for token in tokens)

    rounding = 1e-12
    assert mass(kept) >= p - rounding
    support = sorted(tokens_of(whole))
    smaller = [c for size in range(len(kept)) for c in itertools.combinations(support, size)]
    assert all(mass(subset) < p + rounding for subset in smaller)
    assert all(mass(subset) <= mass(kept) + rounding for subset in itertools.combinations(support, len(kept)))


def test_top_p_by_hand() -> None:
    logits = [math.log(p) for p in (0.125, 0.5, 0.25, 0.125)]
    assert tokens_of(found(logits, temperature=1.0, top_p=0.4)) == {1}
    assert tokens_of(found(logits, temperature=1.0, top_p=0.6)) == {1, 2}
    assert tokens_of(found(logits, temperature=1.0, top_p=0.8)) == {0, 1, 2}  # of two equals the lower id
    assert tokens_of(found(logits, temperature=1.0, top_p=1.0)) == {0, 1, 2, 3}
    assert found(logits, temperature=1.0, top_p=0.6) == pytest.approx([0, 2 / 3, 1 / 3, 0])


def test_top_p_counts_among_the_top_k() -> None:
    """0.4 and 0.3 are 4/7 and 3/7 of the two that top_k leaves: 0.5 of that is one token, of all it were two."""
    logits = [math.log(p) for p in (0.4, 0.3, 0.2, 0.1)]
    assert tokens_of(found(logits, temperature=1.0, top_k=2, top_p=0.5)) == {0}
    assert tokens_of(found(logits, temperature=1.0, top_p=0.5)) == {0, 1}


@given(logits_lists, uniforms | st.just(LARGEST), st.integers(1, 9) | st.none(), st.floats(0.01, 1) | st.none())
def test_pick_is_where_the_sum_passes_the_number(
    logits: list[float], number: float, top_k: int | None, top_p: float | None
) -> None:
    distribution = probabilities(torch.tensor(logits, dtype=torch.float64), SamplingConfig(1.0, top_k, top_p))
    token = int(pick(distribution, number))
    assert distribution[token] > 0
    before, through = float(distribution[:token].sum()), float(distribution[: token + 1].sum())
    assert before - 1e-12 <= number < through + 1e-12


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=4), uniforms
)
def test_a_row_of_a_batch_is_as_if_it_were_alone(rows: list[tuple[int, ...]], number: float) -> None:
    sampling = SamplingConfig(0.7, top_k=2, top_p=0.9)
    batch = probabilities(torch.tensor(rows, dtype=torch.float64), sampling)
    numbers = torch.full((len(rows),), number, dtype=torch.float64)
    for row, distribution, token in zip(rows, batch, pick(batch, numbers), strict=True):
        alone = probabilities(torch.tensor(row, dtype=torch.float64), sampling)
        assert torch.equal(distribution, alone)
        assert token == pick(alone, number)


def test_shares_of_many_draws_are_the_probabilities() -> None:
    """10,000 draws: each share within five standard deviations, which one in a million of fair draws would miss."""
    sampling = SamplingConfig(temperature=1.0, seed=3)
    distribution = torch.tensor([0.1, 0.0, 0.6, 0.3], dtype=torch.float64)
    count = 10_000
    numbers = [uniform(sampling.seed, sample, place) for sample in range(100) for place in range(count // 100)]
    drawn = pick(distribution.expand(count, 4), torch.tensor(numbers, dtype=torch.float64))
    for token, p in enumerate(distribution.tolist()):
        deviation = math.sqrt(p * (1 - p) / count)
        assert abs(float((drawn == token).double().mean()) - p) <= 5 * deviation


def test_every_place_of_every_sample_of_every_seed_has_its_own_number() -> None:
    numbers = [uniform(*names) for names in itertools.product(range(5), repeat=3)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) == len(numbers)
    assert numbers == [uniform(*names) for names in itertools.product(range(5), repeat=3)]


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"temperature": -0.1}, "--temperature"),
        ({"temperature": math.nan}, "--temperature"),
        ({"temperature": math.inf}, "--temperature"),
        ({"top_k": 0}, "--top-k"),
        ({"top_p": 0.0}, "--top-p"),
        ({"top_p": 1.01}, "--top-p"),
        ({"top_p": math.nan}, "--top-p"),
    ],
)
def test_values_that_mean_nothing_are_refused(settings: dict[str, float], option: str) -> None:
    with pytest.raises(UserError, match="is no value for") as caught:
        SamplingConfig(**settings)  # type: ignore[arg-type]
    assert caught.value.faults[0].where == option
