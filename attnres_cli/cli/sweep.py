"""`attnres sweep …`: the commands that look at sweeps and go on with them; those that start one are in
sweep_kinds.py."""

from __future__ import annotations

import typer

from attnres_cli.cli import sweep_kinds
from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    FormatOption,
    JsonOption,
    ListedRootOption,
    OutputOption,
    RunsRootOption,
)
from attnres_cli.cli.sweep_options import JobsOption, SweepArgument

app = typer.Typer(no_args_is_help=True)
for command in sweep_kinds.COMMANDS:
    app.command(command.__name__.removesuffix("_").replace("_", "-"))(command)


@app.command()
def resume(
    name: SweepArgument, jobs: JobsOption = None, runs_dir: RunsRootOption = DEFAULT_RUNS_DIR, json: JsonOption = False
) -> None:
    """Go on with a sweep, redoing nothing.

    Trains what is missing, goes on from checkpoints, tries failed runs again.
    """
    from attnres_cli.cli.sweep_running import announce, run
    from attnres_cli.sweep.preparation import slots_for
    from attnres_cli.sweep.rates import with_chosen_rates
    from attnres_cli.sweep.results import find_sweep

    directory = find_sweep(name, runs_dir)
    sweep = with_chosen_rates(directory.read())
    slots = slots_for(sweep, jobs)
    announce(sweep, len(slots))
    run(directory, sweep, slots, json)


@app.command()
def show(
    name: SweepArgument,
    format_name: FormatOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
) -> None:
    """Print a sweep's results again, finished or not."""
    from attnres_cli.cli.output import check_writable, chosen_format, print_document, terminal, write_document
    from attnres_cli.report.sweep_documents import sweep_document
    from attnres_cli.sweep.results import find_sweep

    chosen = chosen_format(format_name, output, json)
    if output is not None:
        check_writable(output)
    width = terminal()[0] if chosen == "table" and output is None else None
    document = sweep_document(find_sweep(name, runs_dir).document(), width)
    if output is None:
        print_document(document, chosen)
    else:
        write_document(document, chosen, output)


@app.command()
def status(name: SweepArgument, runs_dir: RunsRootOption = DEFAULT_RUNS_DIR, json: JsonOption = False) -> None:
    """Print how far every run of a sweep is."""
    from attnres_cli.cli.output import print_document
    from attnres_cli.report.sweep_documents import status_document
    from attnres_cli.runs.directory import RunDirectory
    from attnres_cli.sweep.results import find_sweep

    directory = find_sweep(name, runs_dir)
    document = directory.document()
    for run in document["runs"]:  # the file knows a running training only by its beginning
        if run["status"] == "running" and run["folder"]:
            state = RunDirectory(directory.path / run["folder"]).read_state()
            run["step"], run["steps"] = int(state.get("step") or 0), state.get("steps")
            run["status"] = state["status"]
    print_document(status_document(document), "json" if json else "table")


@app.command()
def ls(runs_dir: ListedRootOption = DEFAULT_RUNS_DIR, json: JsonOption = False) -> None:
    """List the sweeps below the runs folder."""
    from attnres_cli.cli.output import print_document, terminal
    from attnres_cli.report.tables.sweeps import sweeps_document
    from attnres_cli.runs.lookup import below_root
    from attnres_cli.sweep.results import list_sweeps

    sweeps = list_sweeps(runs_dir)
    if not sweeps and not json:
        command = below_root("attnres sweep depth-width", runs_dir)
        typer.echo(f"There are no sweeps in {runs_dir}. Start one: {command}", err=True)
    width = None if json else terminal()[0]
    document = sweeps_document([sweep.summary() for sweep in sweeps], width_columns=width)
    print_document(document, "json" if json else "table")
