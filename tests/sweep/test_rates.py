"""A learning rate per cell and arm: the trials, what they choose, and going on in their middle; a stand-in trains."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import UserError
from attnres_cli.preset.reading import preset_from_dict
from attnres_cli.report.cell_rates import cell_rates
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.lookup import list_runs
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.engine import run_sweep
from attnres_cli.sweep.execution import Job, JobResult, Slot
from attnres_cli.sweep.kinds import depth, scaling
from attnres_cli.sweep.kinds.depth_width import GROWING, plan
from attnres_cli.sweep.layout import Context
from attnres_cli.sweep.rates import asked_rates, with_chosen_rates
from attnres_cli.sweep.request import Request, carried_over, continued
from attnres_cli.sweep.resolve import run_preset
from attnres_cli.sweep.results import Arm, Run, Sweep, SweepDirectory, create_sweep_directory
from attnres_cli.sweep.stages import in_stages
from tests.small import small_preset

SIZE: dict[str, Any] = {"model.d_model": 48, "model.num_heads": 6, "model.d_ff": 128}
PRESET = small_preset(**SIZE)
ARMS = (Arm("prenorm", {"scheme": "prenorm"}), Arm("attnres-full", {"scheme": "attnres-full"}))
RATE = "train.learning_rate"


def request(tune_rates: int | None = 3, *, ratios: tuple[float, ...] = (6.0, 12.0), **changes: Any) -> Request:
    settings: dict[str, Any] = {
        "match": "parameters", "ratios": list(ratios), "head_ratios": [], "learning_rate_power": -0.5,
        **asked_rates(tune_rates),
    }  # fmt: skip
    values: dict[str, Any] = {
        "kind": "depth-width", "preset": PRESET, "arms": ARMS, "seeds": 2, "settings": settings,
    }  # fmt: skip
    return Request(**{**values, **changes})


_PLANS: dict[str, Sweep] = {}


def planned(asked: Request, calibrate: Any = None) -> Sweep:
    """A fresh copy of the plan; counting models takes a second, so equal requests are planned once."""
    key = f"{asked.to_dict()}{calibrate}"
    if key not in _PLANS:
        _PLANS[key] = plan(asked, Context("s", "attnres sweep", 31, calibrate=calibrate))
    return copy.deepcopy(_PLANS[key])


# Where each scheme's loss is least, as a multiple of the rule's rate.
BEST = {"prenorm": math.sqrt(0.5), "attnres-full": 1.02}


class Trainer:
    """Stands for `train_job`: the loss is least at a scheme's own rate. endings: by folder, how the next trainings
    end."""

    def __init__(self, rule: Mapping[str, float], **endings: list[str]) -> None:
        self.rule, self.endings = rule, {name.replace("_", "-"): each for name, each in endings.items()}
        self.trained: list[str] = []

    def __call__(self, job: Job) -> JobResult:
        folder = Path(job.run_folder)
        preset = preset_from_dict(job.preset, job.preset_name)
        assert preset.digest() == job.key
        self.trained.append(folder.name)
        run = RunDirectory.create(folder.parent, "", folder.name)
        run.write_presets(preset=job.source_text, resolved=preset.to_toml())
        run.write_manifest({"preset_digest": job.key, "created": f"{len(self.trained):04d}"})
        left = self.endings.get(folder.name, [])
        ending = left.pop(0) if left else "finished"
        if ending != "finished":
            run.write_state(status=ending, step=0, steps=20, error=ending)
            return JobResult(ending, ending)  # type: ignore[arg-type]
        scheme = preset.to_dict()["residual"]["scheme"]
        away = math.log(preset.train.learning_rate / (self.rule[folder.name.partition("-")[0]] * BEST[scheme]))
        row = {"kind": "eval", "step": 20, "tokens": 1280, "loss": 2.0 + away**2, "perplexity": 9.0}
        run.append_metric({**row, "bits_per_byte": None})
        run.write_state(status="finished", step=20, steps=20)
        return JobResult("finished")


class Quiet:
    def started(self, run: Run) -> None: ...

    def ended(self, run: Run) -> None: ...


def rule_of(sweep: Sweep) -> dict[str, float]:
    return {cell.key: cell.facts["learning_rate"] for cell in sweep.cells}


def train(directory: SweepDirectory, sweep: Sweep, trainer: Callable[[Job], JobResult]) -> Sweep:
    """What the command does with a plan."""
    if not directory.exists:
        create_sweep_directory(directory)

    def one_stage(stage: Sweep) -> None:
        run_sweep(directory, stage, slots=[Slot()], listener=Quiet(), run_job=trainer)

    return in_stages(with_chosen_rates(sweep), one_stage, with_chosen_rates)


def rates_of_seeds(sweep: Sweep) -> dict[tuple[str, str], set[float]]:
    found: dict[tuple[str, str], set[float]] = {}
    for run in sweep.runs:
        if not run.trial:
            found.setdefault((run.cell, run.arm), set()).add(run_preset(sweep, run).train.learning_rate)
    return found


# ---------------------------------------------------------------- the plan


@pytest.mark.parametrize("number", [3, 5])
def test_every_cell_and_arm_has_as_many_trials_around_the_rules_rate(number: int) -> None:
    sweep = planned(request(number))
    trials = [run for run in sweep.runs if run.trial]
    assert len(trials) == 2 * 2 * number
    assert len({run.digest for run in sweep.runs}) == len(sweep.runs) == 2 * 2 * (number + 2)
    assert {run.seed for run in trials} == {1000}
    assert not {run.seed for run in trials} & set(sweep.seeds)
    for (cell, _), rates in cell_rates(sweep.to_dict()).items():
        factors = [each.rate / rule_of(sweep)[cell] for each in rates.tried]
        assert factors == pytest.approx([2 ** (step / 2) for step in range(-(number // 2), number // 2 + 1)], rel=1e-3)
    assert all(run.awaits_rate is not bool(run.trial) for run in sweep.runs)
    for run in sweep.runs:
        assert run_preset(sweep, run).digest() == run.digest


def test_without_trials_a_sweep_is_what_it_was() -> None:
    sweep = planned(request(None))
    assert "tune_rates" not in sweep.request
    assert not any(run.trial or run.awaits_rate for run in sweep.runs)
    assert with_chosen_rates(sweep) is sweep


def test_muons_own_rate_moves_with_the_others() -> None:
    preset = PRESET.replace({"train.optimizer": "muon", "train.muon_learning_rate": 0.02})
    sweep = planned(request(preset=preset, ratios=(12.0,)))
    for run in sweep.runs:
        if run.trial:
            assert run.changes["train.muon_learning_rate"] == pytest.approx(2 * run.changes[RATE], rel=1e-3)


def test_trials_count_in_a_budget_of_minutes() -> None:
    def one_millisecond(presets: Mapping[str, Any]) -> Mapping[str, float]:
        return dict.fromkeys(presets, 1e-3)

    with_trials = planned(request(budget=Budget("minutes", 4)), one_millisecond)
    without = planned(request(None, budget=Budget("minutes", 4)), one_millisecond)
    for sweep in (with_trials, without):
        assert 3.9 < sweep.budget["estimated_minutes"] <= 4
        assert sweep.budget["estimated_minutes"] == pytest.approx(sum(run.cost for run in sweep.runs) / 60)
    assert with_trials.tokens < without.tokens / 2


def test_sizes_and_depths_may_have_rates_of_their_own() -> None:
    asked = Request("depth", PRESET, ARMS, settings={"blocks": [1, 2], **asked_rates(3)})
    sweep = depth.plan(asked, Context("s", "attnres sweep", 31))
    assert sorted({run.changes[RATE] for run in sweep.runs if run.trial}) == [0.007071, 0.01, 0.01414]
    settings = {"sizes": [1, 2], "tokens_per_parameter": 1.0, "learning_rate_power": -1.0, **asked_rates(3)}
    sweep = scaling.plan(Request("scaling", PRESET, ARMS, settings=settings), Context("s", "attnres sweep", 31))
    assert sum(bool(run.trial) for run in sweep.runs) == 2 * 2 * 3
    for (cell, _), rates in cell_rates(sweep.to_dict()).items():
        assert rates.of_the_rule.rate == sweep.cell(cell).facts["learning_rate"]
        assert {each.run["planned_tokens"] for each in rates.tried} == {
            run.planned_tokens for run in sweep.runs if run.cell == cell and not run.trial
        }


@pytest.mark.parametrize("number", [1, 2, 4, 11])
def test_a_number_without_a_middle_and_two_sides_is_refused(number: int) -> None:
    with pytest.raises(UserError, match=f"--tune-rates {number}"):
        asked_rates(number)


# ---------------------------------------------------------------- what happens


def test_the_seeds_train_at_what_their_own_trials_chose(tmp_path: Path) -> None:
    sweep = planned(request())
    trainer = Trainer(rule_of(sweep))
    sweep = train(SweepDirectory(tmp_path / "s"), sweep, trainer)
    assert sweep.status == "finished"
    assert {run.status for run in sweep.runs} == {"finished"}
    assert not any(run.awaits_rate for run in sweep.runs)
    for (cell, arm), rates in rates_of_seeds(sweep).items():
        rule = rule_of(sweep)[cell]
        assert rates == {float(f"{rule * 2**-0.5:.4g}") if arm == "prenorm" else rule}
    found = cell_rates(sweep.to_dict())
    assert {key: (each.verdict, each.side) for key, each in found.items()} == {
        (cell, arm): ("edge", "lowest") if arm == "prenorm" else ("tuned", None)
        for cell in ("r6", "r12")
        for arm in ("prenorm", "attnres-full")
    }
    # All trials came before any of the others, and lie where no comparison of the group looks.
    names = [name for name in trainer.trained if "-lr" in name]
    assert trainer.trained[: len(names)] == names
    assert len(names) == 12
    assert {run.path.name for run in list_runs(tmp_path)} == set(trainer.trained) - set(names)
    assert {path.name for path in (tmp_path / "s" / "trials").iterdir()} == set(names)
    # Asked again, nothing is trained.
    again = Trainer(rule_of(sweep))
    train(SweepDirectory(tmp_path / "s"), carried_over(planned(request()), sweep), again)
    assert again.trained == []


def test_a_sweep_goes_on_from_its_file_in_the_middle_of_its_trials(tmp_path: Path) -> None:
    whole = train(SweepDirectory(tmp_path / "whole"), planned(request()), Trainer(rule_of(planned(request()))))
    directory = SweepDirectory(tmp_path / "s")
    sweep = planned(request())
    some = Trainer(rule_of(sweep), **{"r12-prenorm-lr0.01-s1000": ["interrupted"]})
    stopped = train(directory, sweep, some)
    assert stopped.status == "interrupted"
    assert not any("-lr" not in name for name in some.trained)
    assert directory.read().left == sum(run.status != "finished" for run in stopped.runs)
    rest = Trainer(rule_of(sweep))
    done = train(directory, directory.read(), rest)
    assert not set(rest.trained) & {
        str(run.folder).rpartition("/")[2] for run in stopped.runs if run.status == "finished"
    }
    assert {run.digest: run.loss for run in done.runs} == {run.digest: run.loss for run in whole.runs}
    # Killed between the stages, the file says that there is something left.
    between = planned(request())
    for run in between.runs:
        if run.trial:
            run.__dict__.update(next(each for each in whole.runs if each.digest == run.digest).__dict__)
    assert between.left == 8
    assert {run.digest for run in with_chosen_rates(between).runs} == {run.digest for run in whole.runs}


def test_a_failed_trial_fails_the_runs_that_await_it_until_it_is_tried_again(tmp_path: Path) -> None:
    directory, sweep = SweepDirectory(tmp_path / "s"), planned(request())
    name = "r12-prenorm-lr0.01-s1000"
    trainer = Trainer(rule_of(sweep), **{name: ["failed"], f"{name}-2": ["failed"]})  # the second stage tries it again
    failed = train(directory, sweep, trainer)
    assert failed.status == "finished"
    lost = [run for run in failed.runs if run.status == "failed"]
    assert {(run.cell, run.arm) for run in lost} == {("r12", "prenorm")}
    assert {run.error for run in lost if not run.trial} == {"its learning rate is not chosen: a trial at 0.01 failed"}
    assert sum(run.status == "finished" for run in failed.runs) == len(failed.runs) - 3
    again = train(directory, directory.read(), Trainer(rule_of(sweep)))
    assert {run.status for run in again.runs} == {"finished"}


def test_a_rate_that_diverged_is_a_side_that_was_tried_and_where_all_did_the_rules_is_taken(tmp_path: Path) -> None:
    sweep = planned(request(ratios=(12.0,)))
    low, high = "r12-prenorm-lr0.007071-s1000", "r12-attnres-full-lr0.01414-s1000"
    middle, last = "r12-prenorm-lr0.01-s1000", "r12-prenorm-lr0.01414-s1000"
    endings = {name: ["diverged"] for name in (low, high, middle, last)}
    sweep = train(SweepDirectory(tmp_path / "s"), sweep, Trainer(rule_of(sweep), **endings))
    found = cell_rates(sweep.to_dict())
    assert found["r12", "prenorm"].verdict == "diverged"
    assert found["r12", "attnres-full"].verdict == "tuned"
    assert rates_of_seeds(sweep) == {("r12", "prenorm"): {0.01}, ("r12", "attnres-full"): {0.01}}


def test_more_candidates_train_only_what_is_new(tmp_path: Path) -> None:
    directory = SweepDirectory(tmp_path / "s")
    first = train(directory, planned(request()), Trainer(rule_of(planned(request()))))
    with pytest.raises(UserError, match="tune_rates was"):
        continued(tmp_path, "s", request(None), GROWING)
    found = continued(tmp_path, "s", request(5), GROWING)
    wider = carried_over(planned(found.request), first)
    trainer = Trainer(rule_of(wider))
    sweep = train(directory, with_chosen_rates(wider, first), trainer)
    assert len(trainer.trained) == 2 * 2 * 2  # two candidates more; what they chose had been trained
    assert all(each.verdict == "tuned" for each in cell_rates(sweep.to_dict()).values())
    assert rates_of_seeds(sweep) == rates_of_seeds(first)
