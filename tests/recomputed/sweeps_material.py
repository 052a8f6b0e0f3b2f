"""Finished sweeps without training: the real commands, with a stand-in that writes what a training would leave.

The stand-in gets the same jobs as a training and writes the same files: a resolved preset, a manifest, metrics.jsonl,
and what observers saw. Its losses are a smooth function of the preset, so that laws, ladders and optima have something
to find, plus noise that is drawn from the name of the run: no two numbers are alike. Beside the last evaluation there
are an earlier one and the losses of training, so that whoever takes the wrong row is wrong.
"""

from __future__ import annotations

import functools
import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnres_cli.bench import presets as benches
from attnres_cli.bench.interleaved import Arm, BenchResult, Setting
from attnres_cli.cli.app import run as run_command
from attnres_cli.preset.preset import Preset
from attnres_cli.preset.reading import preset_from_dict
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.sweep import engine, preparation
from attnres_cli.sweep.counting import counts_of
from attnres_cli.sweep.execution import Job, JobResult
from attnres_cli.sweep.shapes import Counts
from tests.small import small_preset

VOCAB_SIZE = 31
# After the last evaluation, but before it could say that it has finished.
FAILED_LATE = "failed late"
Smooth = Callable[[Preset, float], float]


@dataclass
class Trainer:
    """Stands in for a training. smooth: (preset, training FLOPs) → loss without noise. endings: run folder →
    "diverged", "failed", FAILED_LATE or "interrupted"; every other one finishes. noise: nats."""

    smooth: Smooth
    endings: Mapping[str, str] = field(default_factory=dict)
    noise: float = 0.01

    def __call__(self, job: Job) -> JobResult:
        folder = Path(job.run_folder)
        preset = preset_from_dict(job.preset, job.preset_name)
        run = RunDirectory.create(folder.parent, "", folder.name)
        run.write_presets(preset=job.source_text, resolved=preset.to_toml())
        counts = counts_of(preset, VOCAB_SIZE)
        run.write_manifest(_manifest(preset, job, counts))
        generator = np.random.default_rng(zlib.crc32(folder.name.encode()))
        flops = counts.training_flops_per_token * preset.steps * preset.train.tokens_per_step
        loss = self.smooth(preset, flops) + _luck(preset.train.seed) + self.noise * float(generator.normal())
        ending = self.endings.get(folder.name, "finished")
        status = "failed" if ending == FAILED_LATE else ending
        last = preset.steps if ending in ("finished", FAILED_LATE) else preset.steps // 2
        self._write_metrics(run, preset, loss, generator, last)
        if ending == "finished":
            for row in _observations(preset, generator):
                run.append_observation(row)
        error = None if ending == "finished" else f"{ending} after step {last}"
        run.write_state(status=status, step=last, steps=preset.steps, error=error)
        if status == "failed":
            raise RuntimeError(error)
        return JobResult(status, error)  # type: ignore[arg-type]

    def _write_metrics(
        self, run: RunDirectory, preset: Preset, loss: float, generator: np.random.Generator, last: int
    ) -> None:
        for step in sorted({1, last // 2, last}):
            tokens = step * preset.train.tokens_per_step
            now = loss + (0.0 if step == preset.steps else 0.7 + 0.1 * float(generator.random()))
            run.append_metric(
                {"kind": "train", "step": step, "tokens": tokens, "loss": now - 0.05, "train_seconds": 0.3 * step}
            )
            if step > 1:
                run.append_metric(
                    {"kind": "eval", "step": step, "tokens": tokens, "loss": now, "perplexity": math.exp(now),
                     "bits_per_byte": 0.31 * now}
                )  # fmt: skip


def power_law(preset: Preset, flops: float) -> float:
    """A loss that falls with the training FLOPs, by an amount and exponent of the scheme's own."""
    own = _own(preset)
    return (2.9 - 0.15 * own) * float((flops / 1e8) ** -(0.07 + 0.01 * own))


def bowl(preset: Preset, flops: float) -> float:
    """A loss that has its minimum at some ratio of width to depth, and at some learning rate, both the scheme's own."""
    own, model, train = _own(preset), preset.model, preset.train
    ratio = math.log(model.d_model / model.transformer_blocks / (9.0 - 4.0 * own))
    rate = math.log2(train.learning_rate * model.d_model / (0.3 + 0.3 * own))
    return 2.0 + 0.2 * ratio**2 + 0.05 * rate**2 - 0.06 * own + 5.0 / train.horizon_tokens


def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: Trainer, **changes: Any) -> None:
    """Work in an empty folder with ./small.toml, where commands train with the stand-in. changes: of the preset."""
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(small_preset(**changes).to_toml())
    monkeypatch.setattr(engine, "run_sweep", functools.partial(engine.run_sweep, run_job=trainer))
    monkeypatch.setattr(preparation, "step_seconds", timed)
    monkeypatch.setattr(benches, "bench_presets", bench)


def command(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """What a command prints with --json."""
    capsys.readouterr()
    assert run_command([*words, "--json"]) == code, capsys.readouterr().err
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def timed(presets: Mapping[str, Preset], vocab_size: int, slot: object) -> dict[str, float]:
    """In place of timing: seconds of a training step that follow from the shape and the arm."""
    return {
        label: 0.02 + 0.003 * preset.model.transformer_blocks + 0.0007 * place
        for place, (label, preset) in enumerate(presets.items())
    }


def bench(presets: Mapping[str, Preset], *, pairs: int, **how: Any) -> BenchResult:
    """In place of an interleaved bench: samples that are drawn, every arm 3 % slower than the one before."""
    generator = np.random.default_rng(pairs)
    arms = [
        Arm(name, *(tuple((0.05 * 1.03**place * (1 + 0.02 * generator.normal(size=pairs))).tolist()) for _ in "wc"))
        for place, name in enumerate(presets)
    ]
    return BenchResult(tuple(arms), warmup=1, setting=Setting())


def _own(preset: Preset) -> float:
    """0 for the baseline, and something of its own between 0 and 1 for every other residual configuration."""
    residual = preset.to_dict()["residual"]
    if residual["scheme"] == "prenorm":
        return 0.0
    return 0.2 + 0.7 * float(np.random.default_rng(zlib.crc32(json.dumps(residual).encode())).random())


def _luck(seed: int) -> float:
    """What a seed adds to every arm alike."""
    return 0.05 * float(np.random.default_rng(seed).normal())


def _manifest(preset: Preset, job: Job, counts: Counts) -> dict[str, Any]:
    tokens = preset.steps * preset.train.tokens_per_step
    manifest: dict[str, Any] = {
        "created": "2026-01-02T03:04:05+00:00",
        "preset_digest": job.key,
        "scheme": preset.residual.scheme,
        "seed": preset.train.seed,
        "steps": preset.steps,
        "tokens": tokens,
        "model": {
            "parameters": counts.parameters,
            "non_embedding_parameters": counts.non_embedding_parameters,
            "transformer_blocks": preset.model.transformer_blocks,
            "d_model": preset.model.d_model,
        },
        "flops": {
            "training_per_token": counts.training_flops_per_token,
            "total": counts.training_flops_per_token * tokens,
        },
    }
    if job.after_step is not None:
        manifest["branched_from"] = {"run": Path(job.after_folder or "").name, "step": job.after_step, "digests": {}}
    return manifest


def _observations(preset: Preset, generator: np.random.Generator) -> list[dict[str, Any]]:
    """Of the observers that reproductions ask, at an earlier step and at the last one."""
    sublayers = 2 * preset.model.transformer_blocks
    rows = []
    for step in (preset.steps // 2, preset.steps):
        summaries: dict[str, Any] = {
            "magnitudes": {
                "output_rms": np.exp(0.4 * generator.normal(size=sublayers)).tolist(),
                "update_share": np.exp(0.4 * generator.normal(size=sublayers)).tolist(),
            },
            "gradients": {"parameter_grad_norm": np.exp(0.4 * generator.normal(size=sublayers // 2)).tolist()},
        }
        if preset.residual.scheme != "prenorm":
            summaries["depth_weights"] = {"sites": [_site(n, sublayers, generator) for n in range(sublayers + 1)]}
        rows += [
            {"step": step, "tokens": step * preset.train.tokens_per_step, "observer": observer, "arrays": {},
             "summary": summary}
            for observer, summary in summaries.items()
        ]  # fmt: skip
    return rows


def _site(ordinal: int, output: int, generator: np.random.Generator) -> dict[str, Any]:
    mean = generator.dirichlet(np.ones(ordinal + 1))
    return {
        "ordinal": ordinal,
        "kind": "output" if ordinal == output else ("attention", "feed_forward")[ordinal % 2],
        "sources": ["embedding", *(f"source {n}" for n in range(ordinal))],
        "mean": mean.tolist(),
        "entropy": float(-(mean * np.log(mean)).sum()),
        "maximum": float(mean.max()),
        "embedding_share": float(mean[0]),
        "recent_share": float(mean[-1]),
    }
