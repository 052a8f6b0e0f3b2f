"""A preset as data: written and read back, its digest, changed copies, derived sizes."""

from __future__ import annotations

import copy
import pickle
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnres_cli.errors import UserError
from attnres_cli.preset.reading import Preset, load_preset, preset_from_dict

Write = Callable[[str, str], Path]


@pytest.fixture
def base(members: Any, project: Path) -> Preset:
    return load_preset("base.toml", members=members)


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "model.num_kv_heads": st.sampled_from([1, 2, 4]),
        "model.norm_epsilon": st.floats(0, 1, allow_subnormal=False),
        "model.tie_embeddings": st.booleans(),
        "residual.scheme": st.just("blocks"),
        "data.corpus": st.just("puzzle"),
        "train.schedule": st.sampled_from(["cosine", "wsd"]),
        "train.optimizer": st.sampled_from(["adamw", "muon"]),
        "train.learning_rate": st.floats(1e-12, 1e3),
        "train.horizon_tokens": st.integers(1, 10**15),
        "train.device": st.sampled_from(["auto", "cuda:1"]),
        "observe.observers": st.lists(st.sampled_from(["gradients", "magnitudes"]), unique=True),
    },
)


@given(CHANGES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_resolved_text_loads_back_equal(base: Preset, members: Any, changes: dict[str, Any]) -> None:
    preset = base.replace(changes)
    Path("resolved.toml").write_text(preset.to_toml(), encoding="utf-8")
    again = load_preset("resolved.toml", members=members)
    assert again == preset
    assert again.digest() == preset.digest()
    assert again.to_toml() == preset.to_toml()
    assert tomllib.loads(preset.to_toml()) == preset.to_dict()
    assert preset_from_dict(preset.to_dict(), "again", members=members) == preset


def test_equality_and_digest_are_about_values_only(base: Preset, members: Any, write: Write) -> None:
    write("copy.toml", Path("base.toml").read_text().replace("1e-3", "0.0010") + "[observe]\nevery_steps = 0\n")
    other = load_preset("copy.toml", members=members)
    assert other == base
    assert hash(other) == hash(base)
    assert other.digest() == base.digest()
    assert len(base.digest()) == 64
    changed = base.replace({"train.seed": 1})
    assert changed != base
    assert changed.digest() != base.digest()


def test_presets_travel_between_processes(base: Preset) -> None:
    assert pickle.loads(pickle.dumps(base)) == base
    assert pickle.loads(pickle.dumps(base)).replace({"train.seed": 1}).train.seed == 1
    assert copy.deepcopy(base) == base


def test_a_preset_cannot_be_changed_in_place(base: Preset) -> None:
    with pytest.raises(AttributeError):
        base.name = "x"  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        base.train.seed = 3


def test_replace(base: Preset) -> None:
    changed = base.replace({"model.d_ff": 96, "train.seed": 5}, name="other")
    assert (changed.model.d_ff, changed.train.seed, changed.name) == (96, 5, "other")
    assert (base.model.d_ff, base.name) == (None, "base")
    assert (changed.source_path, changed.source_text) == (base.source_path, base.source_text)
    assert str(changed.origins["train.seed"]) == "replace"
    assert str(changed.origins["model.d_model"]) == "base.toml:4"
    assert changed.replace({"model.d_ff": None, "train.seed": 0}) == base
    assert changed.replace({"model.head_dim": None}) == changed


def test_replace_follows_the_rules_of_layers(base: Preset) -> None:
    blocks = base.replace({"residual.scheme": "blocks", "residual.num_blocks": 2})
    assert blocks.replace({"residual.block_sublayers": 1}).to_dict()["residual"] == {
        "scheme": "blocks", "gain": True, "block_sublayers": 1,
    }  # fmt: skip
    assert blocks.replace({"residual.scheme": "plain"}) == base
    wsd = base.replace({"train.schedule": "wsd", "train.decay_fraction": 0.5})
    assert wsd.replace({"train.schedule": "cosine"}) == base


def test_replace_takes_tuples(base: Preset, project: Path) -> None:
    changed = base.replace({"observe.observers": ("gradients",), "data.files": ("b.txt",)})
    assert changed.observe.observers == ("gradients",)
    assert changed.data.files == (str(project / "b.txt"),)
    with pytest.raises(UserError, match="no observer"):
        base.replace({"observe.observers": ("gradient",)})


def test_replace_validates(base: Preset) -> None:
    with pytest.raises(UserError) as caught:
        base.replace({"model.d_model": 66, "train.seed": -1, "train.sede": 1})
    assert len(caught.value.faults) == 3
    assert {fault.where for fault in caught.value.faults} >= {"replace"}
    with pytest.raises(AssertionError, match="section"):
        base.replace({"d_model": 3})


def test_every_key_has_an_origin(base: Preset) -> None:
    keys = {f"{name}.{key}" for name, section in base.sections.items() for key in type(section).model_fields}
    assert set(base.origins) == keys


@pytest.mark.parametrize(
    ("changes", "steps", "sequences", "accumulation", "warmup", "decay"),
    [
        ({}, 100, 4, 2, 5, 95),
        ({"train.horizon_tokens": 6401}, 101, 4, 2, 5, 96),
        ({"train.horizon_tokens": 1}, 1, 4, 2, 1, 0),
        ({"train.micro_batch_sequences": 4}, 100, 4, 1, 5, 95),
        ({"train.warmup_fraction": 0}, 100, 4, 2, 0, 100),
        ({"train.warmup_fraction": 0.001}, 100, 4, 2, 1, 99),
        ({"train.schedule": "wsd"}, 100, 4, 2, 5, 20),
        ({"train.schedule": "wsd", "train.decay_fraction": 0.001}, 100, 4, 2, 5, 1),
        ({"train.schedule": "wsd", "train.decay_fraction": 0.95}, 100, 4, 2, 5, 95),
        ({"train.schedule": "wsd", "train.horizon_tokens": 64}, 1, 4, 2, 1, 0),
    ],
)
def test_derived_sizes(
    base: Preset, changes: dict[str, Any], steps: int, sequences: int, accumulation: int, warmup: int, decay: int
) -> None:
    preset = base.replace(changes)
    found = (
        preset.steps,
        preset.sequences_per_step,
        preset.accumulation_steps,
        preset.warmup_steps,
        preset.decay_steps,
    )
    assert found == (steps, sequences, accumulation, warmup, decay)
    assert preset.warmup_steps + preset.decay_steps <= preset.steps


@pytest.mark.parametrize(
    ("d_model", "num_heads", "given", "d_ff", "head_dim", "num_kv_heads"),
    [(64, 4, {}, 192, 16, 4), (768, 12, {}, 2048, 64, 12), (66, 3, {"model.head_dim": 8}, 192, 8, 3),
     (96, 4, {"model.num_kv_heads": 2, "model.d_ff": 100}, 100, 24, 2)],
)  # fmt: skip
def test_sizes_that_are_left_out(
    base: Preset, d_model: int, num_heads: int, given: dict[str, int], d_ff: int, head_dim: int, num_kv_heads: int
) -> None:
    model = base.replace({"model.d_model": d_model, "model.num_heads": num_heads, **given}).model
    assert (model.resolved_d_ff, model.resolved_head_dim, model.resolved_num_kv_heads) == (d_ff, head_dim, num_kv_heads)
