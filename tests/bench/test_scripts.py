"""The scripts under benchmarks/ run, and say what they compared."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from attnres_cli.preset.reading import load_preset

FOLDER = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def same_settings_after_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))  # the scripts put the repository on it


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_step_against_a_plain_gpt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "samples.json"
    monkeypatch.setattr(sys, "argv", ["step", "--preset", "cpu-tiny", "--rounds", "2", "--json", str(file)])
    module = script("step_against_nanogpt")
    assert module.main() in (0, module.SLOWER)
    stored = json.loads(file.read_text())
    assert [len(arm["wall_seconds"]) for arm in stored["arms"]] == [2, 2]
    said = capsys.readouterr().out
    assert all(f"{count:,} parameters" in said for count in stored["parameters"].values())


def test_the_plain_gpt_has_the_presets_shape() -> None:
    preset = load_preset("cpu-tiny")
    d, blocks, context = preset.model.d_model, preset.model.transformer_blocks, preset.model.context_tokens
    _, parameters = script("step_against_nanogpt").plain_step(preset, 300, torch.device("cpu"))
    assert parameters == 300 * d + context * d + blocks * (12 * d * d + 2 * d) + d
