"""What the files of a run may hold where: the one place that checks it, so that no reader of a file has to.

A shape is one of the words below, a list of one shape (a list of such), or a table of them by key. A key may be absent
and a value null: older versions wrote less. What a shape does not name may be anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attnres_cli.runs.reading import is_number

NUMBER: Final = "a finite number"
COUNT: Final = "a whole number, 0 or more"
WHOLE: Final = "a whole number"
TEXT: Final = "a text"
FLAG: Final = "true or false"
ANYTHING: Final = "anything"
# As a key: every value that has no shape of its own.
OTHERWISE: Final = "*"

Shape = Any  # one of the words, [Shape] or {key: Shape}


def _each(shape: Shape, *keys: str) -> dict[str, Shape]:
    return dict.fromkeys(keys, shape)


SITE: Shape = {
    "ordinal": COUNT, "kind": TEXT, "sources": [TEXT], "mean": [NUMBER], "token_deviation": [NUMBER],
    **_each(NUMBER, "entropy", "maximum", "embedding_share", "recent_share"),
}  # fmt: skip
OBSERVATION: Shape = {"step": COUNT, "tokens": COUNT, "observer": TEXT, "arrays": {}, "summary": {}}
SUMMARIES: Mapping[str, Shape] = {
    "magnitudes": _each([NUMBER], "input_rms", "output_rms", "update_share", "stream_rms"),
    "gradients": _each([NUMBER], "parameter_grad_norm", "activation_grad_norm"),
    "answers": {"kinds": [COUNT], **_each([NUMBER], "answers", "accuracy", "loss")},
    "depth_weights": {"sites": [SITE]},
}
PROBE: Shape = {
    **_each(TEXT, "schema", "probe", "title", "nothing", "key"), **_each(COUNT, "step", "tokens", "sequences"),
    "summary": {}, "arrays": {OTHERWISE: _each(TEXT, "file", "key")},
}  # fmt: skip
_KIND_OF_SITE: Shape = _each(
    NUMBER, "sites", "entropy", "maximum", "embedding_share", "recent_share", "token_deviation"
)  # fmt: skip
_SINK: Shape = {"source": TEXT, **_each(NUMBER, "sites", "of_sites", "mean_weight", "token_deviation")}
_IMPORTANCE: Shape = {"source": TEXT, "family": TEXT, **_each(NUMBER, "mean_weight", "delta", "low", "high")}
PROBE_SUMMARIES: Mapping[str, Shape] = {
    "magnitudes": {"growth_exponent": _each(NUMBER, "estimate", "low", "high")},
    "gradients": _each(
        {OTHERWISE: NUMBER}, "grad_norm_by_kind", "spread_max_over_min", "coefficient_of_variation"
    ),
    "depth-weights": {
        "sites": [SITE], "by_kind": _each(_KIND_OF_SITE, "attention", "feed_forward", "output"), "sinks": [_SINK],
    },
    "mixing": {"effective_rank": NUMBER, "sources": [TEXT]},
    "importance": {"sources": [_IMPORTANCE], "families": [_IMPORTANCE], "whole_loss": NUMBER},
    "removal": {
        "pruning_order": [COUNT], **_each(NUMBER, "removable_blocks", "share_of_depth_that_matters", "whole_loss"),
    },
    "smoothing": {"tokens_per_sequence": NUMBER},
    "lens": _each(NUMBER, "depth_at_95_percent", "share_of_depth_at_95_percent", "final_loss"),
}  # fmt: skip
# Arrays of probes have one dimension but for these.
TWO_DIMENSIONS: Mapping[str, frozenset[str]] = {
    "mixing": frozenset({"matrix", "token_deviation"}),
    "depth-weights": frozenset({"mean_weight"}),
}
MANIFEST: Shape = {
    **_each(TEXT, "schema", "name", "created", "command", "preset_name", "preset_digest", "scheme"),
    "seed": WHOLE, **_each(COUNT, "steps", "tokens", "accumulation_steps"),
    "data": {
        **_each(TEXT, "corpus", "tokenizer", "data_hash", "validation_hash", "validation_set_hash"),
        **_each(COUNT, "vocab_size", "evaluated_tokens", "documents", "train_tokens", "train_bytes"),
        **_each(COUNT, "validation_tokens", "validation_bytes", "replaced_bytes"), "epochs": NUMBER,
    },
    "model": {
        **_each(TEXT, "summary", "common_weights_hash"), "parameters_by_part": {OTHERWISE: COUNT},
        **_each(COUNT, "parameters", "non_embedding_parameters", "transformer_blocks", "d_model"),
    },
    "flops": {
        "forward_per_token_by_part": {OTHERWISE: NUMBER}, **_each(NUMBER, "training_per_token", "total"),
    },
    "environment": {},
    "git": {"commit": TEXT},
    "branched_from": {"run": TEXT, "step": COUNT, "digests": {OTHERWISE: TEXT}},
}  # fmt: skip
STATE: Shape = {
    **_each(TEXT, "status", "host", "boot", "pid_namespace", "resume", "error", "preset_name"),
    **_each(COUNT, "step", "steps", "pid", "process_began"), "heartbeat": NUMBER,
}  # fmt: skip
RESOLVED: Shape = {
    "model": {
        **_each(COUNT, "transformer_blocks", "d_model", "num_heads", "num_kv_heads", "head_dim", "d_ff"),
        **_each(TEXT, "mixer", "feed_forward"), "context_tokens": COUNT, "norm_epsilon": NUMBER,
    },
    "residual": {"scheme": TEXT},
    "data": _each(TEXT, "corpus", "tokenizer"),
    "train": {
        "seed": WHOLE, **_each(COUNT, "horizon_tokens", "tokens_per_step", "micro_batch_sequences"),
        **_each(TEXT, "optimizer", "schedule", "precision", "device"),
        **_each(NUMBER, "learning_rate", "muon_learning_rate", "weight_decay", "warmup_fraction", "decay_fraction"),
    },
    "eval": _each(COUNT, "every_steps", "tokens"),
    "observe": {},
}  # fmt: skip

_SWEEP_RUN: Shape = {
    **_each(TEXT, "cell", "arm", "digest", "after", "trial", "folder", "status", "error"), "seed": WHOLE,
    **_each(NUMBER, "cost", "flops", "loss", "perplexity", "bits_per_byte", "train_seconds"),
    **_each(COUNT, "planned_tokens", "after_step", "step", "steps", "tokens"), "changes": {}, "figures": {},
    "awaits_rate": FLAG,
}  # fmt: skip
# sweep.json; what its kinds of sweep put into `facts`, `request` and the like is theirs.
SWEEP: Shape = {
    **_each(TEXT, "schema", "name", "kind", "report", "created", "command", "status"),
    **_each(COUNT, "planned_seeds", "vocab_size", "tokens", "tokens_per_step"), "seeds": [WHOLE],
    **_each({}, "request", "budget", "facts", "process", "measured"),
    "preset": {**_each(TEXT, "name", "digest", "source_text"), "values": {OTHERWISE: {}}},
    "arms": [{"label": TEXT, **_each({}, "residual", "changes", "facts")}],
    "cells": [{"key": TEXT, **_each({}, "coordinates", "facts")}],
    "impossible": [{**_each(TEXT, "key", "arm", "reason"), "coordinates": {}}],
    "runs": [_SWEEP_RUN],
}  # fmt: skip
_RATIO_ENDS = ("median", "low", "high")
_RATIO: Shape = _each(NUMBER, *_RATIO_ENDS, "coverage")
BENCH: Shape = {
    "arms": [{
        "name": TEXT, **_each([NUMBER], "wall_seconds", "cpu_seconds"),
        **_each(NUMBER, "resident_bytes", "step_peak_bytes"),
        "derived": {**_each(_RATIO, "wall_ratio", "cpu_ratio"), "median_wall_seconds": NUMBER, "spread": NUMBER},
    }],
    "setting": {}, "notes": [TEXT], "warnings": [TEXT],
}  # fmt: skip


def fitting(found: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """What was found, if it has the shape. Raises ValueError with what does not."""
    if said := misfit(found, shape):
        raise ValueError(said)
    return found


def misfit(value: object, shape: Shape, where: str = "") -> str | None:
    """What does not have the shape, as words after "it": "'flops.total' is not a finite number"; None where all
    does."""
    if value is None or shape == ANYTHING:
        return None
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _not(where, "a list")
        found = (misfit(each, shape[0], f"{where}[{index}]") for index, each in enumerate(value))
        return next((said for said in found if said), None)
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            return _not(where, "a table")
        otherwise = shape.get(OTHERWISE, ANYTHING)
        found = (
            misfit(each, shape.get(key, otherwise), f"{where}.{key}" if where else str(key))
            for key, each in value.items()
        )
        return next((said for said in found if said), None)
    return None if _fits_word(value, shape) else _not(where, shape)


def _fits_word(value: object, word: str) -> bool:
    if word == TEXT:
        return isinstance(value, str)
    if word == FLAG:
        return isinstance(value, bool)
    if word == NUMBER:
        return is_number(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole and (word == WHOLE or value >= 0)  # type: ignore[operator]  # an int by then


def _not(where: str, what: str) -> str:
    return f"'{where}' is not {what}" if where else f"it is not {what}"


def is_observation(row: Mapping[str, Any]) -> bool:
    """Whether a row of observations.jsonl is what an observer writes."""
    if not isinstance(row.get("observer"), str) or row.get("step") is None or misfit(row, OBSERVATION):
        return False
    summary = row.get("summary")
    shape = SUMMARIES.get(row["observer"], {})
    return not misfit(summary, shape) and (summary is None or _sites_are_whole(summary))


def is_bench(found: Mapping[str, Any]) -> bool:
    """Whether a stored bench has a time for every arm."""
    arms = found.get("arms")
    return (
        not misfit(found, BENCH)
        and isinstance(arms, list)
        and all(
            arm is not None
            and arm.get("name") is not None
            and None not in [((arm.get("derived") or {}).get("wall_ratio") or {}).get(end) for end in _RATIO_ENDS]
            for arm in arms
        )
    )


def is_probe(found: Mapping[str, Any], probe: str) -> bool:
    """Whether the JSON object of a probe is what that probe writes."""
    if misfit(found, PROBE) or not isinstance(found.get("step"), int) or not isinstance(found.get("arrays"), dict):
        return False
    summary = found.get("summary")
    return not misfit(summary, PROBE_SUMMARIES.get(probe, {})) and (summary is None or _sites_are_whole(summary))


def _sites_are_whole(summary: Mapping[str, Any]) -> bool:
    """Whether every site says where it stands and, if it lists its weights, has one for every source."""
    sites = summary.get("sites")
    if not isinstance(sites, list):
        return True
    return all(
        isinstance(site, Mapping)
        and site.get("ordinal") is not None
        and isinstance(site.get("sources"), list)
        and None not in site["sources"]
        and (site.get("mean") is None or len(site["mean"]) == len(site["sources"]))
        for site in sites
    )
