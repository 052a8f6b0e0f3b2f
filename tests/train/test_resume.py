"""Exactness: the same preset gives the same losses to the last bit, straight through or interrupted anywhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from attnres_cli.errors import UserError
from attnres_cli.preset.reading import Preset, preset_from_dict
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train.evaluation import Evaluation
from attnres_cli.train.events import Event, Started, Stepped
from attnres_cli.train.loop import train
from attnres_cli.train.stopping import HANG_UP, StopRequest, stop_signals
from tests import forked
from tests.small import small_preset

Whole = tuple[RunDirectory, Evaluation | None]
CLOCKS = ("tokens_per_second", "step_seconds", "train_seconds", "eval_seconds")
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "baseline": ({"scheme": "prenorm"}, {}),
    "full, accumulated": ({"scheme": "attnres-full"}, {"train.micro_batch_sequences": 1}),
    "block, muon, wsd": (
        {"scheme": "attnres-block", "num_blocks": 3},
        {"train.optimizer": "muon", "train.schedule": "wsd", "train.micro_batch_sequences": 4},
    ),
    "block, bf16": ({"scheme": "attnres-block", "block_sublayers": 3}, {"train.precision": "bf16"}),
}


def preset_of(residual: dict[str, Any] | None = None, **changes: Any) -> Preset:
    """20 steps of a model of two transformer blocks, evaluated every five."""
    return small_preset(residual, **{"model.transformer_blocks": 2, "eval.every_steps": 5, **changes})


def figures(run: RunDirectory) -> list[dict[str, Any]]:
    """Everything measured but clocks and events."""
    return [{k: v for k, v in row.items() if k not in CLOCKS} for row in run.metrics() if row["kind"] != "event"]


def final_tensors(run: RunDirectory) -> dict[str, torch.Tensor]:
    folder = run.checkpoints()[-1]
    return load_file(folder / "model.safetensors") | load_file(folder / "optimizer.safetensors")


def straight(preset: Preset, root: Path) -> RunDirectory:
    run = RunDirectory.create(root, "straight")
    train(preset, run)
    return run


def copied(run: RunDirectory, folder: Path) -> RunDirectory:
    """Its files in another folder, for a test that changes them."""
    shutil.copytree(run.path, folder)
    return RunDirectory(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Whole:
    """`preset_of()` straight through, and its validation at the end; for reading."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNRES_CACHE", str(shared_cache))
        run = RunDirectory.create(tmp_path_factory.mktemp("whole"), "straight")
        return run, train(preset_of(), run).evaluation


def interrupt_after(step: int) -> Any:
    """A listener that sends this process SIGINT when `step` is done, as Ctrl-C does."""

    def hear(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == step:
            os.kill(os.getpid(), signal.SIGINT)

    return hear


def stop_at_once(event: Event) -> None:
    """A listener that asks the run to stop before its first step."""
    if isinstance(event, Started):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(("residual", "changes"), VARIANTS.values(), ids=VARIANTS.keys())
def test_ten_steps_and_ten_more_are_twenty(tmp_path: Path, residual: dict[str, Any], changes: dict[str, Any]) -> None:
    preset = preset_of(residual, **{"observe.every_steps": 10, **changes})
    whole = straight(preset, tmp_path)
    run = RunDirectory.create(tmp_path, "parts")
    assert train(preset, run, on_event=interrupt_after(10)).status == "interrupted"
    assert run.status == "interrupted"
    torch.manual_seed(12345)  # whatever happened in between
    assert train(preset, run, resume=True).status == "finished"
    assert figures(run) == figures(whole)
    expected, found = final_tensors(whole), final_tensors(run)
    assert expected.keys() == found.keys()
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    assert [o["summary"] for o in run.observations()] == [o["summary"] for o in whole.observations()]


def test_what_was_written_after_the_checkpoint_is_written_again(tmp_path: Path) -> None:
    """A kill between checkpoints: the newest checkpoint is older than the newest metrics, and the last line is torn."""
    preset = preset_of(**{"train.checkpoint_every_steps": 4, "eval.every_steps": 3})
    whole = straight(preset, tmp_path)
    run = copied(whole, tmp_path / "killed")
    for folder in run.checkpoints():
        if not folder.name.endswith("000016"):
            shutil.rmtree(folder)
    with run.metrics_path.open("a") as file:
        file.write('{"kind": "train", "step": 2')
    run.write_state(status="running", pid=2**22 + 1)
    assert run.status == "stale"
    train(preset, run, resume=True)
    assert figures(run) == figures(whole)
    assert run.status == "finished"


def test_resuming_before_the_first_checkpoint_starts_over(tmp_path: Path, whole: Whole) -> None:
    run = copied(whole[0], tmp_path / "killed early")
    (only,) = run.checkpoints()
    shutil.rmtree(only)
    events: list[Event] = []
    train(preset_of(), run, resume=True, on_event=events.append)
    assert [event.step for event in events if isinstance(event, Stepped)] == list(range(1, 21))
    assert figures(run) == figures(whole[0])


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path, whole: Whole) -> None:
    run = copied(whole[0], tmp_path / "finished")
    assert train(preset_of(), run, resume=True).status == "finished"
    assert figures(run) == figures(whole[0])


def test_resuming_a_finished_run_still_knows_its_loss(tmp_path: Path, whole: Whole) -> None:
    run, evaluation = whole
    assert evaluation is not None
    assert train(preset_of(), copied(run, tmp_path / "finished"), resume=True).evaluation == evaluation


def test_other_data_is_refused_on_resume_and_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    """The text of a corpus lies outside the run: when it has changed, the run's hashes would no longer be true."""
    text = tmp_path / "text"
    text.mkdir()
    for number in range(40):
        (text / f"{number}.txt").write_text(f"file {number}: " + "the quick brown fox. " * (10 + number))
    values = preset_of().to_dict()
    values["data"] = {"corpus": "text", "files": [str(text / "*.txt")], "tokenizer": "bytes"}
    preset = preset_from_dict(values, "on text")
    run = RunDirectory.create(tmp_path, "on text")
    assert train(preset, run, on_event=interrupt_after(5)).status == "interrupted"
    (text / "7.txt").write_text("something else altogether. " * 20)
    with pytest.raises(UserError, match=r"The data is not what this run began with: data_hash was"):
        train(preset, run, resume=True)
    assert (run.status, run.read_state()["step"]) == ("interrupted", 5)


def test_saving_the_same_step_again_never_takes_the_only_checkpoint_away(tmp_path: Path, whole: Whole) -> None:
    run = copied(whole[0], tmp_path / "finished")
    folder = run.checkpoints()[-1]
    written = (folder / "model.safetensors").stat().st_ino
    train(preset_of(), run, resume=True, on_event=None)
    preset = preset_of(**{"train.horizon_tokens": 40 * 64})
    train(preset, run, resume=True, on_event=stop_at_once)
    assert (folder / "model.safetensors").stat().st_ino == written


def test_the_seed_changes_the_losses_and_nothing_else_does(tmp_path: Path, whole: Whole) -> None:
    first, again, other = whole[0], *(straight(preset_of(**{"train.seed": seed}), tmp_path) for seed in (0, 1))
    assert figures(first) == figures(again)
    assert figures(first) != figures(other)


def test_micro_batches_change_only_the_rounding(tmp_path: Path) -> None:
    losses = []
    for size in (1, 4):
        run = straight(preset_of(**{"train.micro_batch_sequences": size}), tmp_path)
        losses.append([row["loss"] for row in run.train_rows()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_only_two_checkpoints_are_kept(tmp_path: Path) -> None:
    run = straight(preset_of(**{"train.checkpoint_every_steps": 3}), tmp_path)
    assert [folder.name for folder in run.checkpoints()] == ["step-000018", "step-000020"]


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path, whole: Whole) -> None:
    run = copied(whole[0], tmp_path / "finished")
    damage(run.checkpoints()[-1] / "optimizer.safetensors")
    with pytest.raises(UserError, match=r"damaged: optimizer.safetensors"):
        train(preset_of(), run, resume=True)


def test_a_missing_optimiser_is_a_sentence(tmp_path: Path, whole: Whole) -> None:
    run = copied(whole[0], tmp_path / "finished")
    (run.checkpoints()[-1] / "optimizer.safetensors").unlink()
    with pytest.raises(UserError, match="damaged"):
        train(preset_of(), run, resume=True)


def test_another_models_checkpoint_is_refused(tmp_path: Path, whole: Whole) -> None:
    run = copied(whole[0], tmp_path / "finished")
    with pytest.raises(UserError, match="does not fit this model"):
        train(preset_of(**{"model.d_model": 24}), run, resume=True)


# ------------------------------------------------------------------ through the program, with real signals

LONG = [
    "train",
    "cpu-tiny",
    "--steps",
    "100000",
    "--set",
    "train.log_every_steps=1",
    "--set",
    "train.checkpoint_every_steps=5",
]


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return forked.start(*words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_step(run: RunDirectory, step: int, process: subprocess.Popen[str]) -> None:
    """Until the run has logged `step`; the process ending is a failure of the test."""
    while not any(row["step"] >= step for row in run.train_rows()):
        try:
            process.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(process.communicate())


@pytest.mark.parametrize("number", stop_signals())
def test_a_signal_stops_with_a_checkpoint_and_exit_code_130(tmp_path: Path, number: int) -> None:
    process = start(tmp_path, *LONG, "--name", "long")
    run = RunDirectory(tmp_path / "runs" / "long")
    wait_for_step(run, 3, process)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 130
    assert stderr.strip().splitlines()[-1] == "resume with: attnres train --resume runs/long"
    assert run.status == "interrupted"
    assert json.loads((run.checkpoints()[-1] / "state.json").read_text())["step"] == run.read_state()["step"]


@pytest.mark.skipif(HANG_UP is None, reason="needs SIGHUP")
def test_a_closed_terminal_is_no_sign_of_impatience() -> None:
    """It says so twice, and whoever stops the run then as well ends no process at once."""
    assert HANG_UP is not None
    with StopRequest() as stop:
        for number in (HANG_UP, HANG_UP, signal.SIGTERM):
            os.kill(os.getpid(), number)
            assert stop.requested


@pytest.mark.skipif(HANG_UP is None, reason="needs SIGHUP")
def test_a_run_that_was_started_to_outlive_its_terminal_does() -> None:
    assert HANG_UP is not None
    before = signal.signal(HANG_UP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), HANG_UP)
            assert not stop.requested
        assert signal.getsignal(HANG_UP) is signal.SIG_IGN
    finally:
        signal.signal(HANG_UP, before)


def test_killed_at_any_instant_it_goes_on(tmp_path: Path) -> None:
    process = start(tmp_path, *LONG, "--name", "long")
    run = RunDirectory(tmp_path / "runs" / "long")
    wait_for_step(run, 7, process)
    process.kill()
    process.communicate()
    assert run.status == "stale"
    reached = max(row["step"] for row in run.train_rows())
    process = start(tmp_path, "train", "--resume", "long")
    wait_for_step(run, reached + 2, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    steps = [row["step"] for row in run.train_rows()]
    assert steps == list(range(1, len(steps) + 1))
