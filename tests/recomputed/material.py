"""Run directories to compare, whose numbers are scattered at random (and the same on every machine): no two runs, steps
or columns hold the same number, so that one taken for another is seen.

The models are so small that the real bench of a comparison takes their steps in milliseconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnres_cli.runs.directory import RunDirectory
from tests.fabricated_runs import BLOCK_SCHEME, FULL_SCHEME, fabricate, observations
from tests.recomputed.arms import Arm, Compared
from tests.recomputed.raw import Run, lines
from tests.recomputed.statistics import median_interval

MODEL = {
    "model.transformer_blocks": 4, "model.d_model": 16, "model.num_heads": 2, "model.num_kv_heads": 2, "model.d_ff": 32,
    "model.context_tokens": 16, "train.tokens_per_step": 32, "train.micro_batch_sequences": 1,
    "train.horizon_tokens": 3200,
}  # fmt: skip
SCHEMES: dict[str, Mapping[str, Any]] = {
    "prenorm": {"scheme": "prenorm"},
    "attnres-block": BLOCK_SCHEME,
    "attnres-full": FULL_SCHEME,
}
FLOPS_PER_TOKEN = {"prenorm": 1.0e6, "attnres-block": 1.021e6, "attnres-full": 1.053e6}
OBSERVED_STEPS = (20, 40, 60)


def scattered_run(
    root: Path,
    name: str,
    *,
    scheme: str = "prenorm",
    seed: int = 0,
    change: Mapping[str, Any] | None = None,
    **how: Any,
) -> Run:
    """A run with a scatter of its own, which its name decides. how: as for `fabricate`."""
    run = fabricate(
        root,
        name,
        residual=SCHEMES[scheme],
        change={**MODEL, "train.seed": seed, **(change or {})},
        flops_per_token=FLOPS_PER_TOKEN[scheme],
        **how,
    )
    scatter = np.random.default_rng([ord(letter) for letter in f"{root.name}/{name}"])
    _scatter_metrics(run, scatter)
    _scatter_observations(run, scatter, how.get("until_step") or how.get("steps", 100))
    if how.get("status") == "running":
        _keep_alive(run)
    return Run(run.path)


def _keep_alive(run: RunDirectory) -> None:
    """A sign of life from an hour ahead: a run that goes on is not taken for dead on a slow machine."""
    state = json.loads(run.state_path.read_text())
    run.state_path.write_text(json.dumps({**state, "heartbeat": state["heartbeat"] + 3600}))


def single_runs(root: Path) -> Compared:
    """Three that ended, one of which was resumed and torn, one that was interrupted and one that diverged; with a
    learning rate, a batch of evaluations and other keys of their own."""
    runs = [
        scattered_run(root, "plain", change={"train.learning_rate": 0.003}),
        scattered_run(
            root,
            "mixing",
            scheme="attnres-block",
            better_by=0.05,
            change={"train.learning_rate": 0.0042, "train.weight_decay": 0.07, "observe.every_steps": 7},
            manifest={"environment.threads": 3},
        ),
        scattered_run(root, "whole", scheme="attnres-full", better_by=0.02, change={"train.beta2": 0.97}),
        scattered_run(root, "stopped", scheme="attnres-block", better_by=0.03, until_step=60, status="interrupted"),
        scattered_run(root, "lost", until_step=40, status="diverged", error="the loss is not a number"),
    ]
    _written_again(runs[2])
    with (runs[4].path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "eval", "step": 41, "tokens": 41 * 32, "loss": None, "perplexity": None}) + "\n")
    letters = "ABCDE"
    arms = tuple(Arm(letter, f"{letter} {run.scheme}", (run,)) for letter, run in zip(letters, runs, strict=True))
    return Compared(arms, "A", timed=(("A", "E"), ("B", "D"), ("C",)))


def groups(
    root: Path,
    better_by: Mapping[str, Sequence[float]],
    *,
    lost: Mapping[tuple[str, int], Mapping[str, Any]] | None = None,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Compared:
    """Arms with a run per seed below root/"group". better_by: of each arm, seed by seed. lost: how a run of (arm, seed)
    ended, as for `fabricate`; changes: keys of an arm's preset."""
    luck = np.random.default_rng(7).normal(0, 0.03, 20)
    arms = []
    for began, (scheme, values) in enumerate(better_by.items()):
        runs = []
        for seed, better in enumerate(values):
            how = dict((lost or {}).get((scheme, seed), {}))
            runs.append(
                scattered_run(
                    root / "group",
                    f"{scheme}-s{seed}",
                    scheme=scheme,
                    seed=seed,
                    better_by=better,
                    luck=luck[seed],
                    change=(changes or {}).get(scheme),
                    manifest={
                        "created": f"2026-01-02T03:{began:02}:{seed:02}+00:00",
                        "model.common_weights_hash": f"{seed:064}",
                    },
                    **how,
                )
            )
        arms.append(Arm(scheme, scheme, tuple(runs)))
    return Compared(tuple(arms), arms[0].label, timed=tuple((arm.label,) for arm in arms))


def write_bench(measured: Path, root: Path, slower: Sequence[float]) -> Path:
    """A stored bench for the runs below `root`, in the place of one that was measured for runs that cost the same, with
    made-up samples. slower: what a step of each arm takes over the first one's, roughly."""
    document = json.loads(measured.read_text())
    scatter = np.random.default_rng(11)
    base = (0.05 * scatter.lognormal(0, 0.05, 7)).tolist()
    for place, (arm, factor) in enumerate(zip(document["bench"]["arms"], slower, strict=True)):
        wall = [seconds * factor * scatter.lognormal(0, 0.01) for seconds in base] if place else base
        arm |= {
            "wall_seconds": wall,
            "cpu_seconds": [0.9 * seconds for seconds in wall],
            "resident_bytes": 3_600_000 + 1713 * place,
            "step_peak_bytes": int(scatter.integers(20_000_000, 30_000_000)),
        }
        for clock in ("wall", "cpu"):
            ratios = [ours / theirs for ours, theirs in zip(wall, base, strict=True)]
            middle, low, high = median_interval(ratios)
            arm["derived"][f"{clock}_ratio"] = {"median": middle, "low": low, "high": high, "coverage": 0.984375}
            arm["derived"][f"median_{clock}_seconds"] = median_interval(arm[f"{clock}_seconds"])[0]
    path = root / ".bench" / measured.name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    return path


# ------------------------------------------------------------------ scatter


def _scatter_metrics(run: RunDirectory, scatter: np.random.Generator) -> None:
    rows = lines(run.metrics_path)
    density = scatter.uniform(0.5, 1.0)
    for row in rows:
        if row["kind"] == "eval":
            row["loss"] += scatter.normal(0, 0.004)
            row["perplexity"] = math.exp(row["loss"])
            row["bits_per_byte"] = density * row["loss"] / math.log(2)
        elif row["kind"] == "train":
            row["loss"] += scatter.normal(0, 0.01)
            for key in ("learning_rate", "grad_norm", "grad_norm_trunk", "tokens_per_second", "step_seconds"):
                row[key] *= scatter.lognormal(0, 0.1)
            row["train_seconds"] *= scatter.lognormal(0, 0.1)
    _write_lines(run.metrics_path, rows)


def _scatter_observations(run: RunDirectory, scatter: np.random.Generator, until_step: int) -> None:
    """Observations at several steps, also of runs that did not end."""
    steps = sorted({step for step in (*OBSERVED_STEPS, until_step) if step <= until_step})
    rows = [row for step in steps for row in observations(run.resolved(), step, 32 * step, 0.0)]
    for row in rows:
        for site in row["summary"].pop("sites", []):
            weights = scatter.dirichlet(np.full(len(site["mean"]), 2.0)).tolist()
            choosing = len(weights) > 1
            site |= {
                "mean": weights,
                "maximum": max(weights),
                "embedding_share": weights[0],
                "recent_share": weights[-1],
                "entropy": scatter.uniform(0.3, 0.9) * math.log(len(weights)) if choosing else 0.0,
            }
            row["summary"].setdefault("sites", []).append(site)
        for key, values in row["summary"].items():
            if key != "sites":
                row["summary"][key] = [value * scatter.lognormal(0, 0.4) for value in values]
    _write_lines(run.observations_path, rows)


def _written_again(run: Run) -> None:
    """As a process leaves it that died in the middle of a line and was resumed: rows twice, the later ones hold."""
    path = run.path / "metrics.jsonl"
    rows = lines(path)
    again = [dict(row) for row in rows if row["kind"] == "eval" and row["step"] >= 60]
    for row in again:
        row["loss"] -= 0.0123
        row["perplexity"] = math.exp(row["loss"])
        row["bits_per_byte"] *= 1.01
    *before, ended = rows
    torn = '{"kind": "eval", "step": 100, "tok\n'
    text = "".join(json.dumps(row) + "\n" for row in before) + torn
    path.write_text(text + "".join(json.dumps(row) + "\n" for row in (*again, ended)))


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
