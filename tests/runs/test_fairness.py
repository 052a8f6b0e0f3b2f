"""What two runs must share: every key of every preset is classified, and a difference has one meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnres_cli.discovery import load, names
from attnres_cli.preset.reading import preset_from_dict
from attnres_cli.preset.schema import SECTIONS
from attnres_cli.preset.toml import parse
from attnres_cli.runs.fairness import (
    FIELDS,
    Facts,
    Rule,
    allowed_differences,
    differences,
    facts_from,
    facts_of,
    field_of,
    unfair_differences,
)
from tests.fabricated_runs import BLOCK_SCHEME, RESOLVED, fabricate

# What design §5 says, in words of the preset: the test's own list, so that moving a key is a decision.
MUST_BE_EQUAL = {
    "model": {"context_tokens", "rope_theta", "norm_epsilon", "tie_embeddings", "init_std"},
    "data": {"tokenizer"},
    "train": {
        "horizon_tokens", "tokens_per_step", "optimizer", "beta1", "beta2", "adam_epsilon", "grad_clip", "schedule",
        "warmup_fraction", "decay_fraction", "min_lr_ratio", "precision", "seed",
    },
    "eval": {"tokens"},
}  # fmt: skip
SHAPE = {"transformer_blocks", "d_model", "num_heads", "num_kv_heads", "head_dim", "d_ff", "mixer", "feed_forward"}
MAY_DIFFER_IF_TUNED = {"learning_rate", "muon_learning_rate", "weight_decay"}
TIMING_ONLY = {"micro_batch_sequences", "compile", "device", "threads"}


def schema_keys() -> list[str]:
    """`section.key` of every section and of every scheme's and corpus's own configuration."""
    models: list[tuple[str, Any]] = list(SECTIONS.items())
    models += [("residual", load("residual.schemes", name, what="scheme").Config) for name in names("residual.schemes")]
    models += [("data", load("data.corpora", name, what="corpus").Config) for name in names("data.corpora")]
    return sorted({f"{section}.{key}" for section, model in models for key in model.model_fields})


@pytest.mark.parametrize("key", schema_keys())
def test_every_key_of_the_schema_is_classified(key: str) -> None:
    field = field_of(key)
    assert field is not None, f"{key} is missing from runs/fairness.py: may two runs differ in it?"
    section, name = key.split(".")
    if section in ("model", "train", "eval"):
        assert field.key == key, "these sections have no catch-all: each key is a decision"
    if name in MUST_BE_EQUAL.get(section, ()):
        assert field.rule is Rule.EQUAL
    if section == "model" and name in SHAPE:
        assert field.rule is Rule.SHAPE
    if section == "train" and name in MAY_DIFFER_IF_TUNED:
        assert field.rule is Rule.TUNED
    if section == "train" and name in TIMING_ONLY:
        assert field.rule is Rule.TIMING


def test_no_entry_of_the_list_is_about_a_key_that_does_not_exist() -> None:
    keys = set(schema_keys())
    listed = [field.key for field in FIELDS if not field.key.startswith("manifest.") and not field.key.endswith(".*")]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= keys


def test_the_keys_that_a_field_follows_are_listed_themselves() -> None:
    listed = {field.key for field in FIELDS}
    assert {key for field in FIELDS for key in field.follows} <= listed


def test_the_fabricated_preset_is_a_preset() -> None:
    preset_from_dict({**RESOLVED, "residual": BLOCK_SCHEME}, "fabricated")


def rules_of(tmp_path: Path, change: dict[str, Any] | None = None, **others: Any) -> dict[str, Rule]:
    a = facts_of(fabricate(tmp_path, "a"))
    b = facts_of(fabricate(tmp_path, "b", change=change, **others))
    found = differences(a, b)
    unfair = {difference.key for difference in unfair_differences(a, b)}
    allowed = {difference.key for difference in allowed_differences(a, b)}
    assert unfair | allowed == {difference.key for difference in found}
    assert not unfair & allowed
    return {difference.key: difference.rule for difference in found}


def test_differences_come_in_the_order_of_the_list_and_then_of_the_presets() -> None:
    listed = ["train.seed", "model.d_model", "train.learning_rate"]
    keys = [field.key for field in FIELDS if field.key in listed]
    assert len(keys) == len(listed)
    a, b = (Facts(dict.fromkeys(["train.unheard_of", "model.of_later", *reversed(keys)], n)) for n in (1, 2))
    assert [each.key for each in differences(a, b)] == [*keys, "train.unheard_of", "model.of_later"]


def test_repetitions_differ_in_nothing(tmp_path: Path) -> None:
    assert rules_of(tmp_path) == {}


def test_another_scheme_is_what_is_compared(tmp_path: Path) -> None:
    assert set(rules_of(tmp_path, residual=BLOCK_SCHEME).values()) == {Rule.SUBJECT}


def test_a_query_factor_is_tuned_only_where_both_schemes_have_one(tmp_path: Path) -> None:
    a = facts_of(fabricate(tmp_path, "a", residual=BLOCK_SCHEME))
    b = facts_of(fabricate(tmp_path, "b", residual={**BLOCK_SCHEME, "query_lr_factor": 3.0}))
    assert [(each.key, each.rule) for each in differences(a, b)] == [("residual.query_lr_factor", Rule.TUNED)]


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("train.seed", 1, Rule.EQUAL),
        ("train.schedule", "wsd", Rule.EQUAL),
        ("train.horizon_tokens", 409600, Rule.EQUAL),
        ("train.grad_clip", 0.0, Rule.EQUAL),
        ("model.norm_epsilon", 1e-6, Rule.EQUAL),
        ("model.tie_embeddings", False, Rule.EQUAL),
        ("data.tokenizer", "bpe-4096", Rule.EQUAL),
        ("eval.tokens", 1024, Rule.EQUAL),
        ("model.num_heads", 8, Rule.SHAPE),
        ("train.learning_rate", 0.001, Rule.TUNED),
        ("train.weight_decay", 0.0, Rule.TUNED),
        ("train.micro_batch_sequences", 16, Rule.TIMING),
        ("train.compile", "on", Rule.TIMING),
        ("data.validation_fraction", 0.1, Rule.RECORD),
        ("observe.every_steps", 10, Rule.RECORD),
    ],
)
def test_one_difference_in_a_preset(tmp_path: Path, key: str, value: object, rule: Rule) -> None:
    assert rules_of(tmp_path, {key: value})[key] is rule


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("data.data_hash", Rule.EQUAL),
        ("data.validation_hash", Rule.EQUAL),
        ("data.validation_set_hash", Rule.EQUAL),
        ("model.common_weights_hash", Rule.EQUAL),
        ("environment.precision", Rule.EQUAL),
        ("environment.threads", Rule.TIMING),
        ("environment.device_name", Rule.TIMING),
        ("environment.torch", Rule.TIMING),
    ],
)
def test_one_difference_in_a_manifest(tmp_path: Path, key: str, rule: Rule) -> None:
    assert rules_of(tmp_path, manifest={key: "other"}) == {f"manifest.{key}": rule}


@pytest.mark.parametrize(
    "key", ["data.data_hash", "data.validation_hash", "data.validation_set_hash", "model.common_weights_hash"]
)
def test_what_is_not_recorded_is_not_proven_equal(tmp_path: Path, key: str) -> None:
    a, b = (facts_of(fabricate(tmp_path, name, manifest={key: None})) for name in "ab")
    assert [difference.key for difference in unfair_differences(a, b)] == [f"manifest.{key}"]


def test_a_difference_is_not_reported_twice(tmp_path: Path) -> None:
    other_seed = rules_of(tmp_path, {"train.seed": 1}, manifest={"model.common_weights_hash": "f" * 64, "seed": 1})
    assert set(other_seed) == {"train.seed"}


def test_other_weights_without_another_reason_are_reported(tmp_path: Path) -> None:
    assert set(rules_of(tmp_path, manifest={"model.common_weights_hash": "f" * 64})) == {
        "manifest.model.common_weights_hash"
    }


def test_a_key_nobody_knows_is_not_taken_for_harmless() -> None:
    a, b = (facts_from({}, {"train": {"gradient_noise": value}}) for value in (0.0, 0.1))
    assert ("train.gradient_noise", Rule.EQUAL) in [(each.key, each.rule) for each in unfair_differences(a, b)]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("schedule", ["cosine", "wsd"])
@pytest.mark.parametrize("width", [64, 96, 100])
def test_defaults_are_filled_in_as_the_preset_resolves_them(optimizer: str, schedule: str, width: int) -> None:
    """A preset that spells out what another leaves to the default differs from it in nothing."""
    short = {section: dict(keys) for section, keys in RESOLVED.items()}
    short["model"].pop("num_kv_heads")
    short["model"] |= {"d_model": width, "num_heads": 2}
    short["train"] |= {"optimizer": optimizer, "schedule": schedule}
    preset = preset_from_dict(short, "short")
    spelt = {section: dict(keys) for section, keys in short.items()}
    model = preset.model
    spelt["model"] |= {
        "num_kv_heads": model.resolved_num_kv_heads,
        "head_dim": model.resolved_head_dim,
        "d_ff": model.resolved_d_ff,
    }
    if optimizer == "muon":
        spelt["train"]["muon_learning_rate"] = short["train"]["learning_rate"]
    if schedule == "wsd":
        spelt["train"]["decay_fraction"] = preset.train.decay_fraction
    resolved = [parse(preset_from_dict(each, "x").to_toml(), "x") for each in (short, spelt)]
    assert [
        each.key for each in differences(*(facts_from({}, each) for each in resolved)) if each.values != (None, None)
    ] == []


def test_a_broken_run_has_facts_all_the_same(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a")
    run.manifest_path.write_text('{"data": 3}')
    run.resolved_toml.write_text("[model")
    facts = facts_of(run)
    assert [each.partition(" of run")[0] for each in facts.unreadable] == ["The manifest", "The resolved preset"]
    assert "'data' is not a table" in facts.unreadable[0]
    assert facts["manifest.data.data_hash"] is None
