"""The document of `attnres compare`: which runs, what differs, what may be said, the tables, the curves."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from attnres_cli.discovery import load, names
from attnres_cli.report.chart import Curve, line_chart
from attnres_cli.report.compare_payload import payload
from attnres_cli.report.compared_run import Points, letter
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.demands import Demands
from attnres_cli.report.document import Block, Chart, Document, Notice
from attnres_cli.report.paired_verdicts import PairedVerdict, paired_verdicts
from attnres_cli.report.phrases import listed
from attnres_cli.report.same_losses import in_words
from attnres_cli.report.strip_chart import Strip, strip_chart
from attnres_cli.report.table import Cell, Column, Table
from attnres_cli.report.verdicts import Verdict, verdicts
from attnres_cli.report.visible import visible

# The verdict stands after the configuration (which comes first) and before the numbers.
VERDICT_ORDER = 20
STRIP_ORDER = 22
DEMANDS_ORDER = 25
CHART_ORDER = 40
# Fewer evaluations than this draw no curve; the training loss is drawn then.
FEWEST_EVALUATIONS = 4
MOST_CURVES = 26
# Arms of which nothing is shown that get a sentence each.
MOST_ALIKE = 4


def compare_document(comparison: Comparison, demands: Demands | None = None) -> Document:
    """Every table that takes part in comparisons, the verdicts, the charts, and the data behind them for JSON.

    demands: what the user asked the comparison to hold, already judged.
    """
    ordered: list[tuple[float, Block]] = [(CHART_ORDER, _chart(comparison))]
    judged: Sequence[Verdict | PairedVerdict]
    if comparison.by_seed:
        judged = paired = paired_verdicts(comparison)
        ordered += [(VERDICT_ORDER, _paired_notice(comparison, paired)), (STRIP_ORDER, _strips(comparison, paired))]
    else:
        judged = single = verdicts(comparison)
        ordered.append((VERDICT_ORDER, _verdict_notice(comparison, single)))
    if demands is not None and (notice := demands.notice()):
        ordered.append((DEMANDS_ORDER, notice))
    for module in comparison_tables():
        table = module.build(comparison)
        if table is not None:
            ordered.append((module.COMPARISON_ORDER, table))
    ordered.sort(key=lambda pair: pair[0])
    first = _arms_table(comparison) if comparison.by_seed else _runs_table(comparison)
    known = payload(comparison, judged, demands, loss_curves(comparison))
    return Document("compare", (first, *(block for _, block in ordered)), known)


def comparison_tables() -> list[ModuleType]:
    """The files of report/tables/ that take part in a comparison, in their order."""
    modules = [load("report.tables", name, what="table") for name in names("report.tables")]
    return sorted(
        (module for module in modules if hasattr(module, "COMPARISON_ORDER")),
        key=lambda module: module.COMPARISON_ORDER,
    )


# ------------------------------------------------------------------ which runs


def _runs_table(comparison: Comparison) -> Table:
    """Which letter is which run, and what is wrong with it."""
    return Table(
        key="runs",
        title=f"Comparing {len(comparison.arms)} runs; the baseline is {comparison.baseline.label}",
        columns=(Column("run", "run"), Column("status", "status"), Column("name", "name")),
        rows=tuple({"run": run.title, "status": run.status, "name": run.name} for run in comparison.runs),
        remarks=(
            *(f"{run.label}: {sentence}" for run in comparison.runs for sentence in run.doubts()),
            *_same_models(comparison),
        ),
    )


def _arms_table(comparison: Comparison) -> Table:
    """The arms with their runs and seeds, and every run that is in no pair, by name."""
    count = len(comparison.runs) + len(comparison.set_aside)
    return Table(
        key="runs",
        title=f"Comparing {len(comparison.arms)} arms of {count} runs, paired by seed; the baseline is "
        f"{comparison.baseline.label}",
        columns=(
            Column("arm", "arm"),
            Column("runs", "runs", kind="count"),
            Column("ended", "ended", kind="count"),
            Column("pairs", "pairs", kind="count"),
            Column("seeds", "seeds"),
        ),
        rows=tuple(
            {
                "arm": arm.title,
                "runs": len(arm.runs),
                "ended": sum(run.end_loss is not None for run in arm.runs),
                "pairs": Cell(None, text="base")
                if arm is comparison.baseline
                else len(comparison.pairings[arm.label].pairs),
                "seeds": seeds_in_words([run.seed for run in arm.runs if run.seed is not None]),
            }
            for arm in comparison.arms
        ),
        remarks=tuple(dict.fromkeys(_arm_remarks(comparison))),
    )


def _arm_remarks(comparison: Comparison) -> list[str]:
    """What differs inside the arms, which runs were set aside for what, which have no partner, what is broken."""
    said = list(comparison.announcements)
    for arm, reason in dict.fromkeys((each.arm, each.reason) for each in comparison.set_aside):
        runs = [each.run.label for each in comparison.set_aside if (each.arm, each.reason) == (arm, reason)]
        said.append(f"set aside: {listed(runs)}: {reason}")
    for pairing in comparison.pairings.values():
        said += [f"without a partner: {run.label}: {why}" for run, why in pairing.alone]
    everyone = [*comparison.runs, *(each.run for each in comparison.set_aside)]
    said += [f"{run.label}: {sentence}" for run in everyone for sentence in run.doubts()]
    return said + _same_models(comparison)


def _same_models(comparison: Comparison) -> list[str]:
    return [in_words(*each) for each in comparison.same_losses]


def seeds_in_words(seeds: Sequence[int]) -> str:
    """ "0 to 4, 7"."""
    parts: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(
        f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts
    )  # fmt: skip


# ------------------------------------------------------------------ what may be said


def _verdict_notice(comparison: Comparison, judged: Sequence[Verdict]) -> Notice:
    """The findings, or in their place what forbids one."""
    refused = [verdict.label for verdict in judged if verdict.outcome == "refused"]
    return _notice(comparison, refused, [verdict.sentence for verdict in judged])


def _paired_notice(comparison: Comparison, judged: Sequence[PairedVerdict]) -> Notice:
    """A sentence for every arm; of many arms those that nothing is shown of share one."""
    refused = [verdict.arm for verdict in judged if not verdict.has_verdict]
    alike = [
        verdict for verdict in judged if verdict.outcome == "not shown" and not (verdict.caveats or verdict.exploratory)
    ]
    if len(alike) <= MOST_ALIKE:
        return _notice(comparison, refused, [verdict.sentence for verdict in judged])
    sentences = [verdict.sentence for verdict in judged if verdict not in alike]
    names = ", ".join(verdict.arm for verdict in alike)
    shared = f"~ no difference from {alike[0].baseline} is shown for {names}; see below."
    return _notice(comparison, refused, [*sentences, shared])


def _notice(comparison: Comparison, refused: Sequence[str], sentences: Sequence[str]) -> Notice:
    """The sentences under what they come to, and the plan that their runs belong to."""
    title = "Verdict"
    if refused:
        title = "NO VERDICT" if len(refused) == len(sentences) else f"Verdict (refused for {', '.join(refused)})"
    titles = comparison.origins.titles
    plan = [f"Runs of {titles}."] if titles and sentences else []
    return Notice(title, (*sentences, *plan), "warning" if refused else "result")


def _strips(comparison: Comparison, judged: Sequence[PairedVerdict]) -> Chart:
    """Each pair as a dot."""
    strips = []
    for verdict in judged:
        pairs = comparison.pairings[verdict.arm].pairs
        values = tuple(ours - theirs for ours, theirs in (pair.losses for pair in pairs))
        if values:
            found = verdict.difference
            mean = values[0] if found is None else found.mean
            limits = (None, None) if found is None else (found.low, found.high)
            strips.append(Strip(visible(verdict.arm), values, mean, *limits))
    lines = strip_chart(strips)
    if strips:
        lines += ("• a pair (a digit: so many), ├─┼─┤ their mean with its 95 % interval",)
        lines += (f"left of 0: lower loss than {visible(comparison.baseline.label)}",)
    return Chart("Loss difference of every pair, nats", lines)


# ------------------------------------------------------------------ curves


def _chart(comparison: Comparison) -> Chart:
    kind, curves = loss_curves(comparison)
    drawn = []
    for index, (arm, points) in enumerate(zip(comparison.arms, curves, strict=True)):
        marker = letter(index)
        if len(marker) == 1:
            drawn.append(Curve(marker, visible(f"{marker} {arm.title}" if comparison.by_seed else arm.title), points))
    lines = line_chart(drawn[:MOST_CURVES])
    if len(comparison.arms) > MOST_CURVES:
        what = "arms" if comparison.by_seed else "runs"
        lines += (f"the first {MOST_CURVES} of {len(comparison.arms)} {what} are drawn; --json has all curves",)
    title = f"{kind.capitalize()} loss by training tokens"
    if comparison.by_seed:
        title += ", mean over the runs of an arm"
    return Chart(title, lines, "".join(curve.marker for curve in drawn))


def loss_curves(comparison: Comparison) -> tuple[str, list[Points]]:
    """("validation" or "training", per arm its (tokens, loss) points): validation where every finished run was
    evaluated often enough to draw a curve."""
    finished = [run for run in comparison.runs if run.is_finished] or comparison.runs
    often = all(len(run.points("validation")) >= FEWEST_EVALUATIONS for run in finished)
    kind = "validation" if often else "training"
    return kind, [arm.curve(kind) for arm in comparison.arms]
