"""`attnres runs ls|show|rm`: what is there, how one run stands, and how to be rid of it. Loads no torch."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    JsonOption,
    ListedRootOption,
    RunArgument,
    RunsArgument,
    RunsRootOption,
)

app = typer.Typer(no_args_is_help=True, help="List, show and remove runs.")


@app.command("ls")
def list_them(json: JsonOption = False, runs_dir: ListedRootOption = DEFAULT_RUNS_DIR) -> None:
    """List the runs, the newest last: status, progress, last validation loss, age, scheme, preset, seed, name.

    On a narrow terminal names that the program chose are shown by their last four digits, which every command takes.
    """
    from attnres_cli.cli.output import terminal
    from attnres_cli.report.document import Document
    from attnres_cli.report.tables.runs import build
    from attnres_cli.runs.lookup import below_root, list_runs

    runs = list_runs(runs_dir)
    if not runs and not json:
        command = below_root("attnres train cpu-tiny", runs_dir)
        typer.echo(f"There are no runs in {runs_dir}. `{command}` makes one.", err=True)
        return
    table = build(runs, runs_dir, width_columns=None if json else terminal()[0])
    _print(Document("runs", (table,), {"runs_dir": str(runs_dir)}), json)


@app.command("show")
def show(run: RunArgument, json: JsonOption = False, runs_dir: RunsRootOption = DEFAULT_RUNS_DIR) -> None:
    """Show one run: how it stands, its losses, what it was trained on and with, and how to continue it."""
    from attnres_cli.report.run_summary import summary_document
    from attnres_cli.runs.lookup import find_run

    _print(summary_document(find_run(run, runs_dir)), json)


@app.command("rm")
def remove(
    runs: RunsArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
) -> None:
    """Remove runs and everything in their directories. Asks first; a running run is refused, and then nothing is
    removed. The name of a group or sweep means all its runs, and what is kept about them."""
    from attnres_cli.report.phrases import counted
    from attnres_cli.report.visible import visible
    from attnres_cli.runs.directory import RunDirectory
    from attnres_cli.runs.lookup import find_group, find_run, name_below, runs_of_group
    from attnres_cli.runs.removal import check_removable, remove_group, remove_run, size_bytes

    in_groups = {group.resolve(): runs_of_group(group) for ref in runs if (group := find_group(ref, runs_dir))}
    gone_with_them = {run.path.resolve() for inside in in_groups.values() for run in inside}
    single = dict.fromkeys(find_run(ref, runs_dir) for ref in runs if find_group(ref, runs_dir) is None)
    found = [run for run in single if run.path.resolve() not in gone_with_them]
    check_removable([*found, *(run for inside in in_groups.values() for run in inside)], list(in_groups))
    paths = [*in_groups, *(run.path for run in found)]
    names = {path: visible(name_below(RunDirectory(path), runs_dir)) for path in paths}
    if not yes:
        held = {group: f"{counted(len(inside), 'run')}, " for group, inside in in_groups.items()}
        described = [f"{names[path]} ({held.get(path, '')}{size_bytes(path) / 2**20:.1f} MiB)" for path in paths]
        _ask(described, len(found) + sum(map(len, in_groups.values())))
    for group, inside in in_groups.items():
        left = remove_group(group)
        typer.echo(f"removed {names[group]} ({counted(len(inside), 'run')})")
        if left:
            typer.echo(f"kept in {names[group]}, which no run made: {visible(', '.join(left))}", err=True)
    for run in found:
        remove_run(run)
        typer.echo(f"removed {names[run.path]}")


def _ask(described: list[str], runs: int) -> None:
    """Return when the user agrees that so many runs go. Off a terminal nobody can be asked: a UserError that names
    --yes."""
    from attnres_cli.cli.console import is_interactive
    from attnres_cli.errors import ExitCode, UserError

    if not is_interactive(sys.stdin):
        count = "a run" if runs == 1 else f"{runs} runs"
        raise UserError(
            f"Removing {count} needs an answer, and there is no terminal to ask.",
            hint="add --yes",
            exit_code=ExitCode.USAGE,
        )
    for line in described:
        typer.echo(f"  {line}", err=True)
    if not typer.confirm(f"Remove {'this run' if runs == 1 else f'these {runs} runs'} for good?", err=True):
        typer.echo("nothing was removed", err=True)
        raise typer.Exit()


def _print(document: Any, json: bool) -> None:
    from attnres_cli.cli.output import print_document

    print_document(document, "json" if json else "table")
