from __future__ import annotations

import pytest

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.sweep.budget import (
    FEWEST_STEPS,
    OVERHEAD_SECONDS,
    TimedRun,
    estimated_seconds,
    interpolated,
    sample_positions,
    tokens_for_flops,
    tokens_for_minutes,
)


def test_flops_buy_whole_steps_and_never_more() -> None:
    assert tokens_for_flops(1e9, flops_per_token=1000, tokens_per_step=4096) == 244 * 4096


def test_too_few_flops_are_refused_with_the_price() -> None:
    with pytest.raises(UserError, match=r"buys 2 steps of 4,096 tokens; a run needs at least 20") as caught:
        tokens_for_flops(1e7, flops_per_token=1000, tokens_per_step=4096)
    assert caught.value.exit_code == ExitCode.USAGE
    assert "8.2e+07" in str(caught.value.faults[0].expected)


@pytest.mark.parametrize("parallel_runs", [1, 2])
@pytest.mark.parametrize("every_tokens", [None, 10_000])
def test_minutes_become_as_many_steps_as_fit(parallel_runs: int, every_tokens: int | None) -> None:
    runs = [TimedRun(1e-4, 3000, every_tokens), TimedRun(3e-4, 3000, every_tokens)]
    tokens = tokens_for_minutes(7.305, runs, parallel_runs, tokens_per_step=1000)
    assert tokens % 1000 == 0
    assert (
        estimated_seconds(runs, tokens, parallel_runs) <= 438.3 < estimated_seconds(runs, tokens + 1000, parallel_runs)
    )


def test_a_run_costs_its_tokens_its_evaluations_and_its_start() -> None:
    run = TimedRun(seconds_per_token=1e-3, evaluation_tokens=300, evaluation_every_tokens=1000)
    assert run.seconds(2000) == pytest.approx(OVERHEAD_SECONDS + 2.0 + 3 * 0.1)


def test_too_few_minutes_are_refused_with_how_many_are_needed() -> None:
    runs = [TimedRun(1e-2, 0)] * 4
    with pytest.raises(UserError, match="1 minute buys 0 steps for each of 4 runs") as caught:
        tokens_for_minutes(1, runs, 1, tokens_per_step=1000)
    needed = 4 * (OVERHEAD_SECONDS + FEWEST_STEPS * 10) / 60
    assert caught.value.faults[0].expected == f"at least {int(-(-needed // 1))} minutes"


def test_timed_cells_are_the_extremes_and_the_middle() -> None:
    assert sample_positions([3, 20, 8, 5, 13]) == [0, 1, 2]
    assert sample_positions([7]) == [0]
    assert sample_positions([9, 2]) == [0, 1]


def test_time_between_timed_depths_is_on_a_straight_line() -> None:
    timed = {4: 1.0, 8: 3.0, 16: 4.0}
    assert [interpolated(timed, depth) for depth in (2, 4, 6, 8, 12, 16, 30)] == [1.0, 1.0, 2.0, 3.0, 3.5, 4.0, 4.0]


def test_one_minute_is_said_in_the_singular() -> None:
    run = TimedRun(1e-9, 0)
    with pytest.raises(UserError) as caught:
        tokens_for_minutes(1e-9, [run], 1, tokens_per_step=1000)
    assert caught.value.faults[0].expected == "at least 1 minute"
