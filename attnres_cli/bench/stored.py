"""The short bench that belongs to a comparison of runs: measured once per set of arms and machine, and kept beside the
runs.

It lies under `<runs root>/.bench/<digest>.json`. Runs whose training steps cost the same (other seed, other learning
rate) share one arm.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnres_cli import __version__
from attnres_cli.errors import UserError
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.environment import package_version, processor_name
from attnres_cli.runs.files import json_text, read_json, write_json
from attnres_cli.runs.metrics import number
from attnres_cli.runs.shapes import is_bench

# Six rounds are the fewest that give a 95 % interval of the median; the seventh makes the median a sample.
MOST_ROUNDS = 7
FEWEST_ROUNDS = 3
# Steps of an arm off the clock: compiling, measuring memory, warming up.
UNTIMED_STEPS = 3
WANTED_SECONDS = 90.0
SCHEMA = "attnres.stored-bench/1"
TRAIN_KEYS_THAT_COST = (
    "tokens_per_step", "micro_batch_sequences", "optimizer", "grad_clip", "precision", "compile", "threads",
)  # fmt: skip


@dataclass(frozen=True)
class StoredBench:
    """result: the bench as a dictionary (schema attnres.bench/1). arm_names: the arm of each run, in the order of the
    runs, None for a run without a readable preset. measured_now: False when it was read from disk."""

    result: Mapping[str, Any]
    arm_names: Sequence[str | None]
    measured_now: bool


@dataclass(frozen=True)
class _Arm:
    """run: the first of the runs that share the arm. cost: everything that the cost of its step depends on."""

    run: RunDirectory
    cost: Mapping[str, Any]


def bench_of_runs(
    runs: Sequence[RunDirectory],
    *,
    root: Path,
    again: bool = False,
    before_measuring: Callable[[float | None], None] | None = None,
) -> StoredBench:
    """The interleaved bench of these runs' training steps; the first run (the baseline) is its first arm.

    again: measure even when a result is stored. before_measuring: called with the expected seconds (None: unknown) when
    it takes more than reading a file. Raises UserError when the baseline's preset or fewer than two runs can be read,
    when the device is not there, and for lack of memory.
    """
    costs = [cost_of_step(run) for run in runs]
    if costs[0] is None:
        raise UserError("the preset of the baseline cannot be read")
    if sum(cost is not None for cost in costs) < 2:
        raise UserError("fewer than two of the runs can be timed")
    names = [None if cost is None else _digest(cost)[:12] for cost in costs]
    arms: dict[str, _Arm] = {}
    for name, run, cost in zip(names, runs, costs, strict=True):
        if name is not None and cost is not None:
            arms.setdefault(name, _Arm(run, cost))
    setting = machine()
    path = root / ".bench" / f"{_digest({'arms': list(arms), **setting})[:32]}.json"
    stored = None if again else _stored(path, setting)
    if stored is not None:
        return StoredBench(stored, names, measured_now=False)
    rounds, expected_seconds = _affordable_rounds(arms)
    if before_measuring is not None:
        before_measuring(expected_seconds)
    result = _measure(arms, rounds, device=str(costs[0]["device"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"schema": SCHEMA, "machine": setting, "runs": [run.name for run in runs], "bench": result})
    return StoredBench(json.loads(json_text(result)), names, measured_now=True)


def cost_of_step(run: RunDirectory) -> dict[str, Any] | None:
    """Everything that the cost of a training step of this run depends on, or None when the run does not say."""
    try:
        resolved, manifest = run.resolved(), run.manifest()
        return {
            "model": resolved["model"],
            "residual": {key: value for key, value in resolved["residual"].items() if not key.endswith("_lr_factor")},
            "train": {key: resolved["train"].get(key) for key in TRAIN_KEYS_THAT_COST},
            "vocab_size": manifest["data"]["vocab_size"],
            "device": manifest["environment"]["device"],
        }
    except (UserError, KeyError, TypeError, AttributeError):
        return None


def machine() -> dict[str, Any]:
    """What makes two measurements comparable, found without importing torch."""
    return {
        "attnres": __version__,
        "torch": package_version("torch"),
        "host": platform.node(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
    }


def _affordable_rounds(arms: Mapping[str, _Arm]) -> tuple[int, float | None]:
    """(rounds, expected seconds): fewer rounds where the trainings' own clocks say that a step takes long."""
    known = [seconds for arm in arms.values() if (seconds := _trained_step_seconds(arm.run)) is not None]
    if len(known) < len(arms):
        return MOST_ROUNDS, None
    round_seconds = sum(known)
    rounds = int(WANTED_SECONDS / round_seconds) - UNTIMED_STEPS if round_seconds else MOST_ROUNDS
    rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, rounds))
    return rounds, (rounds + UNTIMED_STEPS) * round_seconds


def _trained_step_seconds(run: RunDirectory) -> float | None:
    rows = run.train_rows()
    return number(rows[-1], "step_seconds") if rows else None


def _measure(arms: Mapping[str, _Arm], rounds: int, *, device: str) -> dict[str, Any]:
    """Time the arms on the device that the baseline was trained on: "auto" might mean another one here."""
    from attnres_cli.bench.presets import bench_presets
    from attnres_cli.preset.reading import load_preset

    presets = {name: load_preset(arm.run.resolved_toml).replace({"train.device": device}) for name, arm in arms.items()}
    vocab_sizes = {name: arm.cost["vocab_size"] for name, arm in arms.items()}
    return bench_presets(presets, vocab_sizes=vocab_sizes, pairs=rounds).to_dict()


def _stored(path: Path, setting: Mapping[str, Any]) -> dict[str, Any] | None:
    """The stored result, or None when there is none that can be used."""
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return None
    bench = found.get("bench")
    if found.get("schema") != SCHEMA or found.get("machine") != setting or not isinstance(bench, dict):
        return None
    return bench if is_bench(bench) else None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
