"""The scripts under benchmarks/ run, and say what they compared."""

from __future__ import annotations

import importlib.metadata
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


# A package of the same doors as the public one, without its work.
STAND_IN = """
from dataclasses import dataclass
from enum import Enum
import torch

AttnResMode = Enum("AttnResMode", {"NONE": "none", "FULL": "full", "BLOCK": "block"})


@dataclass
class TransformerConfig:
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    max_seq_len: int
    ffn_mult: float
    dropout: float
    attn_res_mode: AttnResMode
    n_blocks: int
    rope_theta: float

    @property
    def d_ff(self):
        return int(self.ffn_mult * self.d_model)


class AttnResTransformer(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = torch.nn.Embedding(config.vocab_size, config.d_model)

    def forward(self, tokens, targets):
        logits = self.embedding(tokens) @ self.embedding.weight.T
        return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
"""
SMALL = "--rounds 2 --warmup 0 --vocab-size 64 --d-model 48 --transformer-blocks 2 --heads 2 --tokens 64 --context 32"


def install(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = folder / f"attn_res-{version}.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: attn-res\nVersion: {version}\n")
    (folder / "attn_res.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(sys.modules, "attn_res", None)  # so that what is imported now is forgotten afterwards
    del sys.modules["attn_res"]


def test_step_against_public_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, "0.1.0", monkeypatch)
    file = tmp_path / "samples.json"
    monkeypatch.setattr(sys, "argv", ["step", *SMALL.split(), "--blocks", "2", "--json", str(file)])
    assert script("step_against_public").main() == 0
    stored = json.loads(file.read_text())
    assert [len(arm["wall_seconds"]) for arm in stored["arms"]] == [2] * 6
    said = capsys.readouterr().out
    assert "vocabulary 64, d 48, 2 transformer blocks, 2 heads, feed-forward 128, 64 tokens in sequences of 32" in said
    for clock in ("wall", "cpu"):
        assert f"| {clock} time | baseline | Block | Full |\n| --- | --- | --- | --- |\n| `attn-res 0.1.0` | " in said
    assert said.count("| times faster | ") == 2


@pytest.mark.parametrize("version", [None, "0.2.0"])
def test_without_the_public_code_it_says_where_that_is(
    version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if version is not None:
        install(tmp_path, version, monkeypatch)
    elif list(importlib.metadata.distributions(name="attn-res")):
        pytest.skip("it is here")
    monkeypatch.setattr(sys, "argv", ["step"])
    module = script("step_against_public")
    assert module.main() == module.MISSING_PACKAGE
    assert "try: pip install --no-deps attn-res==0.1.0\n" in capsys.readouterr().err
