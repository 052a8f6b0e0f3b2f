"""`attnres compare A B [C …]` or `attnres compare GROUP`: what differs, what may be said, and the tables behind it."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    FormatOption,
    JsonOption,
    OutputOption,
    RunsRootOption,
    complete_run,
)
from attnres_cli.cli.output import check_writable, chosen_format, print_document, write_document
from attnres_cli.runs.lookup import name_below, run_names

if TYPE_CHECKING:
    from attnres_cli.analysis.conditions import Condition
    from attnres_cli.errors import UserError
    from attnres_cli.report.compared_run import ComparedRun
    from attnres_cli.report.comparison import Comparison
    from attnres_cli.report.demands import Demands
    from attnres_cli.report.references import Reference

app = typer.Typer()

# Tables and figures that need the runs timed side by side.
TIMED_TABLES = {"cost", "equal_budgets"}
TIMED_METRICS = {"step_ratio", "step_seconds", "tokens_per_second", "peak_bytes", "peak_ratio", "delta_seconds"}


def complete_runs_and_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of runs and of folders of runs."""
    root = Path(ctx.params.get("runs_dir") or os.environ.get("ATTNRES_RUNS") or DEFAULT_RUNS_DIR)
    groups = {name.partition("/")[0] for name in run_names(root) if "/" in name}
    return [*sorted(name for name in groups if name.startswith(incomplete)), *complete_run(ctx, incomplete)]


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|GROUP",
            help="Names of runs, beginnings or ends that only one has, paths; folders of runs; patterns ('group/*').",
            autocompletion=complete_runs_and_groups,
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="RUN|ARM",
            help="Compare with this run, or with this arm of a group; without it with the first one.",
            autocompletion=complete_run,
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="CONDITION",
            help="Exit with 6 where it holds, such as 'ARM.loss > baseline.loss + 0.01'; repeatable.",
        ),
    ] = None,
    equivalent_within: Annotated[
        float | None,
        typer.Option(
            "--equivalent-within",
            metavar="NATS",
            help="Exit with 6 unless every arm's loss is shown to lie this close to the baseline's.",
        ),
    ] = None,
    format_name: FormatOption = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME", help="Only this table (loss, cost, …); repeatable."),
    ] = None,
    output: OutputOption = None,
    json: JsonOption = False,
    no_bench: Annotated[
        bool, typer.Option("--no-bench", help="Do not time the runs side by side: no cost figures.")
    ] = False,
    rebench: Annotated[
        bool, typer.Option("--rebench", help="Time the runs again even when a stored bench fits.")
    ] = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
) -> None:
    """Compare runs with a baseline: configuration, loss, layer magnitudes, depth weights, cost.

    The runs of a group are sorted into arms by their residual scheme and paired by seed: the verdict is the paired
    difference of the losses with its interval, from three pairs on. Single runs get letters, and a verdict that says
    that one seed shows no spread. The first run or arm is the baseline. A verdict is refused where the runs differ in
    more than their residual scheme; the tables are printed all the same. The cost table comes from a short bench of
    the runs' training steps in turn, which is measured once and kept under .bench/ beside the runs.
    """
    from attnres_cli.analysis.conditions import parse_condition
    from attnres_cli.report.compare import compare_document
    from attnres_cli.report.demands import Demands
    from attnres_cli.report.figures import check_names

    chosen = chosen_format(format_name, output, json)
    if output is not None:
        check_writable(output)
    if no_bench and rebench:
        raise _usage("--no-bench and --rebench exclude each other.", where="--rebench")
    if equivalent_within is not None and not (math.isfinite(equivalent_within) and equivalent_within > 0):
        raise _usage(
            f"{equivalent_within} is no margin.", where="--equivalent-within", expected="nats, a number above zero"
        )
    conditions = [parse_condition(text) for text in fail_on or ()]
    comparison = _comparison(runs, baseline, runs_dir)
    check_names(conditions, comparison)
    timed = table is None or not TIMED_TABLES.isdisjoint(table) or _are_timed(conditions)
    comparison = _with_bench(comparison, runs_dir, rebench=rebench) if timed and not no_bench else comparison
    demands = Demands.judge(comparison, conditions, equivalent_within)
    document = compare_document(comparison, demands)
    if table:
        document = document.only_tables(table)
    if output is None:
        print_document(document, chosen)
    else:
        write_document(document, chosen, output)
    _leave(demands, is_shown=output is None and not table and chosen in ("table", "markdown"))


def _comparison(refs: list[str], baseline: str | None, root: Path) -> Comparison:
    """The runs in the arms they belong to, untimed: by scheme where a group was named or seeds can be paired, else by
    letter."""
    from attnres_cli.report.compared_run import letter, read_run
    from attnres_cli.report.comparison import Comparison
    from attnres_cli.report.group_plan import read_plan
    from attnres_cli.report.grouping import group_by_arm, have_pairs
    from attnres_cli.report.origins import read_origins
    from attnres_cli.report.references import find_runs, in_order

    found = find_runs(refs, root)
    read = [read_run(each.run, label) for each, label in zip(found, _labels(found, root), strict=True)]
    order = in_order(found, read)
    found, read = [found[index] for index in order], [read[index] for index in order]
    is_group = any(each.group is not None for each in found)
    first, arm = 0, None
    if baseline is not None:
        found, read, first, arm = _with_baseline(found, read, baseline, root, is_group=is_group)
    if len(found) < 2:
        raise _usage("A comparison needs at least two runs.", hint=f"attnres runs show {refs[0]}")
    if is_group or arm is not None or have_pairs(read):
        grouping = group_by_arm(read, baseline=arm or read[first], groups=[each.group for each in found])
        if len(grouping.arms) > 1 or (grouping.arms and any(each.arm is None for each in grouping.set_aside)):
            plan = read_plan((each.run.path.parent for each in found if each.group is not None), grouping.arms)
            return replace(
                Comparison.of_groups(grouping, bench_note="--no-bench"), plan=plan, origins=read_origins(read)
            )
        if is_group:
            of_one = f"; these {len(read)} runs are all {grouping.arms[0].label}" if grouping.arms else ""
            raise _usage(f"A comparison needs at least two arms{of_one}.", hint="attnres runs ls")
    lettered = [replace(run, label=letter(index)) for index, run in enumerate(read)]
    return replace(Comparison.of_runs(lettered, first, bench_note="--no-bench"), origins=read_origins(read))


def _labels(found: list[Reference], root: Path) -> list[str]:
    """Names that tell the runs apart: of their folders, with the group's before it where one name occurs twice."""
    names = [each.run.name for each in found]
    return names if len(set(names)) == len(names) else [name_below(each.run, root) for each in found]


def _with_baseline(
    found: list[Reference], read: list[ComparedRun], baseline: str, root: Path, *, is_group: bool
) -> tuple[list[Reference], list[ComparedRun], int, str | None]:
    """The runs with the baseline among them, its place, and the arm's name where that was what was named."""
    from attnres_cli.errors import UserError, nearest_name
    from attnres_cli.report.compared_run import read_run
    from attnres_cli.report.grouping import arm_names, have_pairs
    from attnres_cli.report.references import Reference
    from attnres_cli.runs.lookup import find_run

    arms = {name for name in arm_names(read, [each.group for each in found]) if name is not None}
    if baseline in arms and (is_group or have_pairs(read)):
        return found, read, 0, baseline
    try:
        run = find_run(baseline, root)
    except UserError:
        if not is_group:
            raise
        raise UserError(
            f"There is no arm and no run '{baseline}'.",
            where="--baseline",
            expected=", ".join(sorted(arms)),
            nearest=nearest_name(baseline, arms),
        ) from None
    if run not in [each.run for each in found]:
        found, read = [Reference(run), *found], [read_run(run, name_below(run, root)), *read]
    return found, read, [each.run for each in found].index(run), None


def _with_bench(comparison: Comparison, root: Path, *, rebench: bool) -> Comparison:
    """The comparison with its bench; whatever goes wrong in the bench is a note, because the other tables do not need
    it."""
    from attnres_cli.bench.stored import bench_of_runs
    from attnres_cli.report.comparison import SideBySide
    from attnres_cli.runs.directory import RunDirectory

    def announce(expected_seconds: float | None) -> None:
        expected = "" if expected_seconds is None else f"about {max(1, round(expected_seconds))} s, "
        typer.echo(f"timing the runs' training steps in turn ({expected}once; --no-bench skips it) …", err=True)

    arms = [comparison.baseline, *comparison.others]  # the baseline first, then as given
    runs = [RunDirectory(arm.lead.path) for arm in arms]
    try:
        stored = bench_of_runs(runs, root=root, again=rebench, before_measuring=announce)
    except Exception as error:
        reason = str(error).strip().splitlines()
        note = f"the bench failed: {reason[0] if reason else type(error).__name__}"
        return replace(comparison, bench_note=note)
    names = {arm.label: name for arm, name in zip(arms, stored.arm_names, strict=True) if name is not None}
    return replace(comparison, bench=SideBySide(stored.result, names, stored.measured_now), bench_note=None)


def _are_timed(conditions: list[Condition]) -> bool:
    return any(name[-1] in TIMED_METRICS for condition in conditions for name in condition.names)


def _leave(demands: Demands, *, is_shown: bool) -> None:
    """End with THRESHOLD where a demand is not met, and with an error where one could not be judged. is_shown: whether
    the demands stand on stdout for people; otherwise they are said on stderr."""
    from attnres_cli.errors import ExitCode, UserError

    if not demands.are_met and not is_shown:
        for said in demands.unmet:
            typer.echo(said, err=True)
    if demands.unknown:
        raise UserError(demands.unknown, exit_code=ExitCode.INPUT)
    if not demands.are_met:
        raise typer.Exit(ExitCode.THRESHOLD)


def _usage(what: str, **details: str | None) -> UserError:
    from attnres_cli.errors import ExitCode, UserError

    return UserError(what, exit_code=ExitCode.USAGE, **details)
