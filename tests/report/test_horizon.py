"""The horizon ladder's numbers, from a fabricated sweep document whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from attnres_cli.report.document import Document, render
from attnres_cli.report.horizon import Ladder
from attnres_cli.report.sweeps import horizon as report
from attnres_cli.report.tables.horizon import differences_table, losses_table, multipliers_table

RATIOS = (0.5, 0.7, 1.0, 1.4, 2.0)
OWN_TOKENS = 1_000_000
MEASURED = ("loss", "delta", "low", "high", "p", "outcome", "multiplier")
FLOPS = {"plain": 1e6, "mixed": 1.04e6, "other": 1e6}
# What a seed adds to every loss of both schemes: pairing takes it out.
OF_SEED = {0: 0.031, 1: -0.024, 2: 0.008, 3: -0.012, 4: 0.019}

Law = Callable[[float, int], float]


def power_law(flops: float, seed: int) -> float:
    """A baseline that falls along a straight line of log loss over log compute."""
    return 2.0 * (flops / 1e12) ** -0.1 * math.exp(OF_SEED[seed])


def document(laws: dict[str, Law], *, seeds: tuple[int, ...] = (0, 1, 2, 3, 4), without: Any = ()) -> dict[str, Any]:
    """A sweep document in which every scheme's loss at (FLOPs, seed) is that of its law; `without` runs have failed,
    as (scheme, ratio, seed)."""
    cells = [
        {
            "key": f"x{ratio:g}",
            "coordinates": {"horizon": ratio},
            "facts": {
                "tokens": round(ratio * OWN_TOKENS),
                "counts": {label: {"training_flops_per_token": FLOPS[label]} for label in laws},
            },
        }
        for ratio in RATIOS
    ]
    runs = [
        {
            "cell": f"x{ratio:g}",
            "arm": label,
            "seed": seed,
            "status": "failed" if (label, ratio, seed) in without else "finished",
            "loss": None if (label, ratio, seed) in without else law(ratio * OWN_TOKENS * FLOPS[label], seed),
        }
        for ratio in RATIOS
        for label, law in laws.items()
        for seed in seeds
    ]
    return {
        "arms": [{"label": label} for label in laws],
        "seeds": list(seeds),
        "planned_seeds": len(seeds),
        "cells": cells,
        "runs": runs,
    }


def ladder(laws: dict[str, Law], **choices: Any) -> Ladder:
    return Ladder(document(laws, **choices))


def of_more_compute(factor: float, wobble: float = 0.0) -> Law:
    """A scheme that is the baseline of `factor` × the compute; by seed a little more or less."""
    return lambda flops, seed: power_law(flops * factor * (1 + wobble * (seed - 2)), seed)


def shifted(by: Callable[[float], float], wobble: float = 0.0) -> Law:
    """A scheme whose Δ at a ratio of the tokens is `by(ratio)`, by seed a little more or less."""
    return lambda flops, seed: power_law(flops, seed) + by(flops / OWN_TOKENS / FLOPS["plain"]) + wobble * (seed - 2)


@pytest.mark.parametrize("ratio", [0.5, 0.7, 1.0, 1.4])
def test_the_multiplier_is_the_compute_that_makes_the_baseline_as_good(ratio: float) -> None:
    found = ladder({"plain": power_law, "other": of_more_compute(1.25, wobble=0.01)})
    rung = next(rung for rung in found.rungs if rung.ratio == ratio)
    multiplier = found.multiplier("other", rung)
    assert multiplier is not None
    assert multiplier.value == pytest.approx(1.25, rel=1e-3)
    assert multiplier.low is not None
    assert multiplier.high is not None
    assert 1.2 < multiplier.low < 1.25 < multiplier.high < 1.3
    assert multiplier.pairs == 5


def test_the_arms_own_compute_counts_its_mixing() -> None:
    """The same loss at the same tokens is worth less compute where the scheme itself takes 4 % more."""
    laws: dict[str, Law] = {"plain": power_law, "mixed": lambda flops, seed: power_law(flops / 1.04 * 1.25, seed)}
    found = ladder(laws)
    multiplier = found.multiplier("mixed", found.own_rung)
    assert multiplier is not None
    assert multiplier.value == pytest.approx(1.25 / 1.04, rel=1e-6)


def test_beyond_the_ladder_there_is_no_number() -> None:
    found = ladder({"plain": power_law, "other": of_more_compute(2.5)})
    multiplier = found.multiplier("other", found.own_rung)
    assert multiplier is not None
    assert (multiplier.value, multiplier.side) == (None, "above")
    text = render(Document("x", (multipliers_table(found),)), "table")
    assert "more than 2 " in text
    worse = ladder({"plain": power_law, "other": of_more_compute(0.4)})
    assert "less than 0.5 " in render(Document("x", (multipliers_table(worse),)), "table")


def test_the_own_rung_is_the_presets_horizon_or_the_nearest() -> None:
    values = document({"plain": power_law})
    assert Ladder(values).own_rung.ratio == 1.0
    values["cells"] = [cell for cell in values["cells"] if cell["key"] != "x1"]
    assert Ladder(values).own_rung.ratio in (0.7, 1.4)


def test_delta_pairs_by_seed() -> None:
    """Seeds differ by far more than the schemes do, and yet the interval is that of the differences."""
    found = ladder({"plain": power_law, "other": shifted(lambda ratio: -0.01, wobble=0.001)})
    difference = found.contrast("other", found.own_rung)
    assert difference is not None
    assert difference.mean == pytest.approx(-0.01)
    # Five equidistant differences 0.001 apart: s = 0.001 sqrt(2.5), t(4) = 2.776.
    half = 2.776445 * 0.001 * math.sqrt(2.5) / math.sqrt(5)
    assert difference.half == pytest.approx(half, rel=1e-6)
    assert difference.outcome == "lower"


def test_delta_is_corrected_over_all_rungs() -> None:
    """One comparison would show it (p = 0.0156); five of them do not (Holm: 5 × 0.0156)."""
    found = ladder({"plain": power_law, "other": shifted(lambda ratio: -0.01, wobble=0.0035)})
    one = found.contrast("other", found.own_rung)
    assert one is not None
    assert one.p == pytest.approx(5 * 0.0156, rel=0.01)
    assert abs(one.mean) > one.half
    assert one.outcome == "not shown"


def test_two_pairs_give_no_verdict_and_one_no_interval() -> None:
    laws: dict[str, Law] = {"plain": power_law, "other": shifted(lambda ratio: -0.5, wobble=0.001)}
    two, one = ladder(laws, seeds=(0, 1)), ladder(laws, seeds=(0,))
    for found, has_interval in ((two, True), (one, False)):
        contrast = found.contrast("other", found.own_rung)
        assert contrast is not None
        assert contrast.outcome == "too few"
        assert math.isfinite(contrast.half) is has_interval
        multiplier = found.multiplier("other", found.own_rung)
        assert multiplier is not None
        assert (multiplier.low is not None) is has_interval
    text = render(Document("x", (losses_table(one), differences_table(one))), "table")
    assert "one seed, so no interval" in text
    assert "One seed: single runs without an interval, and no verdict." in text
    assert "±" not in text


@pytest.mark.parametrize(("per_doubling", "shown"), [(0.003, True), (-0.003, True), (0.0, False)])
def test_the_trend_is_the_change_of_delta_per_doubling(per_doubling: float, shown: bool) -> None:
    # A wobble in the slope: seed by seed a little steeper or flatter.
    def law(flops: float, seed: int) -> float:
        ratio = flops / OWN_TOKENS / FLOPS["plain"]
        return power_law(flops, seed) - 0.02 + (per_doubling + 0.0005 * (seed - 2)) * math.log2(ratio)

    trend = ladder({"plain": power_law, "other": law}).trend("other")
    assert trend is not None
    assert trend.mean == pytest.approx(per_doubling, abs=1e-12)
    assert trend.outcome == (("higher" if per_doubling > 0 else "lower") if shown else "not shown")
    single = ladder({"plain": power_law, "other": law}, seeds=(2,)).trend("other")
    assert single is not None
    assert math.isnan(single.half)
    assert single.outcome == "too few"


def test_a_failed_run_costs_its_pair_and_nothing_else() -> None:
    laws = {"plain": power_law, "other": shifted(lambda ratio: -0.01, wobble=0.001)}
    found = ladder(laws, without=[("other", 1.0, 2)])
    assert {key: each.n for (key, _), each in found.contrasts.items()} == {
        "x0.5": 5,
        "x0.7": 5,
        "x1": 4,
        "x1.4": 5,
        "x2": 5,
    }
    text = render(Document("x", (losses_table(found),)), "table")
    assert "4 of 5 seeds have finished" in text


def test_a_failed_reference_run_takes_its_rung_out_of_the_ladder() -> None:
    """The ladder then ends lower, and says so."""
    laws = {"plain": power_law, "other": of_more_compute(2.5)}
    found = ladder(laws, without=[("plain", 2.0, 2)])
    multiplier = found.multiplier("other", found.own_rung)
    assert multiplier is not None
    assert multiplier.last == pytest.approx(1.4)


def test_nothing_finished_is_a_row_of_dashes() -> None:
    laws = {"plain": power_law, "other": power_law}
    every = [(label, ratio, seed) for label in laws for ratio in RATIOS for seed in range(5)]
    found = ladder(laws, without=every)
    assert found.contrasts == {}
    assert found.trend("other") is None
    assert found.multiplier("other", found.own_rung) is None
    for table in (losses_table(found), differences_table(found), multipliers_table(found)):
        assert len(table.rows) == 5
        for row in table.to_dict()["rows"]:
            measured = {key: value for key, value in row.items() if key.split("_")[0] in MEASURED}
            assert measured
            assert set(measured.values()) == {None}
    assert report.blocks(found.results.document, 80) == []


def test_the_tables_fit_eighty_columns() -> None:
    found = ladder({"plain": power_law, "other": of_more_compute(1.25, wobble=0.01), "mixed": power_law})
    for table in (losses_table(found), differences_table(found), multipliers_table(found)):
        assert table.width_columns <= 80


def test_the_sentences_and_the_chart_say_what_the_tables_do() -> None:
    laws: dict[str, Law] = {"plain": power_law, "other": of_more_compute(1.25, wobble=0.01)}
    text = render(Document("x", tuple(report.blocks(document(laws), 80))), "table", width_columns=80)
    flat = " ".join(text.split())
    own = ladder(laws).contrast("other", ladder(laws).own_rung)
    assert own is not None
    assert f"other at 1 × the tokens: Δ {own.mean:+.4f} ({own.mean - own.half:+.4f} to" in flat
    assert "Compute that plain needs for the loss of other: 1.25× (1.2" in flat
    assert "With every doubling of the tokens its Δ changes by +0.00" in flat
    assert all(f"{ratio:g} × " in text for ratio in RATIOS)
    assert max(map(len, text.splitlines())) <= 80


def test_json_has_every_number_and_null_beyond_the_ladder() -> None:
    found = report.payload(document({"plain": power_law, "other": of_more_compute(2.5)}))
    own = next(each for each in found["multipliers"] if each["cell"] == "x1")
    assert (own["arm"], own["value"], own["side"], own["last"]) == ("other", None, "above", 2.0)
    assert len(found["differences"]) == len(found["multipliers"]) == 5
    assert set(found["nats_per_doubling"]) == {"other"}
