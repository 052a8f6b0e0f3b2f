"""Layer magnitudes through depth: the stream after the first, middle and last transformer block, and how evenly
gradients fall."""

from __future__ import annotations

from collections.abc import Sequence

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.table import Column, Row, Table

COMPARISON_ORDER = 50
OBSERVERS = ("magnitudes", "gradients")


def build(comparison: Comparison) -> Table | None:
    """RMS of the scheme's stream after a block (index 0 of the record is before the first one and is left out), and
    the largest over the smallest gradient norm of a block, by parameters and by activations. None when no run
    observed either."""
    if not any(arm.observing(observer) for arm in comparison.arms for observer in OBSERVERS):
        return None
    return Table(
        key="magnitudes",
        title="Layer magnitudes",
        columns=(
            Column("run", comparison.noun),
            Column("first_block_rms", "first", "RMS", "number"),
            Column("middle_block_rms", "middle", "RMS", "number"),
            Column("last_block_rms", "last", "RMS", "number"),
            Column("growth", "growth", "×", "number"),
            Column("largest_rms", "peak", "RMS", "number"),
            Column("largest_at_block", "at", "block", "count"),
            Column("parameter_gradient_ratio", "∇ param", "max/min", "number"),
            Column("activation_gradient_ratio", "∇ act.", "max/min", "number"),
        ),
        rows=tuple(_row(arm) for arm in comparison.arms),
        caption=("mean over the runs of an arm; " if comparison.by_seed else "")
        + "stream after the first, middle and last transformer block (what the stream is differs by scheme); "
        "growth: last / first; ∇: largest over smallest gradient norm of a block, of its parameters and of the stream",
        remarks=tuple(remark for arm in comparison.arms for remark in _remarks(arm)),
    )


def _row(arm: Arm) -> Row:
    seen = arm.observation("magnitudes", "stream_rms")["stream_rms"][1:]
    blocks = len(seen)
    first, last = (seen[0], seen[-1]) if seen else (None, None)
    largest = max((value for value in seen if value is not None), default=None)
    gradients = arm.observation("gradients", "parameter_grad_norm", "activation_grad_norm")
    return {
        "run": arm.title,
        "first_block_rms": arm.cell(first),
        "middle_block_rms": arm.cell(seen[middle_block(blocks) - 1] if seen else None),
        "last_block_rms": arm.cell(last),
        "growth": arm.cell(last / first if last is not None and first else None),
        "largest_rms": arm.cell(largest),
        "largest_at_block": arm.cell(seen.index(largest) + 1 if largest is not None else None),
        "parameter_gradient_ratio": arm.cell(_spread(gradients["parameter_grad_norm"])),
        "activation_gradient_ratio": arm.cell(_spread(gradients["activation_grad_norm"])),
    }


def middle_block(blocks: int) -> int:
    """The number (from 1) of the middle one of `blocks`; the earlier one where there are two."""
    return (blocks + 1) // 2


def _spread(norms: Sequence[float | None]) -> float | None:
    """Largest over smallest; None when a norm is missing or zero."""
    known = [norm for norm in norms if norm is not None]
    if not known or len(known) < len(norms) or min(known) <= 0:
        return None
    return max(known) / min(known)


def _remarks(arm: Arm) -> list[str]:
    """Which step was observed where it was not the last, and how far the norm's epsilon is from mattering."""
    remarks = [remark] if (remark := arm.missing_remark(*OBSERVERS)) else []
    early = sorted({step for run in arm.counted for step in _early_steps(run)})
    if early:
        remarks.append(f"{arm.label}: observed at step {' and '.join(map(str, early))}")
    epsilon = arm.facts["model.norm_epsilon"]
    inputs = [value for value in arm.observation("magnitudes", "input_rms")["input_rms"] if value]
    if isinstance(epsilon, (int, float)) and inputs:
        share = epsilon / min(inputs) ** 2
        remarks.append(f"{arm.label}: norm epsilon is {share:.1e} of the smallest mean square that a norm meets")
    return remarks


def _early_steps(run: ComparedRun) -> set[int]:
    """The steps at which a run was observed, where they are not all its last one."""
    steps = {run.observations[name]["step"] for name in OBSERVERS if name in run.observations}
    return steps if steps and (not run.is_finished or steps != {run.steps}) else set()
