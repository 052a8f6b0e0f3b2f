"""A run that leaves another one where its decay begins is, bit for bit, the run it would have been from step 0."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from attnres_cli.errors import UserError
from attnres_cli.preset.reading import Preset
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train.branching import Branch
from attnres_cli.train.events import Event, Stepped
from attnres_cli.train.loop import train
from attnres_cli.train.schedule import constant_steps, learning_rate_factor
from tests.small import small_preset
from tests.train.test_resume import copied, figures, final_tensors, interrupt_after, straight

TOKENS_PER_STEP = 64
WARMUP_STEPS = 3
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "adamw": ({"scheme": "prenorm"}, {}),
    "adamw, block, accumulated": (
        {"scheme": "attnres-block", "num_blocks": 3},
        {"train.micro_batch_sequences": 1},
    ),
    "muon, full": ({"scheme": "attnres-full"}, {"train.optimizer": "muon", "train.micro_batch_sequences": 4}),
}


def of_horizon(steps: int, residual: dict[str, Any] | None = None, **changes: Any) -> Preset:
    """A WSD preset of `steps` steps, a quarter of them decaying, that logs, evaluates and observes on the way."""
    if changes.get("train.schedule", "wsd") == "wsd":
        changes = {"train.decay_fraction": 0.25, **changes}
    return small_preset(
        residual,
        **{
            "model.transformer_blocks": 2,
            "train.horizon_tokens": steps * TOKENS_PER_STEP,
            "train.schedule": "wsd",
            "train.warmup_fraction": WARMUP_STEPS / steps,
            "eval.every_steps": 4,
            "observe.every_steps": 6,
            **changes,
        },
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNRES_CACHE", str(shared_cache))
        yield tmp_path_factory.mktemp("branching")


@pytest.fixture(scope="module")
def trunk(folder: Path) -> RunDirectory:
    """12 steps, of which 9 are constant; for reading."""
    return trained(of_horizon(12), folder / "trunk")


@pytest.fixture(scope="module")
def from_scratch(folder: Path) -> RunDirectory:
    """The 20 steps that a branch of `trunk` has to be; for reading."""
    return straight(of_horizon(20), folder)


@pytest.fixture
def own_trunk(trunk: RunDirectory, tmp_path: Path) -> RunDirectory:
    """A trunk that a test may damage."""
    return copied(trunk, tmp_path / "trunk")


class Counting:
    """A listener that counts the steps that were computed."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stepped):
            self.steps.append(event.step)


def trained(preset: Preset, folder: Path, branch: Branch | None = None, listener: Any = None) -> RunDirectory:
    run = RunDirectory.create(folder.parent, "", folder.name)
    assert train(preset, run, branch=branch, on_event=listener).status == "finished"
    return run


def assert_same_run(found: RunDirectory, expected: RunDirectory) -> None:
    """Every logged number, observation and array, and the final weights and moments, to the last bit."""
    assert figures(found) == figures(expected)
    assert [row["summary"] for row in found.observations()] == [row["summary"] for row in expected.observations()]
    names = sorted(path.name for path in expected.probes_folder.iterdir() if path.suffix == ".safetensors")
    assert names == sorted(path.name for path in found.probes_folder.iterdir() if path.suffix == ".safetensors")
    for name in names:
        assert (found.probes_folder / name).read_bytes() == (expected.probes_folder / name).read_bytes()
    ours, theirs = final_tensors(found), final_tensors(expected)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, ours[name]) for name, tensor in theirs.items())


@pytest.mark.parametrize(("residual", "changes"), VARIANTS.values(), ids=VARIANTS.keys())
def test_a_branch_is_the_run_from_scratch(tmp_path: Path, residual: dict[str, Any], changes: dict[str, Any]) -> None:
    short, long = (of_horizon(steps, residual, **changes) for steps in (12, 20))
    trunk = trained(short, tmp_path / "short")
    torch.manual_seed(12345)  # whatever happened in between
    branch = trained(long, tmp_path / "branched", Branch(trunk, 9))
    assert_same_run(branch, straight(long, tmp_path))
    # The horizon does matter where it should: the trunk decays where the branch goes on.
    assert [row["loss"] for row in trunk.train_rows()[:10]] == [row["loss"] for row in branch.train_rows()[:10]]
    assert trunk.train_rows()[-1]["loss"] != branch.train_rows()[11]["loss"]


def test_a_ladder_computes_the_shared_part_once(tmp_path: Path) -> None:
    """Each rung leaves the one before it where that one decays; together they compute the longest constant part and
    every decay, and nothing twice."""
    counting = Counting()
    trunk, rungs = None, (12, 16, 24)
    for steps in rungs:
        preset = of_horizon(steps)
        branch = None if trunk is None else Branch(trunk, constant_steps(of_horizon(len(trunk.train_rows()))) or 0)
        trunk = trained(preset, tmp_path / f"ladder-{steps}", branch, counting)
        assert_same_run(trunk, trained(preset, tmp_path / f"straight-{steps}"))
    decays = sum(steps // 4 for steps in rungs)
    assert len(counting.steps) == 24 * 3 // 4 + decays == 31 < sum(rungs)
    constant = [step for step in counting.steps if step <= 9]
    assert constant == list(range(1, 10))


def test_the_first_steps_are_the_trunks_rows_and_the_clock_goes_on(tmp_path: Path, trunk: RunDirectory) -> None:
    branch = trained(of_horizon(20), tmp_path / "branch", Branch(trunk, 9))
    shared = [row for row in trunk.metrics() if row["kind"] != "event" and row["step"] <= 9]
    assert [row for row in branch.metrics() if row["kind"] != "event"][: len(shared)] == shared  # clocks, too
    seconds = [row["train_seconds"] for row in branch.train_rows()]
    assert seconds == sorted(seconds)
    assert [(row["event"], row["step"]) for row in branch.metrics() if row["kind"] == "event"] == [
        ("branched", 9),
        ("finished", 20),
    ]


def test_the_manifest_says_where_it_comes_from(
    tmp_path: Path, own_trunk: RunDirectory, from_scratch: RunDirectory
) -> None:
    branch = trained(of_horizon(20), tmp_path / "branch", Branch(own_trunk, 9))
    state = json.loads((own_trunk.checkpoint_folder(9) / "state.json").read_text())
    assert branch.manifest()["branched_from"] == {"run": "trunk", "step": 9, "digests": state["digests"]}
    manifest = from_scratch.manifest()
    assert "branched_from" not in manifest
    same = manifest.keys() - {"name", "created", "command"}
    assert {key: branch.manifest()[key] for key in same} == {key: manifest[key] for key in same}


def test_the_checkpoint_before_the_decay_is_kept(tmp_path: Path) -> None:
    often = trained(of_horizon(20, **{"train.checkpoint_every_steps": 2}), tmp_path / "often")
    assert [path.name for path in often.checkpoints()] == ["step-000015", "step-000018", "step-000020"]
    cosine = straight(of_horizon(20, **{"train.schedule": "cosine"}), tmp_path)
    assert [path.name for path in cosine.checkpoints()] == ["step-000020"]


def test_the_checkpoint_before_the_decay_outlives_an_interruption(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "parts")
    preset = of_horizon(20)
    for step in (16, 17, 18):
        assert train(preset, run, on_event=interrupt_after(step), resume=step > 16).status == "interrupted"
    assert train(preset, run, resume=True).status == "finished"
    assert run.checkpoints()[0].name == "step-000015"
    assert_same_run(trained(of_horizon(32), tmp_path / "on", Branch(run, 15)), straight(of_horizon(32), tmp_path))


@pytest.mark.parametrize("after", [10, 13, 19])
def test_a_branch_can_be_interrupted_and_resumed_without_its_trunk(
    tmp_path: Path, own_trunk: RunDirectory, from_scratch: RunDirectory, after: int
) -> None:
    preset = of_horizon(20)
    run = RunDirectory.create(tmp_path, "branch")
    assert train(preset, run, branch=Branch(own_trunk, 9), on_event=interrupt_after(after)).status == "interrupted"
    shutil.rmtree(own_trunk.path)
    assert train(preset, run, resume=True).status == "finished"
    assert_same_run(run, from_scratch)


def test_a_branch_killed_before_its_own_checkpoint_goes_on_from_the_trunks(
    tmp_path: Path, trunk: RunDirectory, from_scratch: RunDirectory
) -> None:
    preset = of_horizon(20)
    run = RunDirectory.create(tmp_path, "branch")

    def die(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 12:
            raise RuntimeError("the end")

    with pytest.raises(RuntimeError, match="the end"):
        train(preset, run, branch=Branch(trunk, 9), on_event=die)
    assert [folder.name for folder in run.checkpoints()] == ["step-000009"]
    counting = Counting()
    train(preset, run, resume=True, on_event=counting)
    assert counting.steps == list(range(10, 21))
    assert_same_run(run, from_scratch)


def test_the_trunk_keeps_its_files_when_the_branch_changes_its_own(tmp_path: Path, own_trunk: RunDirectory) -> None:
    """Checkpoints may share their bytes on disk; nothing that a branch does may reach the trunk."""
    before = {path: path.read_bytes() for path in own_trunk.path.rglob("*") if path.is_file()}
    run = RunDirectory.create(tmp_path, "branch")
    train(of_horizon(20), run, branch=Branch(own_trunk, 9), on_event=interrupt_after(9 + 1))
    train(of_horizon(20), run, resume=True)
    shutil.rmtree(run.path)
    assert {path: path.read_bytes() for path in own_trunk.path.rglob("*") if path.is_file()} == before


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "no such checkpoint": ({}, 8, "has no checkpoint of step 8"),
    "another rate": ({"train.learning_rate": 2e-2}, 9, "train.learning_rate was 0.01 and is 0.02"),
    "another seed": ({"train.seed": 1}, 9, "train.seed was 0 and is 1"),
    "another warm-up": ({"train.warmup_fraction": 4 / 20}, 9, "step 1 had 0.333333 × the peak .* has 0.25 ×"),
    "another schedule": ({"train.schedule": "cosine"}, 9, "step 4 had 1 × the peak"),
    "a decay that begins before": ({"train.decay_fraction": 0.6}, 9, "step 9 had 1 × the peak"),
    "a run that is over": ({"train.horizon_tokens": 576, "train.warmup_fraction": 3 / 9}, 9, "has 12 steps and this"),
    "other evaluations": ({"eval.every_steps": 5}, 9, "eval.every_steps was 4 and is 5"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "step", "complaint"), REFUSED.values(), ids=REFUSED.keys())
def test_a_branch_that_would_not_be_the_same_run_is_refused_and_leaves_nothing(
    tmp_path: Path, trunk: RunDirectory, changes: dict[str, Any], step: int, complaint: str
) -> None:
    run = RunDirectory.create(tmp_path, "branch")
    with pytest.raises(UserError, match=complaint):
        train(of_horizon(20, **changes), run, branch=Branch(trunk, step))
    assert not run.path.exists()


def test_a_damaged_checkpoint_is_refused(tmp_path: Path, own_trunk: RunDirectory) -> None:
    weights = own_trunk.checkpoint_folder(9) / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    run = RunDirectory.create(tmp_path, "branch")
    with pytest.raises(UserError, match="damaged: model.safetensors"):
        train(of_horizon(20), run, branch=Branch(own_trunk, 9))
    assert not run.path.exists()


def test_another_text_is_refused(tmp_path: Path, own_trunk: RunDirectory) -> None:
    manifest = own_trunk.manifest()
    manifest["data"]["data_hash"] = "0" * 64
    own_trunk.write_manifest(manifest)
    with pytest.raises(UserError, match=r"data_hash was 000000000000"):
        train(of_horizon(20), RunDirectory.create(tmp_path, "branch"), branch=Branch(own_trunk, 9))


def test_an_unfinished_trunk_will_do(tmp_path: Path, from_scratch: RunDirectory) -> None:
    """A trunk that failed in its own decay still has what the others need."""
    trunk = RunDirectory.create(tmp_path, "trunk")

    def stop_in_the_decay(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 11:
            os.kill(os.getpid(), signal.SIGTERM)

    assert train(of_horizon(12), trunk, on_event=stop_in_the_decay).status == "interrupted"
    assert_same_run(trained(of_horizon(20), tmp_path / "branch", Branch(trunk, 9)), from_scratch)


@pytest.mark.parametrize("steps", [12, 16, 20, 24])
def test_the_constant_steps_end_where_the_rate_first_falls(steps: int) -> None:
    preset = of_horizon(steps)
    end = constant_steps(preset)
    assert end == steps - steps // 4
    assert learning_rate_factor(preset, end - 1) == 1.0 > learning_rate_factor(preset, end)
    assert constant_steps(of_horizon(steps, **{"train.schedule": "cosine"})) is None
