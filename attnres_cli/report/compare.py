"""The document of `attnres compare`: which runs, what differs, what may be said, the tables, the curves."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from attnres_cli.discovery import load, names
from attnres_cli.report.arms import Arm
from attnres_cli.report.chart import Curve, line_chart
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.document import Block, Chart, Document, Notice
from attnres_cli.report.table import Column, Table
from attnres_cli.report.verdicts import Verdict, verdicts
from attnres_cli.report.visible import visible
from attnres_cli.runs.fairness import Difference
from attnres_cli.runs.metrics import number

# The verdict stands after the configuration (which comes first) and before the numbers.
VERDICT_ORDER = 20
CHART_ORDER = 40
# Fewer evaluations than this draw no curve; the training loss is drawn then.
FEWEST_EVALUATIONS = 4
MOST_CURVES = 26


def compare_document(comparison: Comparison) -> Document:
    """Every table that takes part in comparisons, the verdicts and the loss chart, and the data behind them for
    JSON."""
    judged = verdicts(comparison)
    ordered: list[tuple[float, Block]] = [(VERDICT_ORDER, _verdict_notice(judged)), (CHART_ORDER, _chart(comparison))]
    for module in comparison_tables():
        table = module.build(comparison)
        if table is not None:
            ordered.append((module.COMPARISON_ORDER, table))
    ordered.sort(key=lambda pair: pair[0])
    return Document(
        "compare", (_runs_table(comparison), *(block for _, block in ordered)), _payload(comparison, judged)
    )


def comparison_tables() -> list[ModuleType]:
    """The files of report/tables/ that take part in a comparison, in their order."""
    modules = [load("report.tables", name, what="table") for name in names("report.tables")]
    return sorted(
        (module for module in modules if hasattr(module, "COMPARISON_ORDER")),
        key=lambda module: module.COMPARISON_ORDER,
    )


def _runs_table(comparison: Comparison) -> Table:
    """Which letter is which run, and what is wrong with it."""
    return Table(
        key="runs",
        title=f"Comparing {len(comparison.arms)} runs; the baseline is {comparison.baseline.label}",
        columns=(Column("run", "run"), Column("status", "status"), Column("name", "name")),
        rows=tuple({"run": arm.title, "status": arm.status, "name": arm.name} for arm in comparison.arms),
        remarks=tuple(f"{arm.label}: {sentence}" for arm in comparison.arms for sentence in _doubts(arm)),
    )


def _doubts(arm: Arm) -> list[str]:
    """How far an unfinished run got, and everything about a run that could not be read."""
    return [*([] if arm.is_finished else [arm.where_it_stands()]), *arm.problems]


def _verdict_notice(judged: list[Verdict]) -> Notice:
    """The findings, or in their place what forbids one."""
    refused = [verdict for verdict in judged if verdict.outcome == "refused"]
    if refused and len(refused) == len(judged):
        title = "NO VERDICT"
    elif refused:
        title = f"Verdict (refused for {', '.join(verdict.label for verdict in refused)})"
    else:
        title = "Verdict"
    return Notice(title, tuple(verdict.sentence for verdict in judged), "warning" if refused else "result")


def _chart(comparison: Comparison) -> Chart:
    kind, curves = loss_curves(comparison)
    drawn = [
        Curve(arm.label, visible(arm.title), points)
        for arm, points in zip(comparison.arms, curves, strict=True)
        if len(arm.label) == 1
    ]
    lines = line_chart(drawn[:MOST_CURVES])
    if len(comparison.arms) > MOST_CURVES:
        lines += (f"the first {MOST_CURVES} of {len(comparison.arms)} runs are drawn; --json has all curves",)
    return Chart(f"{kind.capitalize()} loss by training tokens", lines, "".join(curve.marker for curve in drawn))


def loss_curves(comparison: Comparison) -> tuple[str, list[tuple[tuple[float, float], ...]]]:
    """("validation" or "training", per run its (tokens, loss) points): validation where every finished run was
    evaluated often enough to draw a curve."""
    finished = [arm for arm in comparison.arms if arm.is_finished] or comparison.arms
    if all(len(_points(arm.evaluations)) >= FEWEST_EVALUATIONS for arm in finished):
        return "validation", [_points(arm.evaluations) for arm in comparison.arms]
    return "training", [_points(arm.train_rows) for arm in comparison.arms]


def _points(rows: Any) -> tuple[tuple[float, float], ...]:
    pairs = ((number(row, "tokens"), number(row, "loss")) for row in rows)
    return tuple((tokens, loss) for tokens, loss in pairs if tokens is not None and loss is not None)


def _payload(comparison: Comparison, judged: list[Verdict]) -> dict[str, Any]:
    kind, curves = loss_curves(comparison)
    return {
        "baseline": comparison.baseline.label,
        "runs": [_run(arm) for arm in comparison.arms],
        "differences": [_difference(comparison, difference) for difference in comparison.differences],
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
    }


def _run(arm: Arm) -> dict[str, Any]:
    return {
        "label": arm.label,
        "name": arm.name,
        "path": str(arm.path),
        "scheme": arm.scheme,
        "status": arm.status,
        "step": arm.step,
        "steps": arm.steps,
        "seed": arm.facts["train.seed"],
        "problems": list(arm.problems),
    }


def _difference(comparison: Comparison, difference: Difference) -> dict[str, Any]:
    labels = [arm.label for arm in comparison.readable]
    return {
        "key": difference.key,
        "rule": difference.rule.value,
        "values": dict(zip(labels, difference.values, strict=True)),
    }
