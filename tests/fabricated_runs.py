"""Run directories made by hand through the runs API, with figures that are easy to recompute: no model is trained.

`fabricate(root, ...)` writes what training would: a resolved preset, a manifest, metrics, observations and a state. The
figures follow simple formulas of step, transformer block and site, shifted by `better_by`, so that no two columns of
any table hold the same number by accident.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from attnres_cli.runs.directory import RunDirectory

RESOLVED: dict[str, dict[str, Any]] = {
    "model": {
        "transformer_blocks": 5,
        "d_model": 64,
        "num_heads": 4,
        "num_kv_heads": 4,
        "context_tokens": 128,
        "mixer": "attention",
        "feed_forward": "swiglu",
        "rope_theta": 10000.0,
        "norm_epsilon": 1e-12,
        "tie_embeddings": True,
        "init_std": 0.02,
    },
    "residual": {"scheme": "prenorm"},
    "data": {"corpus": "stdlib", "tokenizer": "bytes", "validation_fraction": 0.05, "undecodable": "replace"},
    "train": {
        "horizon_tokens": 204800,
        "tokens_per_step": 2048,
        "micro_batch_sequences": 8,
        "optimizer": "adamw",
        "learning_rate": 0.003,
        "weight_decay": 0.1,
        "beta1": 0.9,
        "beta2": 0.95,
        "adam_epsilon": 1e-8,
        "grad_clip": 1.0,
        "schedule": "cosine",
        "warmup_fraction": 0.05,
        "min_lr_ratio": 0.1,
        "precision": "fp32",
        "compile": "auto",
        "device": "auto",
        "threads": 0,
        "seed": 0,
        "log_every_steps": 10,
        "checkpoint_every_steps": 0,
    },
    "eval": {"every_steps": 20, "tokens": 65536},
    "observe": {"observers": ["magnitudes", "gradients", "depth-weights"], "every_steps": 0, "probe_sequences": 4},
}
BLOCK_SCHEME: dict[str, Any] = {"scheme": "attnres-block", "num_blocks": 2, "query_lr_factor": 1.0}
FULL_SCHEME: dict[str, Any] = {"scheme": "attnres-full", "query_lr_factor": 1.0}
# What a seed adds to the loss of every arm, nats: large beside the effects, and gone in a paired difference.
LUCK = (0.031, -0.042, 0.008, 0.034, -0.018, 0.022, -0.011)


def fabricate(
    root: Path,
    name: str,
    *,
    residual: Mapping[str, Any] | None = None,
    change: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
    better_by: float = 0.0,
    luck: float = 0.0,
    steps: int = 100,
    until_step: int | None = None,
    status: str = "finished",
    error: str | None = None,
    bits_per_byte: bool = True,
    observed: bool = True,
    flops_per_token: float = 1.0e6,
) -> RunDirectory:
    """A run `name` below `root`.

    change: {"section.key": value} of the resolved preset; manifest: {"section.key" or "key": value} of the manifest;
    None removes a key. better_by: nats by which every loss is lower in the end. luck: nats by which
    every loss is higher. until_step: the last step there is anything of.
    """
    resolved = {section: dict(keys) for section, keys in RESOLVED.items()}
    if residual is not None:
        resolved["residual"] = dict(residual)
    for key, value in (change or {}).items():
        _set(resolved, key, value)
    tokens_per_step = resolved["train"]["tokens_per_step"]
    last = steps if until_step is None else until_step

    run = RunDirectory.create(root, "unused", name)
    run.write_presets(preset=f'# {name}\nextends = "cpu-tiny"\n', resolved=tomli_w.dumps(resolved))
    facts = _manifest(resolved, name=name, steps=steps, flops_per_token=flops_per_token)
    for key, value in (manifest or {}).items():
        _set(facts, key, value)
    run.write_manifest(facts)
    for step in range(last + 1):
        tokens = step * tokens_per_step
        if step and (step % resolved["train"]["log_every_steps"] == 0 or step == 1):
            run.append_metric(_train_row(step, tokens, better_by, luck))
        every = resolved["eval"]["every_steps"]
        if (every and step % every == 0) or step == steps:
            run.append_metric(_eval_row(step, tokens, better_by, luck, bits_per_byte))
    if observed and last == steps:
        for row in observations(resolved, steps, steps * tokens_per_step, better_by):
            run.append_observation(row)
    run.append_metric({"kind": "event", "step": last, "event": status})
    run.write_state(status=status, step=last, steps=steps, error=error)
    return run


def fabricate_arm(
    root: Path,
    name: str,
    *,
    better_by: Sequence[float],
    seeds: Sequence[int] | None = None,
    began: int = 0,
    **how: Any,
) -> list[RunDirectory]:
    """Runs `name`-s0, `name`-s1, … of one arm below the folder `root` of a group, one per value of better_by.

    seeds: 0, 1, … unless given. began: minutes after the others. how: as for `fabricate`, the same for every run.
    """
    return [
        fabricate(
            root,
            f"{name}-s{seed}",
            **{
                **how,
                "better_by": better,
                "luck": LUCK[seed % len(LUCK)],
                "change": {"train.seed": seed, **how.get("change", {})},
                "manifest": {
                    "created": f"2026-01-02T03:{began:02}:00+00:00",
                    "model.common_weights_hash": f"{seed:064}",
                    **how.get("manifest", {}),
                },
            },
        )
        for seed, better in zip(seeds if seeds is not None else range(len(better_by)), better_by, strict=True)
    ]


def loss_at(step: int, better_by: float, luck: float = 0.0) -> float:
    """The validation loss that a fabricated run has at a step."""
    return 1.5 + luck + 4 * math.exp(-step / 20) - better_by * (1 - math.exp(-step / 10))


def _train_row(step: int, tokens: int, better_by: float, luck: float) -> dict[str, Any]:
    seconds = step * (0.05 + better_by / 10)
    return {
        "kind": "train",
        "step": step,
        "tokens": tokens,
        "loss": loss_at(step, better_by, luck) - 0.03,
        "learning_rate": 0.003,
        "grad_norm": 0.8,
        "grad_norm_trunk": 0.7,
        "clipped": False,
        "tokens_per_second": 2048 / (0.05 + better_by / 10),
        "step_seconds": 0.05 + better_by / 10,
        "train_seconds": seconds,
    }


def _eval_row(step: int, tokens: int, better_by: float, luck: float, bits_per_byte: bool) -> dict[str, Any]:
    loss = loss_at(step, better_by, luck)
    return {
        "kind": "eval",
        "step": step,
        "tokens": tokens,
        "loss": loss,
        "perplexity": math.exp(loss),
        "bits_per_byte": loss / math.log(2) if bits_per_byte else None,
        "eval_seconds": 0.4,
    }


def observations(resolved: Mapping[str, Any], step: int, tokens: int, better_by: float) -> list[dict[str, Any]]:
    """One row per observer; depth weights only for a scheme that mixes."""
    blocks = resolved["model"]["transformer_blocks"]
    sublayers = range(2 * blocks)
    magnitudes = {
        "input_rms": [0.1 + 0.05 * sublayer for sublayer in sublayers],
        "output_rms": [0.2 + 0.01 * sublayer for sublayer in sublayers],
        "update_share": [0.5 / (sublayer + 1) for sublayer in sublayers],
        "stream_rms": [0.02, *(0.3 * (b + 1) ** (1.2 - 2 * better_by) for b in range(blocks))],
    }
    gradients = {
        "parameter_grad_norm": [0.5 / (b + 1) + better_by for b in range(blocks)],
        "activation_grad_norm": [0.004 * (b + 1) for b in range(blocks)],
    }
    rows = [("magnitudes", magnitudes), ("gradients", gradients)]
    if resolved["residual"]["scheme"] != "prenorm":
        rows.append(("depth_weights", {"sites": [_site(site, 2 * blocks) for site in range(2 * blocks + 1)]}))
    return [
        {"step": step, "tokens": tokens, "observer": observer, "arrays": {}, "summary": summary}
        for observer, summary in rows
    ]


def _site(ordinal: int, output: int) -> dict[str, Any]:
    sources = ["embedding", *(f"block {n}" for n in range(1, 1 + (ordinal + 3) // 4))]
    sources = sources if ordinal else ["embedding"]
    raw = [1.0 + 0.1 * ordinal * n for n in range(len(sources))]
    mean = [value / sum(raw) for value in raw]
    return {
        "ordinal": ordinal,
        "kind": "output" if ordinal == output else ("attention", "feed_forward")[ordinal % 2],
        "sources": sources,
        "mean": mean,
        "entropy": -sum(value * math.log(value) for value in mean),
        "maximum": max(mean),
        "embedding_share": mean[0],
        "recent_share": mean[-1],
    }


def _manifest(resolved: Mapping[str, Any], *, name: str, steps: int, flops_per_token: float) -> dict[str, Any]:
    tokens = steps * resolved["train"]["tokens_per_step"]
    return {
        "created": "2026-01-02T03:04:05+00:00",
        "command": "attnres train cpu-tiny",
        "preset_name": "cpu-tiny",
        "preset_digest": "d" * 64,
        "scheme": resolved["residual"]["scheme"],
        "seed": resolved["train"]["seed"],
        "steps": steps,
        "tokens": tokens,
        "accumulation_steps": 2,
        "data": {
            "corpus": "stdlib",
            "tokenizer": "bytes",
            "vocab_size": 257,
            "data_hash": "a" * 64,
            "validation_hash": "b" * 64,
            "validation_set_hash": "c" * 64,
            "train_tokens": 9_000_000,
            "train_bytes": 9_000_000,
            "validation_tokens": 500_000,
            "validation_bytes": 500_000,
            "replaced_bytes": 0,
            "epochs": 0.0228,
        },
        "model": {
            "parameters": 300_000,
            "non_embedding_parameters": 280_000,
            "parameters_by_part": {"embedding": 20_000, "blocks": 280_000},
            "transformer_blocks": resolved["model"]["transformer_blocks"],
            "d_model": resolved["model"]["d_model"],
            "summary": "",
            "common_weights_hash": "e" * 64,
        },
        "flops": {
            "forward_per_token_by_part": {"all": flops_per_token / 3},
            "training_per_token": flops_per_token,
            "total": flops_per_token * tokens,
        },
        "environment": {
            "attnres": "0.1.0",
            "python": "3.11.7",
            "torch": "2.13.0",
            "platform": "Linux",
            "device": "cpu",
            "device_name": "A processor",
            "threads": 2,
            "omp_wait_policy": "PASSIVE",
            "compile": False,
            "precision": "fp32",
            "deterministic": True,
        },
        "git": None,
    }


def bench_result(names: list[str], *, slower: float = 1.3, rounds: int = 7) -> dict[str, Any]:
    """A bench as bench/ stores it (schema attnres.bench/1): arm n takes 1 + n (slower - 1) times as long as the
    first."""
    arms = []
    for index, name in enumerate(names):
        ratio = 1 + index * (slower - 1)
        wall = [0.05 * ratio * (1 + 0.01 * round_) for round_ in range(rounds)]
        arms.append(
            {
                "name": name,
                "wall_seconds": wall,
                "cpu_seconds": wall,
                "resident_bytes": 3_600_000 + index * 1000,
                "step_peak_bytes": 20_000_000 + index * 4_000_000,
                "facts": {},
                "derived": {
                    "wall_ratio": {"median": ratio, "low": ratio * 0.98, "high": ratio * 1.03, "coverage": 0.984375},
                    "cpu_ratio": {"median": ratio, "low": ratio * 0.99, "high": ratio * 1.01, "coverage": 0.984375},
                    "median_wall_seconds": sorted(wall)[rounds // 2],
                    "median_cpu_seconds": sorted(wall)[rounds // 2],
                    "spread": 0.03,
                },
            }
        )
    setting = {
        "device": "cpu",
        "threads": 2,
        "cores": 2,
        "omp_wait_policy": "PASSIVE",
        "load_average_before": 0.2,
        "load_average_after": 0.4,
    }
    return {"schema": "attnres.bench/1", "warmup": 2, "setting": setting, "notes": [], "arms": arms, "warnings": []}


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    section, _, name = key.partition(".")
    target = values[section] if name else values
    if value is None:
        target.pop(name or section, None)
    else:
        target[name or section] = value
