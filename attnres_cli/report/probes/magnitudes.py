"""Magnitudes: how the stream grows, what stands out, and how both went through training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnres_cli.report.probed_run import ProbedRun
from attnres_cli.report.probes._side_by_side import BLOCKS_PASSED, by_depth, by_run
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.runs.metrics import number

PROBE = "magnitudes"


def tables(runs: Sequence[ProbedRun]) -> Iterator[Table]:
    yield by_run(
        PROBE,
        "Magnitudes",
        runs,
        (
            Column("first_block_rms", "first", "RMS", "number"),
            Column("last_block_rms", "last", "RMS", "number"),
            Column("growth_exponent", "growth", "exponent [95 %]", "number"),
            Column("largest_abs", "|x|", "largest", "number"),
            Column("largest_kurtosis", "kurtosis", "largest", "number"),
        ),
        _row,
        caption="of the stream after the first and last block, and the largest anywhere in depth; growth: p of "
        "RMS ∝ (blocks passed)^p with the regression's interval; kurtosis is 3 for normally distributed numbers",
    )
    yield by_depth(
        "stream_rms",
        "Stream RMS by depth",
        runs,
        BLOCKS_PASSED,
        lambda run: run.numbers(PROBE, "stream_rms"),
        caption="0: the embedding; what the stream is differs by scheme",
    )
    if len(runs) == 1:
        yield _sublayers(runs[0])
    if rows := [row for run in runs for row in _through_training(run)]:
        yield Table(
            "through_training",
            "Through training",
            (
                Column("run", "run"),
                Column("step", "step", kind="count"),
                Column("first_block_rms", "first", "RMS", "number"),
                Column("last_block_rms", "last", "RMS", "number"),
                Column("growth", "growth", "×", "number"),
                Column("parameter_gradient_ratio", "∇ param", "max/min", "number"),
                Column("activation_gradient_ratio", "∇ act.", "max/min", "number"),
            ),
            tuple(rows),
            "the first, middle and last observation during training, of observe.probe_sequences sequences",
        )


def _row(run: ProbedRun) -> Row:
    stream = run.numbers(PROBE, "stream_rms")
    growth = run.summary(PROBE).get("growth_exponent") or {}
    return {
        "first_block_rms": stream[1] if len(stream) > 1 else None,
        "last_block_rms": stream[-1] if stream else None,
        "growth_exponent": _with_interval(growth),
        "largest_abs": _largest(run, "stream_max_abs"),
        "largest_kurtosis": _largest(run, "stream_kurtosis"),
    }


def _with_interval(growth: Mapping[str, Any]) -> Cell:
    estimate, low, high = (number(growth, key) for key in ("estimate", "low", "high"))
    if estimate is None or low is None or high is None:
        return Cell(estimate)
    return Cell(estimate, text=f"{estimate:.2f} [{low:.2f}, {high:.2f}]")


def _largest(run: ProbedRun, array: str) -> float | None:
    return max((value for value in run.numbers(PROBE, array) if value is not None), default=None)


def _sublayers(run: ProbedRun) -> Table:
    """Every sublayer of the only run."""
    columns = {
        "input_rms": Column("input_rms", "input", "RMS", "number"),
        "output_rms": Column("output_rms", "output", "RMS", "number"),
        "update_share": Column("update_share", "output", "over stream", "number"),
        "output_max_abs": Column("output_max_abs", "output", "largest |x|", "number"),
        "output_kurtosis": Column("output_kurtosis", "output", "kurtosis", "number"),
    }
    found = {key: run.numbers(PROBE, key) for key in columns}
    return Table(
        "sublayer_magnitudes",
        "By sublayer",
        (Column("sublayer", "sublayer", kind="count"), Column("kind", "kind"), *columns.values()),
        tuple(
            {
                "sublayer": index,
                "kind": ("attention", "feed-forward")[index % 2],
                **{key: values[index] for key, values in found.items() if index < len(values)},
            }
            for index in range(len(found["input_rms"]))
        ),
        "input: what the sublayer's norm is given",
    )


def _through_training(run: ProbedRun) -> Iterator[Row]:
    by_step: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in run.observations:
        if row.get("observer") in (PROBE, "gradients") and isinstance(row.get("step"), int):
            by_step.setdefault(row["step"], {})[row["observer"]] = row.get("summary") or {}
    steps = sorted(by_step)
    for step in dict.fromkeys((steps[0], steps[(len(steps) - 1) // 2], steps[-1])) if steps else ():
        stream = _listed(by_step[step].get(PROBE), "stream_rms")[1:]
        gradients = by_step[step].get("gradients")
        first, last = (stream[0], stream[-1]) if stream else (None, None)
        yield {
            "run": run.label,
            "step": step,
            "first_block_rms": first,
            "last_block_rms": last,
            "growth": last / first if first and last is not None else None,
            "parameter_gradient_ratio": _ratio(_listed(gradients, "parameter_grad_norm")),
            "activation_gradient_ratio": _ratio(_listed(gradients, "activation_grad_norm")),
        }


def _listed(summary: Mapping[str, Any] | None, key: str) -> list[float]:
    """The numbers of an observation, none where one of them is missing."""
    found = (summary or {}).get(key)
    whole = isinstance(found, list) and all(isinstance(value, (int, float)) for value in found)
    return list(found) if whole and found else []


def _ratio(norms: Sequence[float]) -> float | None:
    return max(norms) / min(norms) if norms and min(norms) > 0 else None
