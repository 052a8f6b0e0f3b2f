"""The manifest: its figures are the run's, and docs/run-directory.md names every key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnres_cli.data.prepare import prepare
from attnres_cli.model.build import build_model
from attnres_cli.model.initialisation import common_weights_hash
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train.loop import train
from tests.small import small_preset

PAGE = Path(__file__).parents[2] / "docs" / "run-directory.md"


def keys(value: Any) -> Iterator[str]:
    """Every key at every depth, but those of the tables that are named by part."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if not key.endswith("by_part"):
                yield from keys(inner)


def test_figures_and_documentation(tmp_path: Path) -> None:
    preset = small_preset({"scheme": "attnres-block", "num_blocks": 3})
    run = RunDirectory.create(tmp_path, "manifest")
    train(preset, run)
    manifest = run.manifest()
    page = PAGE.read_text(encoding="utf-8")
    assert [key for key in keys(manifest) if f"`{key}`" not in page and f'"{key}"' not in page] == []
    dataset = prepare(preset)
    assert manifest["tokens"] == preset.steps * preset.train.tokens_per_step == 1280
    assert manifest["preset_digest"] == preset.digest()
    assert manifest["data"]["data_hash"] == dataset.data_hash
    assert manifest["data"]["train_tokens"] == dataset.train.num_tokens
    model = build_model(preset, dataset.vocab_size)
    assert manifest["model"]["common_weights_hash"] == common_weights_hash(model, 0)  # of the weights before training
    assert manifest["model"]["parameters"] == sum(p.numel() for p in model.parameters())
    flops = manifest["flops"]
    assert flops["training_per_token"] == 3 * sum(flops["forward_per_token_by_part"].values())
    assert flops["total"] == flops["training_per_token"] * 1280
