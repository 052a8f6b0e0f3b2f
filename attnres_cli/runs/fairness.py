"""The one list of what two runs must share before their losses may be compared, and what they may differ in.

Every key of a preset and every field of a manifest that bears on a comparison is classified here and nowhere else. A
key of the preset's schema that is missing from FIELDS fails a test, so that a new key cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from attnres_cli.errors import UserError
from attnres_cli.runs.directory import RunDirectory


class Rule(Enum):
    """What a difference in a field means."""

    SUBJECT = "subject"  # the thing that is compared: the residual scheme
    EQUAL = "must be equal"  # a difference makes the pair unfair
    SHAPE = "model shape"  # the same, and it is a comparison of shapes, not of residual schemes
    TUNED = "may differ if tuned"  # fair when each arm got its own best value
    TIMING = "timing only"  # changes clocks and rounding, not what is learned
    RECORD = "record only"  # what is looked at, and how often; changes nothing


@dataclass(frozen=True)
class Field:
    """One classified field.

    key: `section.key` of the resolved preset, `manifest.…` for a manifest field; `section.*` covers the section's
    other keys.
    proof: the pair counts as unfair when either run does not record this field at all.
    follows: keys whose difference already explains a difference here, so that it is not reported twice; `section.*`
    allowed.
    """

    key: str
    rule: Rule
    proof: bool = False
    follows: tuple[str, ...] = ()


_SHAPE_KEYS = tuple(
    f"model.{key}"
    for key in (
        "transformer_blocks",
        "d_model",
        "num_heads",
        "num_kv_heads",
        "head_dim",
        "d_ff",
        "mixer",
        "feed_forward",
    )
)
_TEXT_KEYS = ("manifest.data.data_hash", "manifest.data.validation_hash", "data.tokenizer", "manifest.data.vocab_size")

FIELDS: tuple[Field, ...] = (
    Field("residual.scheme", Rule.SUBJECT),
    Field("residual.query_lr_factor", Rule.TUNED),
    Field("residual.backend", Rule.TIMING),
    Field("residual.*", Rule.SUBJECT),
    # The hashes say whether two runs read the same text; how the preset named the files does not matter then.
    Field("manifest.data.data_hash", Rule.EQUAL, proof=True, follows=("data.tokenizer",)),
    Field("manifest.data.validation_hash", Rule.EQUAL, proof=True, follows=("data.tokenizer",)),
    Field(
        "manifest.data.validation_set_hash",
        Rule.EQUAL,
        proof=True,
        follows=("manifest.data.validation_hash", "data.tokenizer", "model.context_tokens", "eval.tokens"),
    ),
    Field("data.tokenizer", Rule.EQUAL),
    Field("manifest.data.vocab_size", Rule.EQUAL, follows=("data.tokenizer",)),
    Field("data.*", Rule.RECORD),
    *(Field(key, Rule.SHAPE) for key in _SHAPE_KEYS),
    Field("model.context_tokens", Rule.EQUAL),
    Field("model.rope_theta", Rule.EQUAL),
    Field("model.norm_epsilon", Rule.EQUAL),
    Field("model.tie_embeddings", Rule.EQUAL),
    Field("model.init_std", Rule.EQUAL),
    Field(
        "manifest.model.common_weights_hash",
        Rule.EQUAL,
        proof=True,
        follows=(
            *_SHAPE_KEYS,
            "model.tie_embeddings",
            "model.init_std",
            "train.seed",
            "data.tokenizer",
            "manifest.data.vocab_size",
        ),
    ),
    Field("train.horizon_tokens", Rule.EQUAL),
    Field("train.tokens_per_step", Rule.EQUAL),
    Field("manifest.tokens", Rule.EQUAL, follows=("train.horizon_tokens", "train.tokens_per_step")),
    Field("train.optimizer", Rule.EQUAL),
    Field("train.beta1", Rule.EQUAL),
    Field("train.beta2", Rule.EQUAL),
    Field("train.adam_epsilon", Rule.EQUAL),
    Field("train.grad_clip", Rule.EQUAL),
    Field("train.schedule", Rule.EQUAL),
    Field("train.warmup_fraction", Rule.EQUAL),
    Field("train.decay_fraction", Rule.EQUAL, follows=("train.schedule",)),
    Field("train.min_lr_ratio", Rule.EQUAL),
    Field("train.precision", Rule.EQUAL),
    Field("manifest.environment.precision", Rule.EQUAL, follows=("train.precision",)),
    Field("train.seed", Rule.EQUAL),
    Field("train.learning_rate", Rule.TUNED),
    Field("train.muon_learning_rate", Rule.TUNED),
    Field("train.weight_decay", Rule.TUNED),
    Field("train.micro_batch_sequences", Rule.TIMING),
    Field("train.checkpoint_activations", Rule.TIMING),
    Field("train.compile", Rule.TIMING),
    Field("train.device", Rule.TIMING),
    Field("train.threads", Rule.TIMING),
    Field("manifest.environment.device_name", Rule.TIMING),
    Field("manifest.environment.processor", Rule.TIMING),
    Field("manifest.environment.device", Rule.TIMING, follows=("train.device",)),
    Field("manifest.environment.threads", Rule.TIMING, follows=("train.threads",)),
    Field("manifest.environment.residual_path", Rule.TIMING, follows=("residual.backend", "train.compile")),
    Field("manifest.environment.compile", Rule.TIMING, follows=("train.compile",)),
    Field("manifest.environment.omp_wait_policy", Rule.TIMING),
    Field("manifest.environment.deterministic", Rule.TIMING),
    Field("manifest.environment.platform", Rule.TIMING),
    Field("manifest.environment.python", Rule.TIMING),
    Field("manifest.environment.torch", Rule.TIMING),
    Field("manifest.environment.attnres", Rule.TIMING),
    Field("train.tuning_seeds", Rule.RECORD),
    Field("train.log_every_steps", Rule.RECORD),
    Field("train.checkpoint_every_steps", Rule.RECORD),
    Field("eval.tokens", Rule.EQUAL),
    Field("eval.every_steps", Rule.RECORD),
    Field("observe.*", Rule.RECORD),
)

_BY_KEY = {field.key: field for field in FIELDS}
_POSITIONS = {field.key: position for position, field in enumerate(FIELDS)}


def field_of(key: str) -> Field | None:
    """The classification of a key: its own entry, else its section's `section.*`, else None."""
    return _BY_KEY.get(key) or _BY_KEY.get(f"{key.partition('.')[0]}.*")


@dataclass(frozen=True)
class Facts:
    """What two runs are compared by: {key: value} with the keys of FIELDS, and the sentences about what could not be
    read.

    A key with the value None is the same as an absent one.
    """

    values: Mapping[str, Any]
    unreadable: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key)


@dataclass(frozen=True)
class Difference:
    """One field in which runs differ. values: one per run, None where the run does not say."""

    key: str
    rule: Rule
    values: tuple[Any, ...]

    @property
    def label(self) -> str:
        return self.key.removeprefix("manifest.")


def facts_of(run: RunDirectory) -> Facts:
    """The facts of a run; what is missing or broken becomes a sentence in `unreadable` instead of an error."""
    unreadable: list[str] = []
    manifest: Mapping[str, Any] = {}
    resolved: Mapping[str, Any] = {}
    try:
        manifest = run.manifest()
    except UserError as error:
        unreadable.append(str(error))
    try:
        resolved = run.resolved()
    except UserError as error:
        unreadable.append(str(error))
    return facts_from(manifest, resolved, unreadable=tuple(unreadable))


def facts_from(manifest: Mapping[str, Any], resolved: Mapping[str, Any], *, unreadable: tuple[str, ...] = ()) -> Facts:
    """Facts from a manifest and a resolved preset (nested mappings)."""
    values = {
        f"{section}.{key}": value
        for section, keys in resolved.items()
        if isinstance(keys, Mapping)
        for key, value in keys.items()
    }
    _fill_in_defaults(values)
    for field in FIELDS:
        if field.key.startswith("manifest."):
            values[field.key] = _dig(manifest, field.key.split(".")[1:])
    return Facts(values, unreadable)


def differences(*runs: Facts) -> list[Difference]:
    """Every classified field in which the runs are not all equal, in the order of FIELDS and then of the presets.

    A difference that follows from another one is left out. Keys that nobody classified (a preset of a later version)
    count as must-be-equal: what is not known to be harmless is not.
    """
    keys = dict.fromkeys(key for facts in runs for key in facts.values)
    all_values = {key: tuple([facts[key] for facts in runs]) for key in keys}
    differing = [key for key, values in all_values.items() if _differ(values) or _unproven(key, values)]
    found = {key: all_values[key] for key in sorted(differing, key=_position)}
    return [
        Difference(key, _rule(key, values), values)
        for key, values in found.items()
        if not (_explained(key, found) and None not in values)
    ]


def unfair_differences(a: Facts, b: Facts) -> list[Difference]:
    """The differences that forbid a verdict: fields that must be equal (model shape among them), or are not
    recorded."""
    return [difference for difference in differences(a, b) if difference.rule in (Rule.EQUAL, Rule.SHAPE)]


def allowed_differences(a: Facts, b: Facts) -> list[Difference]:
    """The differences a fair pair may have: the scheme itself, tuned values, and what changes only clocks or
    records."""
    return [difference for difference in differences(a, b) if difference.rule not in (Rule.EQUAL, Rule.SHAPE)]


def _unproven(key: str, values: tuple[Any, ...]) -> bool:
    field = field_of(key)
    return field is not None and field.proof and None in values


def _explained(key: str, found: Container[str]) -> bool:
    field = field_of(key)
    return field is not None and any(other in found for other in field.follows)


def _rule(key: str, values: tuple[Any, ...]) -> Rule:
    field = field_of(key)
    if field is None:
        return Rule.EQUAL
    if key.startswith("residual.") and None in values:  # a key that only one of the schemes has belongs to the scheme
        return Rule.SUBJECT
    return field.rule


def _differ(values: tuple[Any, ...]) -> bool:
    return any(value != values[0] for value in values[1:])


def _position(key: str) -> int:
    field = field_of(key)
    return _POSITIONS[field.key] if field else len(FIELDS)


def _dig(mapping: Mapping[str, Any], path: list[str]) -> Any:
    value: Any = mapping
    for word in path:
        value = value.get(word) if isinstance(value, Mapping) else None
    return value


def _fill_in_defaults(values: dict[str, Any]) -> None:
    """Give keys that default to another key their value, so that a preset that spells a default out equals one that
    does not.

    TOML cannot say "none": such keys are missing from resolved.toml. The rules are those of preset/schema.py, and a
    test holds them together.
    """
    d_model, num_heads = values.get("model.d_model"), values.get("model.num_heads")
    if isinstance(num_heads, int) and num_heads:
        values.setdefault("model.num_kv_heads", num_heads)
        if isinstance(d_model, int):
            values.setdefault("model.head_dim", d_model // num_heads)
    if isinstance(d_model, int):
        values.setdefault("model.d_ff", -(-8 * d_model // (3 * 32)) * 32)
    if values.get("train.optimizer") == "muon" and "train.learning_rate" in values:
        values.setdefault("train.muon_learning_rate", values["train.learning_rate"])
    elif values.get("train.optimizer") == "adamw":
        values.pop("train.muon_learning_rate", None)  # read by nothing then
    if values.get("train.schedule") == "cosine":
        values.pop("train.decay_fraction", None)  # likewise
