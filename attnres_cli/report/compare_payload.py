"""What `attnres compare --json` says beside its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun, Points
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.demands import Demands
from attnres_cli.report.figures import figures
from attnres_cli.report.origins import tuned_overlay
from attnres_cli.report.paired_verdicts import PairedVerdict
from attnres_cli.report.verdicts import Verdict
from attnres_cli.runs.fairness import Difference


def payload(
    comparison: Comparison,
    judged: Sequence[Verdict | PairedVerdict],
    demands: Demands | None,
    loss_curves: tuple[str, Sequence[Points]],
) -> dict[str, Any]:
    """Everything at full precision, beside the tables. loss_curves: which loss, and its points per arm."""
    kind, curves = loss_curves
    known = figures(comparison)
    return {
        "baseline": comparison.baseline.label,
        "paired_by_seed": comparison.by_seed,
        "arms": [_arm(comparison, arm, known[arm.label]) for arm in comparison.arms],
        "runs": _runs(comparison),
        "differences": [_difference(comparison, difference) for difference in comparison.differences],
        "announcements": list(comparison.announcements),
        "studies": [{"name": mark.name, "hash": mark.hash} for mark in comparison.origins.marks],
        "verdicts": [verdict.to_dict() for verdict in judged],
        "equal_tokens": comparison.equal_tokens,
        "curves": {
            "loss": kind,
            "runs": {
                arm.label: {"tokens": [x for x, _ in points], "loss_nats": [y for _, y in points]}
                for arm, points in zip(comparison.arms, curves, strict=True)
            },
        },
        "bench": comparison.bench.result if comparison.bench else None,
        "bench_arms": comparison.bench.arm_names if comparison.bench else None,
        **(demands or Demands()).to_dict(),
    }


def _arm(comparison: Comparison, arm: Arm, metrics: Mapping[str, float | None]) -> dict[str, Any]:
    return {
        "label": arm.label,
        "scheme": arm.scheme,
        "residual": arm.lead.resolved.get("residual"),
        "runs": [run.label for run in arm.runs],
        "tuning_runs": comparison.origins.tuning_runs(arm),
        "tuned_overlay": tuned_overlay(arm),
        "metrics": metrics,
    }


def _runs(comparison: Comparison) -> list[dict[str, Any]]:
    """Every run with its arm, and why it is in no pair if it is in none."""
    alone: dict[str, list[str]] = {}
    for pairing in comparison.pairings.values() if comparison.by_seed else ():
        for run, why in pairing.alone:
            alone.setdefault(run.label, []).append(why)
    rows = [
        {**_run(run), "arm": arm.label, "set_aside": None, "without_partner": alone.get(run.label)}
        for arm in comparison.arms
        for run in arm.runs
    ]
    return rows + [
        {**_run(each.run), "arm": each.arm, "set_aside": each.reason, "without_partner": None}
        for each in comparison.set_aside
    ]


def _run(run: ComparedRun) -> dict[str, Any]:
    return {
        "label": run.label,
        "name": run.name,
        "path": str(run.path),
        "scheme": run.scheme,
        "status": run.status,
        "step": run.step,
        "steps": run.steps,
        "seed": run.facts["train.seed"],
        "end_loss_nats": run.end_loss,
        "problems": list(run.problems),
    }


def _difference(comparison: Comparison, difference: Difference) -> dict[str, Any]:
    labels = [run.label for run in comparison.readable]
    return {
        "key": difference.key,
        "rule": difference.rule.value,
        "values": dict(zip(labels, difference.values, strict=True)),
    }
