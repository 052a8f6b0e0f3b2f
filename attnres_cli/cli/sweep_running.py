"""From a request to trained runs: plan and price it, show it, train what is left, print the result, leave with its exit
code. Every command that trains several runs ends here."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from attnres_cli.cli.options import DEFAULT_RUNS_DIR
from attnres_cli.cli.preparing import saying_what_is_kept
from attnres_cli.errors import ExitCode, plural

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset
    from attnres_cli.sweep.execution import Slot
    from attnres_cli.sweep.request import Request
    from attnres_cli.sweep.results import Sweep, SweepDirectory


def start(
    request: Request,
    *,
    name: str | None = None,
    jobs: int | None = None,
    dry_run: bool = False,
    runs_dir: Path = DEFAULT_RUNS_DIR,
    json: bool = False,
) -> None:
    """Plan the sweep of this request, or the one of that name again, and train what is left of it.

    Leaves through typer.Exit with the exit code where something has no result.
    """
    from attnres_cli.cli.output import print_document, terminal
    from attnres_cli.report.sweep_documents import plan_document
    from attnres_cli.sweep.preparation import kind_of, planned
    from attnres_cli.sweep.rates import with_chosen_rates
    from attnres_cli.sweep.request import continued
    from attnres_cli.sweep.resolve import notes_of

    for note in notes_of(request, seeds=request.seed_values):
        typer.echo(f"note: {note}", err=True)
    found = continued(runs_dir, name or request.default_name, request, kind_of(request.kind).GROWING)
    if found.note is not None:
        typer.echo(f"note: {found.note}", err=True)
    typer.echo("planning; timing a few training steps …", err=True)
    sweep, slots = planned(found, jobs, command=shlex.join(["attnres", *sys.argv[1:]]), dry_run=dry_run)
    if dry_run:
        width = None if json else terminal()[0]
        print_document(plan_document(sweep.to_dict(), width), "json" if json else "table")
        return
    sweep = with_chosen_rates(sweep, found.earlier)
    announce(sweep, len(slots))
    run(found.directory, sweep, slots, json, request.preset)


def announce(sweep: Sweep, parallel: int) -> None:
    """What is going to happen, on stderr: every cell, everything impossible, the price."""
    from attnres_cli.cli.console import is_interactive, stderr
    from attnres_cli.report.document import render
    from attnres_cli.report.sweep_documents import plan_document

    if sweep.left == 0:
        typer.echo(f"sweep {sweep.name}: nothing left to train; another --name starts anew", err=True)
        return
    console = stderr()
    width = console.width if is_interactive(sys.stderr) else None
    typer.echo(render(plan_document(sweep.to_dict(), width), "table", width_columns=width), err=True)
    side = "" if parallel == 1 else f", {parallel} side by side"
    typer.echo(
        f"sweep {sweep.name}: {sweep.left} of {len(sweep.runs)} {plural(len(sweep.runs), 'run')} to train{side}",
        err=True,
    )


def run(
    directory: SweepDirectory, sweep: Sweep, slots: list[Slot], json_output: bool, asked: Preset | None = None
) -> None:
    """Train what is left, print the sweep, and leave with the exit code that says how it went. asked: see
    `train_stages`."""
    from attnres_cli.cli.output import print_document, terminal
    from attnres_cli.report.sweep_documents import sweep_document
    from attnres_cli.sweep.rates import with_chosen_rates

    sweep = train_stages(directory, sweep, slots, with_chosen_rates, asked)
    if sweep.status == "finished":
        _measure(directory, sweep)
    width = None if json_output else terminal()[0]
    print_document(sweep_document(directory.document(), width), "json" if json_output else "table")
    _leave(directory, sweep)


def train_stages(
    directory: SweepDirectory,
    sweep: Sweep,
    slots: list[Slot],
    following: Callable[[Sweep], Sweep],
    asked: Preset | None = None,
) -> Sweep:
    """Train a sweep, and what `following` makes of its results, on a display (sweep/stages.py).

    asked: the preset as its user named it, whose lines errors about the data give; a sweep's file has none.
    """
    from attnres_cli.cli.sweep_display import display
    from attnres_cli.data.prepare import prepare
    from attnres_cli.sweep.engine import run_sweep
    from attnres_cli.sweep.resolve import run_preset, with_lines_of
    from attnres_cli.sweep.results import create_sweep_directory
    from attnres_cli.sweep.stages import in_stages

    def train(stage: Sweep) -> None:
        with display(directory, stage) as listener:
            run_sweep(directory, stage, slots=slots, listener=listener)

    if sweep.left:
        typer.echo("preparing the data …", err=True)
        with saying_what_is_kept():  # once, before many processes would do it at the same time
            first = run_preset(sweep, sweep.runs[0])
            prepare(first if asked is None else with_lines_of(first, asked))
    if not directory.exists:
        create_sweep_directory(directory)
    return in_stages(sweep, train, following)


def _measure(directory: SweepDirectory, sweep: Sweep) -> None:
    """Take what a kind of sweep measures beside its runs, once they are there."""
    from attnres_cli.sweep.preparation import kind_of

    measure = getattr(kind_of(sweep.kind), "measure", None)
    if measure is not None and measure(sweep, lambda key: typer.echo(f"timing {key} …", err=True)):
        directory.write(sweep)


def _leave(directory: SweepDirectory, sweep: Sweep) -> None:
    """The exit code: 130 after an interruption; for runs without a result the code of their common reason."""
    again = f"attnres sweep resume {shlex.quote(directory.name)}{_where(directory)}"
    if sweep.status == "interrupted":
        typer.echo(f"resume with: {again}", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED)
    # Too high a rate was tried, which is a result.
    statuses = {run.status for run in sweep.runs if not (run.trial and run.status == "diverged")} - {"finished"}
    if sweep.kind == "tune":
        statuses -= {"diverged"}  # too high a rate was tried, which is a result
        typer.echo(f"choose the next trials and write the overlays with: {_tune_again(directory, sweep)}", err=True)
    elif "finished" in {run.status for run in sweep.runs} and len(sweep.arms) > 1 and len(sweep.cells) == 1:
        typer.echo(f"compare with: attnres compare {shlex.quote(directory.name)}{_where(directory)}", err=True)
    if statuses == {"diverged"}:
        raise typer.Exit(ExitCode.DIVERGED)
    if statuses:
        typer.echo(f"some runs failed; try them again with: {again}", err=True)
        raise typer.Exit(ExitCode.UNEXPECTED)


def _tune_again(directory: SweepDirectory, sweep: Sweep) -> str:
    """The command that goes on with a tune: the one that began it, under its name."""
    words = shlex.split(sweep.command)
    if words[:2] != ["attnres", "tune"]:
        return f"attnres tune … --name {shlex.quote(directory.name)}{_where(directory)}"
    is_named = any(word == "--name" or word.startswith("--name=") for word in words)
    return sweep.command + ("" if is_named else f" --name {shlex.quote(directory.name)}")


def _where(directory: SweepDirectory) -> str:
    root = directory.path.parent
    return "" if root == DEFAULT_RUNS_DIR else f" --runs-dir {shlex.quote(str(root))}"
