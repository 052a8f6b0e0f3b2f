"""Every shipped preset takes a step: the CPU ones for real, the GPU ones on the meta device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from attnres_cli.cli.app import run
from attnres_cli.model.build import build_model
from attnres_cli.preset.reading import load_preset
from attnres_cli.shipped import shipped_folder
from attnres_cli.train.optimisers import Optimiser

PRESETS = sorted(path.stem for path in shipped_folder("presets").glob("*.toml"))
ON_CPU = [name for name in PRESETS if name.startswith("cpu")]
ON_GPU = [name for name in PRESETS if name.startswith("gpu")]


@pytest.mark.parametrize("name", ON_CPU)
def test_one_step_for_real(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    preset = load_preset(name)
    small = ["--set", f"eval.tokens={preset.model.context_tokens}", "--set", "observe.probe_sequences=1"]
    if hasattr(preset.data, "documents"):
        small += ["--set", "data.documents=4000"]
    assert run(["train", name, "--steps", "1", "--residual", "attnres-block", "--json", *small]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["status"], printed["step"]) == ("finished", 1)
    assert 1 < printed["validation"]["loss"] < 12


@pytest.mark.parametrize(
    ("name", "scheme"),
    [*((name, s) for name in ON_GPU for s in ("prenorm", "attnres-block")), ("gpu-124m", "attnres-full")],
)
def test_one_step_of_shapes(name: str, scheme: str) -> None:
    """Forward, backward and an unfused optimiser step, with nothing allocated."""
    preset = load_preset(name, residual=scheme)
    model = build_model(preset, 4096, device="meta")
    optimiser = Optimiser(model, preset)
    tokens = torch.zeros(1, preset.model.context_tokens, dtype=torch.int64, device="meta")
    model.loss(tokens, tokens).backward()
    assert all(p.grad is None or p.grad.shape == p.shape for p in model.parameters())
    optimiser.step(1.0)


@pytest.mark.parametrize("name", ON_GPU)
def test_presets_for_large_machines_plan_anywhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["plan", name, "--residual", "attnres-block", "--no-calibrate", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["schema"] == "attnres.plan/1"
    (arm,) = plan["arms"]
    assert arm["memory_bytes"] > 2**30
    assert arm["smallest_mean_square"] is None
