"""Interleaving, the distribution-free interval, and the round trip of a result."""

from __future__ import annotations

import json
import random
from statistics import median

import pytest

from attnres_cli.bench.interleaved import Arm, BenchResult, Setting, interleave, median_interval


def test_arms_alternate_and_warmup_is_off_the_clock() -> None:
    calls: list[str] = []
    result = interleave({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, pairs=3, warmup=2)
    assert calls == ["a", "b"] * 5
    assert [len(arm.wall_seconds) for arm in result.arms] == [3, 3]
    assert [len(arm.cpu_seconds) for arm in result.arms] == [3, 3]


def test_the_device_is_waited_for_around_every_sample() -> None:
    events: list[str] = []
    interleave({"a": lambda: events.append("run")}, pairs=2, warmup=1, synchronize=lambda: events.append("wait"))
    assert events == ["run", "wait", "run", "wait", "wait", "run", "wait"]


def test_progress_counts_rounds() -> None:
    seen: list[tuple[int, int]] = []
    interleave({"a": lambda: None}, pairs=2, warmup=0, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("n", "low", "high", "coverage"),
    # Published binomial tables: the whole range below n = 9; ranks 2 and 8 at 9; 2 and 9 at 10; 6 and 15 at 20.
    [
        (5, 1, 5, 0.9375),
        (6, 1, 6, 0.96875),
        (7, 1, 7, 0.984375),
        (9, 2, 8, 0.9609),
        (10, 2, 9, 0.9785),
        (20, 6, 15, 0.9586),
    ],
)
def test_interval_ranks_and_coverage(n: int, low: int, high: int, coverage: float) -> None:
    interval = median_interval([float(value) for value in random.Random(n).sample(range(1, n + 1), n)])
    assert (interval.low, interval.high) == (low, high)
    assert interval.coverage == pytest.approx(coverage, abs=1e-4)


def test_interval_of_one_sample_covers_nothing() -> None:
    interval = median_interval([2.0])
    assert (interval.median, interval.low, interval.high, interval.coverage) == (2.0, 2.0, 2.0, 0.0)


def test_stated_coverage_is_reached_on_a_skewed_distribution() -> None:
    rng = random.Random(0)
    true_median, trials, hits = 2.0**0.5, 4000, 0
    for _ in range(trials):
        interval = median_interval([rng.paretovariate(2.0) for _ in range(9)])
        hits += interval.low <= true_median <= interval.high
    # 0.9609 by theory; four standard errors of 4000 trials.
    assert hits / trials == pytest.approx(0.9609, abs=4 * (0.9609 * 0.0391 / trials) ** 0.5)


def result_of(first: list[float], second: list[float], policy: str = "PASSIVE") -> BenchResult:
    arms = (Arm("a", tuple(first), tuple(first)), Arm("b", tuple(second), tuple(second), 100, 50, {"parameters": 3}))
    return BenchResult(arms, warmup=1, setting=Setting(omp_wait_policy=policy))


def test_ratios_are_taken_within_a_round() -> None:
    # The machine slows down threefold; the arms differ by 10 % throughout.
    drift = [1.0, 1.5, 2.0, 2.5, 3.0, 3.0, 3.0]
    result = result_of(drift, [1.1 * value for value in drift])
    ratio = result.ratio("b")
    assert ratio.median == pytest.approx(1.1)
    assert ratio.high - ratio.low < 1e-12
    assert result.ratio("a", to="b").median == pytest.approx(1 / 1.1)


def test_warnings_name_the_arm_that_spreads_and_a_spinning_wait_policy() -> None:
    steady, uneven = [1.0] * 7, [1.0, 1.0, 1.3, 1.3, 1.0, 1.3, 1.0]
    assert result_of(steady, steady).warnings == ()
    wide = result_of(steady, uneven)
    assert len(wide.warnings) == 1
    assert "(interquartile range): b 30%;" in wide.warnings[0]
    assert any("PASSIVE" in warning for warning in result_of(steady, steady, "default").warnings)
    assert any("5 rounds" in warning for warning in result_of(steady[:5], steady[:5]).warnings)


def test_many_uneven_arms_are_counted_and_the_worst_named() -> None:
    arms = tuple(Arm(f"arm {index}", samples := (1.0,) * 4 + (1.2 + index / 10,) * 3, samples) for index in range(5))
    (warning,) = BenchResult(arms, warmup=1, setting=Setting(omp_wait_policy="passive")).warnings
    assert "arm 4 60%, arm 3 50%, arm 2 40% and 2 more;" in warning


def test_other_work_is_a_warning_where_it_is_known() -> None:
    steady = Arm("a", (1.0,) * 7, (1.0,) * 7)
    for cores, warned in ((None, False), (0.1, False), (1.5, True)):
        setting = Setting(cores=2, omp_wait_policy="PASSIVE", other_cores=cores)
        warnings = BenchResult((steady,), warmup=1, setting=setting).warnings
        assert warnings == (("other processes kept 1.5 of 2 cores busy while the clock ran",) if warned else ())


def test_the_clock_to_judge_by() -> None:
    assert result_of([1.0], [1.0]).clock == "cpu"
    cuda = Setting(device="cuda (a GPU)")
    assert BenchResult((Arm("a", (1.0,), (1.0,)),), warmup=1, setting=cuda).clock == "wall"


def test_results_written_before_a_field_was_added_load() -> None:
    values = result_of([1.0, 2.0], [2.0, 3.0]).to_dict()
    del values["calls"]
    for key in ("other_cores", "torch", "processor"):
        del values["setting"][key]
    assert BenchResult.from_dict(values) == result_of([1.0, 2.0], [2.0, 3.0])


def test_json_holds_every_sample_and_loads_back() -> None:
    result = result_of([1.0, 2.0, 3.0], [2.0, 3.0, 4.5])
    text = json.dumps(result.to_dict())
    assert BenchResult.from_dict(json.loads(text)) == result
    stored = json.loads(text)["arms"][1]
    assert stored["wall_seconds"] == [2.0, 3.0, 4.5]
    assert stored["derived"]["wall_ratio"]["median"] == median([2.0, 1.5, 1.5])
    assert result.arm("b").peak_bytes == 150
    assert result.arm("a").peak_bytes is None
    with pytest.raises(ValueError, match="attnres.bench/1"):
        BenchResult.from_dict({"schema": "attnres.bench/2"})
