"""Runs are sorted into arms and paired by seed; whatever else differs is announced and left out by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attnres_cli.report.arms import Arm
from attnres_cli.report.grouping import Grouping, arm_names, group_by_arm, have_pairs
from attnres_cli.report.pairing import Pairing, pairing
from tests.fabricated_runs import BLOCK_SCHEME, fabricate, fabricate_arm
from tests.report.groups import BASE, BLOCK, baseline, block, read


def names(arm: Arm) -> list[str]:
    return [run.name for run in arm.runs]


def aside(found: Grouping) -> dict[str, str]:
    return {each.run.name: each.reason for each in found.set_aside}


def paired(found: Grouping) -> Pairing:
    assert found.baseline is not None
    [other] = [arm for arm in found.arms if arm is not found.baseline]
    return pairing(other, found.baseline)


def test_runs_are_sorted_by_scheme_and_paired_by_seed(tmp_path: Path) -> None:
    runs = read([*baseline(tmp_path, 3), *block(tmp_path, [0.1, 0.2, 0.3])])
    found = group_by_arm([runs[index] for index in (0, 4, 2, 3, 1, 5)])
    assert [(arm.label, len(arm.runs)) for arm in found.arms] == [(BASE, 3), (BLOCK, 3)]
    assert (found.set_aside, found.announcements) == ((), ())
    pairs = paired(found).pairs
    assert [(pair.seed, pair.ours.name, pair.theirs.name) for pair in pairs] == [
        (seed, f"{BLOCK}-s{seed}", f"{BASE}-s{seed}") for seed in range(3)
    ]


def test_the_baseline_is_the_first_arm_or_the_one_that_is_named(tmp_path: Path) -> None:
    runs = read([*baseline(tmp_path, 2), *block(tmp_path, [0.1, 0.2])])
    for wanted, label in ((None, BASE), (BLOCK, BLOCK), (runs[3], BLOCK)):
        found = group_by_arm(runs, baseline=wanted)
        assert found.baseline is not None
        assert found.baseline.label == label


def test_arms_of_one_scheme_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    runs = [
        *block(tmp_path, [0.1], seeds=[0]),
        *fabricate_arm(tmp_path, "four", residual={**BLOCK_SCHEME, "num_blocks": 4}, better_by=[0.1]),
        *baseline(tmp_path, 1),
    ]
    assert [arm.label for arm in group_by_arm(read(runs)).arms] == [
        f"{BLOCK} num_blocks=2",
        f"{BLOCK} num_blocks=4",
        BASE,
    ]


def test_the_back_end_makes_no_arm(tmp_path: Path) -> None:
    runs = [
        *fabricate_arm(tmp_path, "a", residual={**BLOCK_SCHEME, "backend": "torch"}, better_by=[0.1]),
        *fabricate_arm(tmp_path, "b", residual={**BLOCK_SCHEME, "backend": "cpp"}, better_by=[0.1], seeds=[1]),
    ]
    assert [arm.label for arm in group_by_arm(read(runs)).arms] == [BLOCK]


def test_groups_of_one_and_the_same_configuration_are_arms_of_their_own(tmp_path: Path) -> None:
    runs = read([*baseline(tmp_path / "old", 3), *baseline(tmp_path / "new", 3)])
    found = group_by_arm(runs, groups=["old"] * 3 + ["new"] * 3)
    assert [(arm.label, len(arm.runs)) for arm in found.arms] == [("old", 3), ("new", 3)]
    assert len(paired(found).pairs) == 3


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("train.horizon_tokens", 102400, "another train.horizon_tokens (102400, not 204800)"),
        ("train.learning_rate", 0.001, "another train.learning_rate (0.001, not 0.003)"),
        ("model.d_model", 96, "another model.d_model (96, not 64), model.head_dim (24, not 16), model.d_ff"),
        ("train.grad_clip", 0.5, "another train.grad_clip (0.5, not 1)"),
    ],
)
def test_a_hidden_dimension_is_announced_and_left_out_by_name(
    tmp_path: Path, key: str, value: float, said: str
) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1, 0.2, 0.3])]
    runs += fabricate_arm(tmp_path, "odd", better_by=[0.0, 0.0], change={key: value})
    found = group_by_arm(read(runs))
    assert set(aside(found)) == {"odd-s0", "odd-s1"}
    assert aside(found)["odd-s0"].startswith(said)
    [announcement] = found.announcements
    assert f"inside {BASE} more than the seed differs: compared are the 3 runs with {key} = " in announcement
    assert len(paired(found).pairs) == 3


def test_a_manifest_field_can_be_a_hidden_dimension(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1, 0.2, 0.3])]
    runs += fabricate_arm(tmp_path, "odd", better_by=[0.0], seeds=[3], manifest={"data.validation_set_hash": "9" * 64})
    found = group_by_arm(read(runs))
    assert aside(found) == {"odd-s3": "another data.validation_set_hash (999999999999…, not cccccccccccc…)"}


def test_of_two_horizons_the_one_with_more_partners_is_compared(tmp_path: Path) -> None:
    short = {"change": {"train.horizon_tokens": 102400}, "steps": 50}
    runs = [
        *fabricate_arm(tmp_path, "long", better_by=[0.0] * 4),
        *fabricate_arm(tmp_path, "short", better_by=[0.0] * 3, **short),
        *fabricate_arm(tmp_path, "block", residual=BLOCK_SCHEME, better_by=[0.1] * 3, **short),
    ]
    found = group_by_arm(read(runs))
    assert {run.name for arm in found.arms for run in arm.runs} == {
        f"{n}-s{s}" for n in ("short", "block") for s in range(3)
    }
    assert set(aside(found)) == {f"long-s{seed}" for seed in range(4)}


def test_of_two_horizons_with_as_many_partners_the_longer_one_is_compared(tmp_path: Path) -> None:
    short = {"change": {"train.horizon_tokens": 102400}, "steps": 50}
    runs = [
        *baseline(tmp_path / "short", 3, **short),
        *block(tmp_path / "short", [0.1] * 3, **short),
        *baseline(tmp_path / "long", 3),
        *block(tmp_path / "long", [0.1] * 3),
    ]
    found = group_by_arm(read(runs))
    assert {run.horizon_tokens for arm in found.arms for run in arm.runs} == {204800}
    assert len(paired(found).pairs) == 3
    assert len(found.announcements) == 2


def test_a_run_that_does_not_say_its_seed_is_in_no_pair(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 2), *block(tmp_path, [0.1] * 2)]
    mute = fabricate_arm(tmp_path, "mute", better_by=[0.0, 0.0])
    for run in mute:
        text = run.resolved_toml.read_text()
        run.resolved_toml.write_text(re.sub(r"^seed = .*\n", "", text, flags=re.MULTILINE))
    runs += mute
    pairs = paired(group_by_arm(read(runs)))
    assert [pair.seed for pair in pairs.pairs] == [0, 1]
    assert [(run.name, why) for run, why in pairs.alone] == [
        (f"mute-s{number}", "it does not say its seed") for number in (0, 1)
    ]


def test_a_whole_arm_of_another_horizon_stays_and_its_pairs_are_unfair(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1] * 3, change={"train.horizon_tokens": 102400})]
    found = group_by_arm(read(runs))
    assert found.set_aside == ()
    pairs = paired(found)
    assert pairs.pairs == ()
    assert [(seed, [each.key for each in differences]) for seed, differences in pairs.unfair] == [
        (seed, ["train.horizon_tokens"]) for seed in range(3)
    ]


def test_the_rate_may_differ_between_arms(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1] * 3, change={"train.learning_rate": 0.001})]
    found = group_by_arm(read(runs))
    assert found.announcements == ()
    assert len(paired(found).pairs) == 3


def test_runs_without_a_partner_are_named(tmp_path: Path) -> None:
    runs = [
        *baseline(tmp_path, seeds=[0, 1, 2, 5]),
        *block(tmp_path, [0.1] * 4, seeds=[1, 2, 3, 0]),
    ]
    pairs = paired(group_by_arm(read(runs)))
    assert [pair.seed for pair in pairs.pairs] == [0, 1, 2]
    assert [(run.name, why) for run, why in pairs.alone] == [
        (f"{BLOCK}-s3", f"{BASE} has no run with seed 3"),
        (f"{BASE}-s5", f"{BLOCK} has no run with seed 5"),
    ]


def test_another_start_of_one_seed_is_no_pair(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 2), *block(tmp_path, [0.1] * 2)]
    runs += block(tmp_path, [0.1], seeds=[2], manifest={"model.common_weights_hash": "9" * 64})
    runs += baseline(tmp_path, seeds=[2])
    pairs = paired(group_by_arm(read(runs)))
    assert [pair.seed for pair in pairs.pairs] == [0, 1]
    assert [(seed, [each.key for each in differences]) for seed, differences in pairs.unfair] == [
        (2, ["manifest.model.common_weights_hash"])
    ]


@pytest.mark.parametrize("first_ends", [True, False])
def test_of_several_runs_of_one_seed_the_first_that_ended_stands(tmp_path: Path, first_ends: bool) -> None:
    unended = {"until_step": 40, "status": "failed"}
    first, second = ({}, unended) if first_ends else (unended, {})
    runs = [
        *fabricate_arm(tmp_path / "x", "first", better_by=[0.0], began=0, **first),
        *fabricate_arm(tmp_path / "y", "second", better_by=[0.1], began=1, **second),
        *block(tmp_path, [0.1]),
    ]
    found = group_by_arm(read(runs))
    kept, other = ("first-s0", "second-s0") if first_ends else ("second-s0", "first-s0")
    assert names(found.arms[0]) == [kept]
    assert aside(found) == {other: f"it repeats seed 0, for which {kept} stands"}


@pytest.mark.parametrize("file", ["manifest.json", "resolved.toml"])
def test_a_run_that_does_not_say_what_it_is_is_set_aside(tmp_path: Path, file: str) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1] * 3)]
    (runs[4].path / file).write_bytes(b"\xff{")
    found = group_by_arm(read(runs))
    assert aside(found) == {f"{BLOCK}-s1": "it cannot be read"}
    assert [pair.seed for pair in paired(found).pairs] == [0, 2]


def test_nothing_but_broken_runs_is_no_arm(tmp_path: Path) -> None:
    runs = baseline(tmp_path, 2)
    for run in runs:
        run.manifest_path.write_text("{")
    found = group_by_arm(read(runs))
    assert (found.arms, found.baseline) == ((), None)
    assert len(found.set_aside) == 2


def test_pairs_are_worth_making_from_two_shared_seeds_on(tmp_path: Path) -> None:
    runs = read([*baseline(tmp_path, 2), *block(tmp_path, [0.1, 0.1])])
    assert have_pairs(runs)
    assert not have_pairs(runs[:3])
    assert not have_pairs(runs[:2])


def test_a_single_run_keeps_its_arm_name(tmp_path: Path) -> None:
    assert arm_names(read([fabricate(tmp_path, "one", residual=BLOCK_SCHEME)]), None) == [BLOCK]
