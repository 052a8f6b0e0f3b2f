"""The plans that come with the program, and what follows from a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.discovery import names
from attnres_cli.sweep.kinds.reproduce import make_request
from attnres_cli.sweep.reproduction import plan_names, read_plan
from attnres_cli.sweep.request import by_key
from attnres_cli.sweep.resolve import with_arm


def test_three_scales_come_with_the_program() -> None:
    assert {"cpu", "cpu-quick", "gpu"} <= set(plan_names())


@pytest.mark.parametrize("name", ["cpu", "cpu-quick", "gpu"])
def test_a_shipped_plan_is_whole(name: str) -> None:
    """Its preset, cells and arms exist; every claim has a paper's figure and a place in the paper."""
    found = read_plan(name)
    request = make_request(found.plan, where=found.path.name)
    labels = {arm.label for arm in request.arms}
    for arm in request.arms:  # an overlay must not take back what the plan changes
        trained = by_key(with_arm(request.preset, arm, {}).to_dict())
        own = found.plan.arms[arm.label].changes if arm.label in found.plan.arms else {}
        assert {key: trained[key] for key in found.plan.changes} == {**found.plan.changes, **own}
    for place, seeds in found.plan.seeds_by_place().items():
        assert place.partition("/")[2] in labels
        assert 3 <= seeds <= found.plan.seeds
    assert all(claim.claim.endswith(".") and claim.paper and claim.source for claim in found.plan.claims)
    assert {claim.test for claim in found.plan.claims} <= set(names("report.claims"))


def test_the_quick_plan_has_the_models_of_the_long_one() -> None:
    long, quick = read_plan("cpu").plan, read_plan("cpu", quick=True).plan
    assert quick.changes == long.changes
    by_key = {claim.key: claim for claim in long.claims}
    for claim in quick.claims:  # fewer seeds and rounds; so few that a bench is asked for a larger difference
        own = {"seeds", "assumed"} if claim.needs_benches() else {"seeds"}
        assert claim.model_dump(exclude=own) == by_key[claim.key].model_dump(exclude=own)


def test_claims_without_power_train_nothing() -> None:
    """On the cpu plan the paper's small ablations need larger scale: their arms are in no run."""
    plan = read_plan("cpu").plan
    left_out = [claim for claim in plan.claims if not plan.verdict_before[claim.key][0]]
    assert left_out
    tested = {place for claim in plan.tested for place in claim.needs_runs()}
    assert set(plan.seeds_by_place()) == tested
    assert all(power is None or power >= 0.8 for claim in plan.tested for _, power in [plan.verdict_before[claim.key]])


def test_the_hash_is_of_the_content(tmp_path: Path) -> None:
    text = read_plan("cpu-quick").path.read_text()
    same, other = tmp_path / "same.toml", tmp_path / "other.toml"
    same.write_text("# a comment more\n" + text)
    other.write_text(text.replace("seeds = 7", "seeds = 8"))
    assert read_plan(str(same)).plan.hash == read_plan("cpu-quick").plan.hash
    assert read_plan(str(other)).plan.hash != read_plan("cpu-quick").plan.hash
