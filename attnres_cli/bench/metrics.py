"""The figures of an arm by the names that conditions and JSON use; each derived from samples and facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from attnres_cli.bench.interleaved import Arm, BenchResult

# Name → what it is; None stands for a figure that was not measured or has no meaning here.
METRICS: Mapping[str, str] = {
    "step_ratio": "time over the baseline's in the same round: process CPU time, on CUDA wall time; median",
    "cpu_ratio": "the same by process CPU time",
    "wall_ratio": "the same by wall time",
    "step_seconds": "median time of one call, by the clock of step_ratio",
    "cpu_seconds": "median process CPU time of one call",
    "wall_seconds": "median wall time of one call",
    "tokens_per_second": "tokens of one call over wall_seconds",
    "peak_bytes": "weights, optimiser state and caches, and the most that one call held on top",
    "peak_ratio": "peak_bytes over the baseline's",
    "flops_per_second": "the model's FLOPs of one call over wall_seconds",
    "flops_utilisation": "flops_per_second over the peak of the device; known for some CUDA devices",
    "first_call_seconds": "wall time of the first call",
    "compile_seconds": "first_call_seconds less wall_seconds, where torch.compile was on",
    "graphs": "graphs that torch.compile made in the first call",
    "graph_breaks": "places in the first call where it went on uncompiled",
    "recompiles": "graphs that it made in later calls",
    "parameters": "the model's parameters",
    "spread": "interquartile range of the wall times over their median",
}


def metrics(result: BenchResult, arm: Arm) -> dict[str, float | None]:
    """Every figure of METRICS."""
    facts, wall = arm.facts, arm.median_seconds("wall")
    per_second = _over(facts.get("flops_per_call"), wall)
    figures: dict[str, float | None] = {
        "step_ratio": result.ratio(arm.name, result.clock).median,
        "cpu_ratio": result.ratio(arm.name, "cpu").median,
        "wall_ratio": result.ratio(arm.name, "wall").median,
        "step_seconds": arm.median_seconds(result.clock),
        "cpu_seconds": arm.median_seconds("cpu"),
        "wall_seconds": wall,
        "tokens_per_second": _over(facts.get("tokens_per_call"), wall),
        "peak_bytes": arm.peak_bytes,
        "peak_ratio": _over(arm.peak_bytes, result.arms[0].peak_bytes),
        "flops_per_second": per_second,
        "flops_utilisation": _over(per_second, facts.get("device_peak_flops")),
        "first_call_seconds": facts.get("first_call_seconds"),
        "compile_seconds": facts["first_call_seconds"] - wall if facts.get("compiled") else None,
        "graphs": facts.get("graphs"),
        "graph_breaks": facts.get("graph_breaks"),
        "recompiles": facts.get("recompiles"),
        "parameters": facts.get("parameters"),
        "spread": arm.spread,
    }
    assert figures.keys() == METRICS.keys()
    return figures


def bench_facts(result: BenchResult, *, suffix: str = "") -> dict[str, Any]:
    """`result` as plain values with the figures of every arm and the interval of its step ratio.

    suffix: put behind every arm's name.
    """
    values = result.to_dict()
    for plain, arm in zip(values["arms"], result.arms, strict=True):
        plain["name"] += suffix
        plain["is_baseline"] = arm is result.arms[0]
        plain["metrics"] = metrics(result, arm)
        plain["ratio"] = asdict(result.ratio(arm.name, result.clock))
    return values


def _over(value: float | None, divisor: float | None) -> float | None:
    return value / divisor if value is not None and divisor else None
