"""`attnres compare A B [C …]` or `attnres compare GROUP`: what differs, what may be said, and the tables behind it."""

from __future__ import annotations

import math
import os
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
from attnres_cli.cli.output import check_writable, chosen_format, print_document, terminal, write_document
from attnres_cli.runs.lookup import run_names

if TYPE_CHECKING:
    from attnres_cli.analysis.conditions import Condition
    from attnres_cli.errors import UserError
    from attnres_cli.report.demands import Demands

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
    picture: Annotated[
        list[str] | None,
        typer.Option(
            "--picture", metavar="NAME", help="Below the tables, draw this too (stream-rms, 'depth-*'); repeatable."
        ),
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
    from attnres_cli.cli.comparing import comparison_of, with_bench
    from attnres_cli.report.compare import compare_document
    from attnres_cli.report.demands import Demands
    from attnres_cli.report.figures import check_names
    from attnres_cli.report.with_pictures import with_pictures

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
    comparison = comparison_of(runs, baseline, runs_dir)
    check_names(conditions, comparison)
    timed = table is None or not TIMED_TABLES.isdisjoint(table) or _are_timed(conditions)
    comparison = with_bench(comparison, runs_dir, rebench=rebench) if timed and not no_bench else comparison
    demands = Demands.judge(comparison, conditions, equivalent_within)
    document = compare_document(comparison, demands)
    if table:
        document = document.only_tables(table)
    if picture:
        width, colour = terminal() if chosen == "table" and output is None else (None, False)
        document = with_pictures(document, comparison, picture, width_columns=width, colour=colour)
    if output is None:
        print_document(document, chosen)
    else:
        write_document(document, chosen, output)
    _leave(demands, is_shown=output is None and not table and chosen in ("table", "markdown"))


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
