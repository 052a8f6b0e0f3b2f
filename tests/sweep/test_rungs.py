"""The rungs of a horizon ladder: same warm-up, every one decayed, each leaving the one below where that one decays."""

from __future__ import annotations

import pytest

from attnres_cli.errors import UserError
from attnres_cli.preset.preset import Preset
from attnres_cli.sweep.rungs import DEFAULT_RATIOS, ladder_of, saved_share
from attnres_cli.train.schedule import learning_rate_factor
from tests.small import small_preset

TOKENS_PER_STEP = 64


def base(steps: int = 100, **changes: object) -> Preset:
    return small_preset(
        **{
            "train.horizon_tokens": steps * TOKENS_PER_STEP,
            "train.schedule": "wsd",
            "train.warmup_fraction": 0.1,
            "train.decay_fraction": 0.2,
            **changes,
        }
    )


def test_the_numbers_of_the_usual_ladder() -> None:
    rungs = ladder_of(base(), DEFAULT_RATIOS)
    assert [rung.key for rung in rungs] == ["x0.5", "x0.7", "x1", "x1.4", "x2"]
    assert [rung.steps for rung in rungs] == [50, 70, 100, 140, 200]
    assert [rung.tokens for rung in rungs] == [steps * TOKENS_PER_STEP for steps in (50, 70, 100, 140, 200)]
    assert [rung.constant_steps for rung in rungs] == [40, 56, 80, 112, 160]
    assert [rung.first_step for rung in rungs] == [0, 40, 56, 80, 112]
    # The longest constant part, and a fifth of every rung.
    assert sum(rung.trained_steps for rung in rungs) == 160 + (50 + 70 + 100 + 140 + 200) / 5
    assert saved_share(rungs) == 1 - 272 / 560


@pytest.mark.parametrize("steps", [97, 100, 1000, 1234])
@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.1, 1 / 3])
def test_the_learning_rate_is_the_same_until_a_rung_leaves_the_one_below(steps: int, fraction: float) -> None:
    preset = base(steps, **{"train.warmup_fraction": fraction})
    rungs = ladder_of(preset, DEFAULT_RATIOS)
    presets = [preset.replace(rung.changes) for rung in rungs]
    assert [each.warmup_steps for each in presets] == [preset.warmup_steps] * len(presets)
    for rung, below, above in zip(rungs[1:], presets, presets[1:], strict=False):
        factors = [(learning_rate_factor(below, step), learning_rate_factor(above, step)) for step in range(steps // 2)]
        assert all(ours == theirs for theirs, ours in factors[: rung.first_step])
        theirs, ours = (learning_rate_factor(each, rung.first_step) for each in (below, above))
        assert theirs < ours == 1.0


def test_the_rung_of_the_presets_own_horizon_is_the_preset() -> None:
    preset = base(97, **{"train.warmup_fraction": 0.07})
    (rung,) = ladder_of(preset, [1.0])
    assert preset.replace(rung.changes).digest() == preset.digest()


def test_a_cosine_preset_is_taken_over_to_wsd() -> None:
    preset = small_preset(**{"train.horizon_tokens": 100 * TOKENS_PER_STEP, "train.warmup_fraction": 0.1})
    assert preset.train.schedule == "cosine"
    assert {preset.replace(rung.changes).train.schedule for rung in ladder_of(preset, DEFAULT_RATIOS)} == {"wsd"}


def test_rungs_are_sorted() -> None:
    assert [rung.ratio for rung in ladder_of(base(), [2, 0.5, 1])] == [0.5, 1, 2]


def test_a_rung_without_room_for_warm_up_and_decay_is_refused() -> None:
    with pytest.raises(UserError, match=r"At 0.2 × the tokens 20 steps are left: 18 of warm-up and 4 of decay"):
        ladder_of(base(**{"train.warmup_fraction": 0.18}), [0.2, 1])


def test_rungs_that_are_the_same_number_of_steps_are_refused() -> None:
    with pytest.raises(UserError, match="Horizons 1 and 1.01 are both 20 steps"):
        ladder_of(base(20), [1, 1.01])
