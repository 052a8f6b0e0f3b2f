"""The engine over a stand-in for training that writes run directories as training does, in no time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from attnres_cli.errors import UserError
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.kinds.depth_width import GROWING
from attnres_cli.sweep.request import continued
from attnres_cli.sweep.results import SweepDirectory, create_sweep_directory, find_sweep, list_sweeps
from tests.sweep.stand_ins import ARMS, PRESET, Trainer, planned, request, run_again, statuses


def test_every_run_is_trained_once_and_recorded(tmp_path: Path) -> None:
    trainer = Trainer()
    sweep = run_again(tmp_path, trainer)
    assert trainer.trained == ["r6-prenorm-s0", "r6-attnres-full-s0", "r12-prenorm-s0", "r12-attnres-full-s0"]
    document = SweepDirectory(tmp_path / "s").document()
    assert document["status"] == "finished"
    for row in document["runs"]:
        assert (row["loss"], row["perplexity"], row["step"], row["train_seconds"]) == (2.5, 12.2, 20, 4.0)
        assert row["folder"] == f"{row['cell']}-{row['arm']}-s0"
    assert sweep.to_dict()["runs"] == document["runs"]


def test_nothing_finished_is_trained_again(tmp_path: Path) -> None:
    run_again(tmp_path, Trainer())
    again = Trainer()
    assert run_again(tmp_path, again).status == "finished"
    assert again.trained == []


def test_a_larger_grid_trains_the_new_cells_only(tmp_path: Path) -> None:
    run_again(tmp_path, Trainer())
    again = Trainer()
    sweep = run_again(tmp_path, again, ratios=[3.0])
    assert again.trained == ["r3-prenorm-s0", "r3-attnres-full-s0"]
    assert [cell.key for cell in sweep.cells] == ["r3", "r6", "r12"]
    assert set(statuses(sweep).values()) == {"finished"}


def test_finished_runs_are_found_by_their_manifests_when_the_file_lost_them(tmp_path: Path) -> None:
    sweep = run_again(tmp_path, Trainer())
    directory = SweepDirectory(tmp_path / "s")
    directory.write(planned(request()))  # as after a power cut: every row is planned
    (tmp_path / "s" / "r6-prenorm-s0").rename(tmp_path / "s" / "renamed-by-hand")
    again = Trainer()
    recovered = run_again(tmp_path, again)
    assert again.trained == []
    assert [run.loss for run in recovered.runs] == [run.loss for run in sweep.runs]
    assert recovered.runs[0].folder == "renamed-by-hand"


def test_a_finished_run_whose_folder_was_removed_keeps_its_result(tmp_path: Path) -> None:
    run_again(tmp_path, Trainer())
    shutil.rmtree(tmp_path / "s" / "r6-prenorm-s0")
    again = Trainer()
    assert run_again(tmp_path, again).runs[0].loss == 2.5
    assert again.trained == []


def test_a_failed_run_is_a_row_and_is_tried_again_in_a_new_folder(tmp_path: Path) -> None:
    trainer = Trainer(r6_prenorm_s0=["raises"])
    sweep = run_again(tmp_path, trainer)
    assert sweep.status == "finished"
    assert statuses(sweep)["r6-prenorm-s0"] == "failed"
    assert sweep.runs[0].error == "ValueError: no room"
    assert len(trainer.trained) == 4
    again = Trainer()
    sweep = run_again(tmp_path, again)
    assert again.trained == ["r6-prenorm-s0-2"]
    assert statuses(sweep)["r6-prenorm-s0"] == "finished"
    assert sweep.runs[0].error is None


def test_a_diverged_run_is_not_tried_again(tmp_path: Path) -> None:
    sweep = run_again(tmp_path, Trainer(r6_prenorm_s0=["diverged"]))
    assert statuses(sweep)["r6-prenorm-s0"] == "diverged"
    again = Trainer()
    sweep = run_again(tmp_path, again)
    assert again.trained == []
    assert (statuses(sweep)["r6-prenorm-s0"], sweep.status) == ("diverged", "finished")


def test_an_interruption_stops_the_sweep_and_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    trainer = Trainer(r6_attnres_full_s0=["interrupted with a checkpoint"])
    sweep = run_again(tmp_path, trainer)
    assert trainer.trained == ["r6-prenorm-s0", "r6-attnres-full-s0"]
    assert sweep.status == "interrupted"
    assert list(statuses(sweep).values()) == ["finished", "interrupted", "planned", "planned"]
    again = Trainer()
    sweep = run_again(tmp_path, again)
    assert again.trained == ["r6-attnres-full-s0", "r12-prenorm-s0", "r12-attnres-full-s0"]
    assert again.resumed == ["r6-attnres-full-s0"]
    assert (sweep.status, set(statuses(sweep).values())) == ("finished", {"finished"})


def test_an_interruption_before_any_checkpoint_starts_in_a_new_folder(tmp_path: Path) -> None:
    run_again(tmp_path, Trainer(r6_prenorm_s0=["interrupted"]))
    again = Trainer()
    run_again(tmp_path, again)
    assert again.trained[0] == "r6-prenorm-s0-2"
    assert again.resumed == []


def test_the_same_name_for_another_request_is_refused_with_the_difference(tmp_path: Path) -> None:
    run_again(tmp_path, Trainer())
    for changes, words in (
        ({"match": "flops"}, 'match was "parameters" and is now "flops"'),
        ({"preset": PRESET.replace({"train.seed": 7})}, "differently: train.seed was 0 and is now 7."),
        ({"preset": PRESET.replace({"model.head_dim": 8})}, "differently: model.head_dim was left out and is now 8."),
        ({"arms": ARMS[:1]}, "arms was"),
        ({"budget": Budget("flops", 1e12)}, "budget was"),
        ({"learning_rate_power": 0.0}, "learning_rate_power was -0.5 and is now 0.0"),
        ({"head_ratios": [1.0]}, "head_ratios was [] and is now [1.0]"),
    ):
        with pytest.raises(UserError) as caught:
            continued(tmp_path, "s", request(**changes), GROWING)
        assert words in str(caught.value)
        assert caught.value.faults[0].hint == "attnres sweep resume s"


def test_a_sweep_that_runs_elsewhere_is_left_alone(tmp_path: Path) -> None:
    sweep = run_again(tmp_path, Trainer())
    directory = SweepDirectory(tmp_path / "s")
    sweep.status = "running"
    directory.write(sweep)  # this process is alive, so the file reads as running
    with pytest.raises(UserError, match="is running"):
        run_again(tmp_path, Trainer())
    text = directory.file_path.read_text().replace(f'"pid": {sweep.process["pid"]}', '"pid": 4194305')
    directory.file_path.write_text(text)
    assert directory.document()["status"] == "stale"
    assert run_again(tmp_path, Trainer()).status == "finished"


def test_sweeps_are_found_by_name_prefix_and_path(tmp_path: Path) -> None:
    run_again(tmp_path, Trainer())
    other = SweepDirectory(tmp_path / "half-made")
    create_sweep_directory(other)
    create_sweep_directory(other)  # empty: it may be taken
    assert [sweep.name for sweep in list_sweeps(tmp_path)] == ["s"]  # no file yet: no sweep
    assert find_sweep("s", tmp_path).name == find_sweep(str(tmp_path / "s"), Path("elsewhere")).name == "s"
    with pytest.raises(UserError) as caught:
        find_sweep("x", tmp_path)
    assert caught.value.faults[0].expected == "s"
    (other.path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="no sweep"):
        create_sweep_directory(other)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"schema": "attnres.sweep/1"}', "schema 'attnres.sweep/1'"),
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "schema None"),
        ('{"schema": "attnres.sweep/2"}', "damaged"),
    ],
)
def test_a_damaged_file_is_a_sentence(tmp_path: Path, text: str, fault: str) -> None:
    create_sweep_directory(SweepDirectory(tmp_path / "s"))
    (tmp_path / "s" / "sweep.json").write_text(text)
    with pytest.raises(UserError, match=fault):
        find_sweep("s", tmp_path).read()
    assert SweepDirectory(tmp_path / "s").summary()["status"] == "unreadable"


def test_runs_of_a_sweep_are_ordinary_runs(tmp_path: Path) -> None:
    from attnres_cli.runs.lookup import find_run, run_names

    run_again(tmp_path, Trainer())
    assert "s/r6-prenorm-s0" in run_names(tmp_path)
    assert find_run("s/r6-prenorm-s0", tmp_path).evaluations()[-1]["loss"] == 2.5


# ---------------------------------------------------------------- seeds, order, runs that wait for another


def test_seeds_may_be_added_and_are_called_exploratory(tmp_path: Path) -> None:
    run_again(tmp_path, Trainer(), seeds=2)
    again = Trainer()
    sweep = run_again(tmp_path, again, seeds=3)
    assert sorted(again.trained) == [f"{cell}-{arm.label}-s2" for cell in ("r12", "r6") for arm in reversed(ARMS)]
    assert (sweep.seeds, sweep.planned_seeds) == ([0, 1, 2], 2)
    fewer = Trainer()
    assert run_again(tmp_path, fewer, seeds=1).seeds == [0, 1, 2]
    assert fewer.trained == []
