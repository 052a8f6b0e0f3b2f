"""`attnres demo` trains both arms through the doors of `attnres train` and prints what `attnres compare` prints."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from attnres_cli.residual.arms import default_arms
from attnres_cli.runs.lookup import list_runs
from tests import forked

QUICK = ["--preset", "cpu-tiny", "--set", "train.horizon_tokens=4096", "--set", "eval.tokens=1024"]


def test_demo_trains_and_compares(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["demo", *QUICK, "--seed", "3", "--json"]) == ExitCode.DONE
    streams = capsys.readouterr()
    assert json.loads(streams.out)["schema"].startswith("attnres.compare")
    runs = list_runs(tmp_path / "runs")
    manifests = [each.manifest() for each in runs]
    assert {manifest["scheme"] for manifest in manifests} == set(default_arms("demo"))
    assert [manifest["seed"] for manifest in manifests] == [3, 3]
    assert {each.status for each in runs} == {"finished"}
    assert "attnres train cpu-tiny --residual prenorm --set train.horizon_tokens=4096" in streams.err
    assert "go on with: attnres " in streams.err


def test_mistake_is_found_before_anything_is_trained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["demo", *QUICK, "--set", "model.d_modle=64"]) == ExitCode.INPUT
    assert "d_model" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_control_c_stops_the_demo_with_a_checkpoint(tmp_path: Path) -> None:
    horizon = "train.horizon_tokens=2_000_000"  # long enough to be interrupted; ends by itself if it is not
    words = ("demo", "--preset", "cpu-tiny", "--set", horizon)
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with forked.start(*words, cwd=tmp_path, **streams) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            first_figures = line.startswith("step ") and not any(earlier.startswith("step ") for earlier in said)
            said.append(line)
            if first_figures:
                process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == ExitCode.INTERRUPTED, "".join(said)
    assert said[-1].startswith("resume with: attnres train --resume ")
    (only,) = list_runs(tmp_path / "runs")
    assert only.status == "interrupted"
    assert only.checkpoints()
