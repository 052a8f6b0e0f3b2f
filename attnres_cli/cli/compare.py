"""`attnres compare A B [C …]`: what differs, what may be said, and the tables behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    FormatOption,
    JsonOption,
    OutputOption,
    RunsArgument,
    RunsRootOption,
    complete_run,
)
from attnres_cli.cli.output import check_writable, chosen_format, print_document, write_document

if TYPE_CHECKING:
    from attnres_cli.errors import UserError
    from attnres_cli.report.arms import Arm
    from attnres_cli.report.comparison import Comparison
    from attnres_cli.runs.directory import RunDirectory

app = typer.Typer()


@app.command()
def compare(
    runs: RunsArgument,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="RUN",
            help="Compare with this run; without it the first one.",
            autocompletion=complete_run,
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
    """Compare two or more runs with a baseline: configuration, loss, layer magnitudes, depth weights, cost.

    The first run is the baseline. A verdict is refused where the runs differ in more than their residual scheme; the
    tables are printed all the same. The cost table comes from a short bench of the runs' training steps in turn,
    which is measured once and kept under .bench/ beside the runs.
    """
    from attnres_cli.report.compare import compare_document

    chosen = chosen_format(format_name, output, json)
    if output is not None:
        check_writable(output)
    if no_bench and rebench:
        raise _usage("--no-bench and --rebench exclude each other.", where="--rebench")
    unwanted = table is not None and "cost" not in table
    comparison = _comparison(runs, baseline, runs_dir, no_bench=no_bench or unwanted, rebench=rebench)
    document = compare_document(comparison)
    if table:
        document = document.only_tables(table)
    if output is None:
        print_document(document, chosen)
    else:
        write_document(document, chosen, output)


def _comparison(refs: list[str], baseline: str | None, root: Path, *, no_bench: bool, rebench: bool) -> Comparison:
    from attnres_cli.report.arms import read_arms
    from attnres_cli.report.comparison import Comparison
    from attnres_cli.runs.lookup import find_run

    found = [find_run(ref, root) for ref in refs]
    first = find_run(baseline, root) if baseline is not None else found[0]
    if first not in found:
        found.insert(0, first)
    _refuse_repetitions(found)
    if len(found) < 2:
        raise _usage("A comparison needs at least two runs.", hint=f"attnres runs show {refs[0]}")
    arms = read_arms(found)
    base = arms[found.index(first)]
    if no_bench:
        return Comparison(arms, base, bench_note="--no-bench")
    return _with_bench(arms, base, found, root, rebench=rebench)


def _with_bench(arms: list[Arm], base: Arm, runs: list[RunDirectory], root: Path, *, rebench: bool) -> Comparison:
    """The comparison with its bench; whatever goes wrong in the bench is a note, because the other tables do not need
    it."""
    from attnres_cli.bench.stored import bench_of_runs
    from attnres_cli.report.comparison import Comparison, SideBySide

    def announce(expected_seconds: float | None) -> None:
        expected = "" if expected_seconds is None else f"about {max(1, round(expected_seconds))} s, "
        typer.echo(f"timing the runs' training steps in turn ({expected}once; --no-bench skips it) …", err=True)

    order = sorted(range(len(arms)), key=lambda index: arms[index] is not base)  # the baseline first, then as given
    try:
        stored = bench_of_runs([runs[index] for index in order], root=root, again=rebench, before_measuring=announce)
    except Exception as error:
        reason = str(error).strip().splitlines()
        return Comparison(arms, base, bench_note=f"the bench failed: {reason[0] if reason else type(error).__name__}")
    names = {arms[index].label: name for index, name in zip(order, stored.arm_names, strict=True) if name is not None}
    return Comparison(arms, base, SideBySide(stored.result, names, stored.measured_now))


def _refuse_repetitions(runs: list[RunDirectory]) -> None:
    for index, run in enumerate(runs):
        if run in runs[:index]:
            raise _usage(f"Run '{run.name}' is given twice.")


def _usage(what: str, **details: str | None) -> UserError:
    from attnres_cli.errors import ExitCode, UserError

    return UserError(what, exit_code=ExitCode.USAGE, **details)
