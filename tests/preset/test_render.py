"""The text of a resolved preset, and comments that follow the schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnres_cli.preset.reading import load_preset
from attnres_cli.preset.render import key_comment, refresh_comments
from attnres_cli.preset.schema import SECTIONS, EvalConfig, ModelConfig, ObserveConfig, TrainConfig

Write = Callable[[str, str], Path]


def test_comments_say_meaning_type_default_and_condition() -> None:
    assert (
        key_comment("model", "d_model", ModelConfig)
        == "# width of the residual stream, channels (integer > 0, required)"
    )
    assert key_comment("model", "head_dim", ModelConfig).endswith("(integer > 0, optional)")
    assert key_comment("train", "schedule", TrainConfig).endswith('("cosine" or "wsd", default "cosine")')
    assert key_comment("train", "compile", TrainConfig).endswith('("auto", "on" or "off", default "auto")')
    assert key_comment("train", "beta1", TrainConfig).endswith("(number >= 0, < 1, default 0.9)")
    assert key_comment("train", "decay_fraction", TrainConfig).endswith(', only with schedule = "wsd")')
    assert "(list of strings, default [" in key_comment("observe", "observers", ObserveConfig)
    assert "only with observers not empty" in key_comment("observe", "every_steps", ObserveConfig)


def test_every_key_is_described() -> None:
    for section, model in SECTIONS.items():
        for key, field in model.model_fields.items():
            assert field.description, f"{section}.{key}"


def test_resolved_text_has_every_key(members: Any, project: Path) -> None:
    preset = load_preset("base.toml", members=members, sets=["model.num_kv_heads=2"])
    text = preset.to_toml()
    lines = text.split("\n")
    for name, section in preset.sections.items():
        assert lines.count(f"[{name}]") == 1
        for key in type(section).model_fields:
            comment = key_comment(name, key, type(section))
            rows = [row for row, line in enumerate(lines) if line.startswith((f"{key} =", f"# {key} ="))]
            assert any(lines[row - 1] == comment for row in rows), key
    assert "# head_dim = 16" in lines, "what is left out shows the value in effect"
    assert "num_kv_heads = 2" in lines
    assert "# decay_fraction = 0.2" in lines, "what does nothing here cannot be set"


def test_refreshing_comments_touches_nothing_else() -> None:
    old = """\
# A preset.
extends = "base"

[eval]
# a remark of its author
# outdated words (integer > 9, required)
tokens = 3 # kept
every_steps = 1
[other]
tokens = 5
"""
    tokens, every_steps = (key_comment("eval", key, EvalConfig) for key in ("tokens", "every_steps"))
    new = refresh_comments(old)
    assert new == old.replace("# outdated words (integer > 9, required)", tokens).replace(
        "every_steps", f"{every_steps}\nevery_steps"
    )
    assert refresh_comments(new) == new
