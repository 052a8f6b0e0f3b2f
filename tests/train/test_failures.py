"""Divergence and lack of memory: a sentence, an exit code, a state on disk, and the last good weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train import loop
from attnres_cli.train.loop import train
from attnres_cli.train.optimisers import Optimiser
from tests import forked
from tests.small import small_preset


def test_divergence_stops_before_the_update(tmp_path: Path) -> None:
    preset = small_preset(**{"train.learning_rate": 1e30, "train.grad_clip": 0.0, "train.warmup_fraction": 0.0})
    run = RunDirectory.create(tmp_path, "diverges")
    with pytest.raises(UserError, match="diverged at step") as error:
        train(preset, run)
    assert error.value.exit_code == ExitCode.DIVERGED
    assert run.status == "diverged"
    step = run.read_state()["step"]
    assert 1 <= step < preset.steps
    weights = load_file(run.checkpoints()[-1] / "model.safetensors")
    assert run.checkpoints()[-1].name == f"step-{step:06d}"
    assert all(tensor.isfinite().all() for tensor in weights.values())
    assert run.read_state()["resume"] is None  # the same step would diverge again
    assert [row["event"] for row in run.metrics() if row["kind"] == "event"] == ["started", "diverged"]


def test_wrong_input_found_late_leaves_no_directory(tmp_path: Path) -> None:
    """Two documents are too few for one sequence of 512 tokens, which only the prepared data can tell."""
    short = {"data.documents": 2, "model.context_tokens": 512, "eval.tokens": 512}
    preset = small_preset(**short, **{"train.tokens_per_step": 1024, "train.horizon_tokens": 2048})
    run = RunDirectory.create(tmp_path, "short")
    with pytest.raises(UserError):
        train(preset, run)
    assert not run.path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
def test_out_of_memory_is_exit_code_5(tmp_path: Path) -> None:
    """6 GiB of address space are enough to start, not for matrices of 48 GiB."""
    limit = 6 * 2**30
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit})); {forked.PROGRAM}"
    words = ["train", "cpu-tiny", "--steps", "2", "--name", "big", "--device", "cpu"]
    words += ["--set", "model.d_model=65536", "--set", "train.micro_batch_sequences=2"]
    what = "Out of memory: the weights of this model, 384.1 GiB, do not fit."
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with forked.start(*words, program=limited, cwd=tmp_path, text=True, **piped) as process:
        _, said = process.communicate(timeout=300)
    assert process.returncode == ExitCode.OUT_OF_MEMORY, said
    assert f"error: {what}\n" in said
    assert "try: use a smaller model;" in said
    assert "micro_batch" not in said
    assert "Traceback" not in said
    run = RunDirectory(tmp_path / "runs" / "big")
    assert (run.status, run.read_state()["error"]) == ("failed", what)


def test_out_of_memory_while_steps_run_names_micro_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_memory(*args: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(loop, "take_step", without_memory)
    run = RunDirectory.create(tmp_path, "deep")
    with pytest.raises(UserError, match=r"Out of memory: \d+ sequences of \d+ tokens through .* do not fit") as error:
        train(small_preset(**{"train.micro_batch_sequences": 2}), run)
    assert error.value.exit_code == ExitCode.OUT_OF_MEMORY
    assert "train.micro_batch_sequences=1" in str(error.value.faults[0].hint)
    assert run.read_state()["error"] == str(error.value)  # and not what the allocator said


def test_out_of_memory_in_the_optimiser_names_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_memory(*args: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(Optimiser, "step", without_memory)
    run = RunDirectory.create(tmp_path, "wide")
    with pytest.raises(UserError, match="the weights of this model, .* and the state of adamw, .* do not fit") as error:
        train(small_preset(), run)
    assert "micro_batch" not in str(error.value.faults[0].hint)
    assert (run.status, run.read_state()["error"]) == ("failed", str(error.value))
