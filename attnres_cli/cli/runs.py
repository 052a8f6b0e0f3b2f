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
    removed."""
    from attnres_cli.report.visible import visible
    from attnres_cli.runs.lookup import find_run, name_below
    from attnres_cli.runs.removal import check_removable, remove_run, size_bytes

    found = list(dict.fromkeys(find_run(ref, runs_dir) for ref in runs))
    check_removable(found)
    names = {run: visible(name_below(run, runs_dir)) for run in found}
    if not yes:
        _ask([f"{names[run]} ({size_bytes(run) / 2**20:.1f} MiB)" for run in found])
    for run in found:
        remove_run(run)
        typer.echo(f"removed {names[run]}")


def _ask(described: list[str]) -> None:
    """Return when the user agrees. Off a terminal nobody can be asked: a UserError that names --yes."""
    from attnres_cli.cli.console import is_interactive
    from attnres_cli.errors import ExitCode, UserError

    if not is_interactive(sys.stdin):
        count = f"{len(described)} runs" if len(described) > 1 else "a run"
        raise UserError(
            f"Removing {count} needs an answer, and there is no terminal to ask.",
            hint="add --yes",
            exit_code=ExitCode.USAGE,
        )
    for line in described:
        typer.echo(f"  {line}", err=True)
    if not typer.confirm(f"Remove {'these runs' if len(described) > 1 else 'this run'} for good?", err=True):
        typer.echo("nothing was removed", err=True)
        raise typer.Exit()


def _print(document: Any, json: bool) -> None:
    from attnres_cli.cli.output import print_document

    print_document(document, "json" if json else "table")
