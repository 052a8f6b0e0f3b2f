"""Cost: time and memory of a training step, from arms that took turns in one process; clocks of the trainings only as
a remark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.report.comparison import Comparison, SideBySide
from attnres_cli.report.numbers import duration
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.runs.metrics import number

COMPARISON_ORDER = 70


def build(comparison: Comparison) -> Table:
    """Ratios are to the baseline; the runs of an arm cost the same, and one of them is timed. A time ratio whose
    interval holds 1 is shown as "~"."""
    return Table(
        key="cost",
        title="Cost of a training step",
        columns=(
            Column("run", comparison.noun),
            Column("tokens_per_second", "tokens/s", "", "count"),
            Column("tokens_per_second_ratio", "ratio", "×", "number", decimals=3),
            Column("step_seconds", "step", "ms", "number", scale=1000, digits=4),
            Column("step_ratio", "ratio", "×", "number", decimals=3),
            Column("peak_memory_bytes", "peak mem.", kind="bytes"),
            Column("peak_memory_ratio", "ratio", "×", "number", decimals=3),
        ),
        rows=tuple(_row(comparison, arm) for arm in comparison.arms),
        caption=_caption(comparison),
        remarks=(*_bench_remarks(comparison), *_training_clocks(comparison)),
    )


def _row(comparison: Comparison, arm: Arm) -> Row:
    timed = comparison.bench.arm(arm.label) if comparison.bench else None
    base = comparison.bench.arm(comparison.baseline.label) if comparison.bench else None
    is_baseline = arm is comparison.baseline
    seconds = number(timed["derived"], "median_wall_seconds") if timed else None
    tokens_per_step = number(arm.facts.values, "train.tokens_per_step")
    memory, base_memory = peak_bytes(timed), peak_bytes(base)
    interval = timed["derived"]["wall_ratio"] if timed and base else None
    memory_ratio = memory / base_memory if memory and base_memory else None
    return {
        "run": arm.title,
        "tokens_per_second": arm.cell(tokens_per_step / seconds if tokens_per_step and seconds else None),
        "tokens_per_second_ratio": _ratio(arm, interval, is_baseline, inverse=True),
        "step_seconds": arm.cell(seconds),
        "step_ratio": _ratio(arm, interval, is_baseline),
        "peak_memory_bytes": arm.cell(memory),
        "peak_memory_ratio": Cell(None, text="base") if is_baseline else arm.cell(memory_ratio),
    }


def peak_bytes(timed: Mapping[str, Any] | None) -> int | None:
    """Weights, optimiser state and what one step holds on top of them; None where it was not measured."""
    if timed is None or timed.get("resident_bytes") is None or timed.get("step_peak_bytes") is None:
        return None
    return int(timed["resident_bytes"] + timed["step_peak_bytes"])


def _ratio(arm: Arm, interval: Mapping[str, float] | None, is_baseline: bool, *, inverse: bool = False) -> Cell:
    """interval: median, low and high of step time over the baseline's."""
    if is_baseline:
        return Cell(None, text="base")
    if interval is None:
        return arm.cell(None)
    value = 1 / interval["median"] if inverse else interval["median"]
    not_shown = interval["low"] <= 1 <= interval["high"]
    return Cell(value, text="~" if not_shown else None)


def _caption(comparison: Comparison) -> str:
    if comparison.bench is None:
        return f"not measured: {comparison.bench_note or 'no bench'}"
    result = comparison.bench.result
    setting = result["setting"]
    rounds = len(result["arms"][0]["wall_seconds"])
    device = str(setting.get("device"))
    machine = f"{device}, {setting.get('threads')} threads" if device == "cpu" else device
    when = "measured now" if comparison.bench.measured_now else "measured earlier (--rebench measures again)"
    how = f"arms took turns in one process, median of {rounds} rounds after {result['warmup']} of warm-up"
    return f"{how}; {machine}; {when}"


def _bench_remarks(comparison: Comparison) -> list[str]:
    if comparison.bench is None:
        return []
    remarks = []
    for arm in comparison.others:
        timed = comparison.bench.arm(arm.label)
        if timed is None:
            remarks.append(f"{arm.label}: not timed, its preset cannot be read")
            continue
        ratio = timed["derived"]["wall_ratio"]
        limits = f"{ratio['low']:.3f} to {ratio['high']:.3f}"
        doubt = "; ~: no difference is shown" if ratio["low"] <= 1 <= ratio["high"] else ""
        interval = f"{ratio['coverage'] * 100:.0f} % interval{doubt}"
        remarks.append(f"{arm.label}: step time {limits} × {comparison.baseline.label} ({interval})")
    said = (*comparison.bench.result["warnings"], *comparison.bench.result["notes"])
    return remarks + [_with_letters(str(text), comparison.bench) for text in said]


def _with_letters(text: str, bench: SideBySide) -> str:
    """A sentence of the bench with the letters of the runs in place of the bench's own names."""
    for name in set(bench.arm_names.values()):
        labels = [label for label, arm_name in bench.arm_names.items() if arm_name == name]
        text = text.replace(name, " and ".join(labels))
    return text


def _training_clocks(comparison: Comparison) -> list[str]:
    """What the trainings' own clocks said; they ran at different times beside different neighbours."""
    clocks = []
    for arm in comparison.arms:
        last = [run.train_rows[-1] for run in arm.runs if run.train_rows]
        both = [(number(row, "tokens"), number(row, "train_seconds")) for row in last]
        known = [(tokens, seconds) for tokens, seconds in both if tokens and seconds]
        if known:
            tokens, seconds = sum(each[0] for each in known), sum(each[1] for each in known)
            devices = {str(run.facts["manifest.environment.device"] or "") for run in arm.runs} - {""}
            on = f" on {' and '.join(sorted(devices))}" if devices else ""
            clocks.append(f"{arm.label} {tokens / seconds:,.0f} tokens/s over {duration(seconds)}{on}")
    return [f"clocks of the separate trainings, not comparable: {'; '.join(clocks)}"] if clocks else []
