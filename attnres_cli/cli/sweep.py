"""`attnres sweep depth-width|show|ls|resume`: grids of shapes, every scheme in every cell."""

from __future__ import annotations

import os
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    FormatOption,
    JsonOption,
    OutputOption,
    OverlayOption,
    RunsRootOption,
    SetOption,
    complete_preset,
    complete_residual,
)
from attnres_cli.cli.preparing import saying_what_is_kept
from attnres_cli.errors import ExitCode, UserError

if TYPE_CHECKING:
    from attnres_cli.sweep.budget import Budget
    from attnres_cli.sweep.execution import Slot
    from attnres_cli.sweep.results import Sweep, SweepDirectory

app = typer.Typer(no_args_is_help=True)


def complete_sweep(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of sweeps that start with `incomplete`, from folder names only."""
    root = Path(ctx.params.get("runs_dir") or os.environ.get("ATTNRES_RUNS") or DEFAULT_RUNS_DIR)
    return sorted(path.parent.name for path in root.glob(f"{incomplete}*/sweep.json"))


class MatchOption(StrEnum):
    """What `--match` accepts."""

    parameters = "parameters"
    flops = "flops"


SweepArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of a sweep, or a prefix that only it has.", autocompletion=complete_sweep
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs", min=1, help="Trainings side by side; without it one per GPU, or as many as there are cores."
    ),
]


@app.command("depth-width")
def depth_width(
    preset: Annotated[
        str | None,
        typer.Argument(
            metavar="PRESET",
            help="The preset whose size is kept and whose shape is varied; without it a small one that takes minutes.",
            autocompletion=complete_preset,
        ),
    ] = None,
    budget_flops: Annotated[
        float | None,
        typer.Option(
            "--budget-flops",
            metavar="X",
            help="Tokens per run such that the preset's own shape costs X FLOPs, e.g. 1e15.",
        ),
    ] = None,
    budget_minutes: Annotated[
        float | None,
        typer.Option(
            "--budget-minutes", metavar="M", help="Tokens per run such that the whole sweep takes about M minutes here."
        ),
    ] = None,
    ratios: Annotated[
        str | None, typer.Option("--ratios", metavar="A,B,…", help="Values of d_model / transformer blocks.")
    ] = None,
    head_ratios: Annotated[
        str | None,
        typer.Option("--head-ratios", metavar="A,B,…", help="Values of heads / transformer blocks: a second axis."),
    ] = None,
    residuals: Annotated[
        list[str] | None,
        typer.Option(
            "--residual",
            metavar="SCHEME",
            help="A residual scheme with its defaults; repeat it. The others are compared with the first.",
            autocompletion=complete_residual,
        ),
    ] = None,
    match: Annotated[
        MatchOption,
        typer.Option("--match", help="What all cells share: non-embedding parameters, or training FLOPs per token."),
    ] = MatchOption.parameters,
    lr_power: Annotated[
        float | None,
        typer.Option(
            "--lr-power", metavar="P", help="Learning rate = the preset's × (d_model / the preset's)^P; default -1."
        ),
    ] = None,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the sweep; the same name again continues it.")
    ] = None,
    jobs: JobsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print every cell and train nothing.")] = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Train a grid of shapes with every scheme.

    Shows at which depth and width each residual scheme has its lowest loss. Every cell of the grid is one shape with
    the same non-embedding parameters (or FLOPs) and the same training tokens. Ctrl-C stops with checkpoints; the same
    command, or `attnres sweep resume`, goes on. Nothing finished is trained again.
    """
    from attnres_cli.cli.output import print_document, terminal
    from attnres_cli.report.sweep_documents import plan_document
    from attnres_cli.sweep.axes import parse_ratios
    from attnres_cli.sweep.preparation import planned
    from attnres_cli.sweep.request import continued, make_request

    request = make_request(
        preset,
        overlays=overlays or (),
        sets=sets or (),
        residuals=residuals or (),
        match=match.value,
        ratios=None if ratios is None else parse_ratios(ratios, "--ratios"),
        head_ratios=() if head_ratios is None else parse_ratios(head_ratios, "--head-ratios"),
        budget=_budget(budget_flops, budget_minutes),
        learning_rate_power=lr_power,
    )
    found = continued(runs_dir, name or request.default_name, request)
    if found.request.budget.kind == "minutes" and found.earlier is None:
        typer.echo("timing training steps of the deepest, a middle and the shallowest cell …", err=True)
    sweep, slots = planned(found, jobs, command=shlex.join(["attnres", *sys.argv[1:]]))
    if dry_run:
        width = None if json else terminal()[0]
        print_document(plan_document(sweep.to_dict(), width), "json" if json else "table")
        return
    _announce(sweep, len(slots))
    _run(found.directory, sweep, slots, json)


@app.command()
def resume(
    name: SweepArgument, jobs: JobsOption = None, runs_dir: RunsRootOption = DEFAULT_RUNS_DIR, json: JsonOption = False
) -> None:
    """Go on with a sweep, redoing nothing.

    Trains what is missing, goes on from checkpoints, tries failed runs again.
    """
    from attnres_cli.sweep.preparation import slots_for
    from attnres_cli.sweep.results import find_sweep

    directory = find_sweep(name, runs_dir)
    sweep = directory.read()
    slots = slots_for(sweep, jobs)
    _announce(sweep, len(slots))
    _run(directory, sweep, slots, json)


@app.command()
def show(
    name: SweepArgument,
    format_name: FormatOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
) -> None:
    """Print a sweep again, finished or not."""
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
def ls(runs_dir: RunsRootOption = DEFAULT_RUNS_DIR, json: JsonOption = False) -> None:
    """List the sweeps below the runs folder."""
    from attnres_cli.cli.output import print_document
    from attnres_cli.report.tables.sweeps import sweeps_document
    from attnres_cli.sweep.results import list_sweeps

    sweeps = list_sweeps(runs_dir)
    if not sweeps and not json:
        typer.echo(f"There are no sweeps in {runs_dir}. Start one: attnres sweep depth-width", err=True)
    print_document(sweeps_document([sweep.summary() for sweep in sweeps]), "json" if json else "table")


# ---------------------------------------------------------------------- from options to a plan


def _budget(flops: float | None, minutes: float | None) -> Budget | None:
    from attnres_cli.sweep.budget import Budget

    if flops is not None and minutes is not None:
        raise _usage("--budget-flops and --budget-minutes exclude each other.", where="--budget-minutes")
    for option, value in (("--budget-flops", flops), ("--budget-minutes", minutes)):
        if value is not None and not 0 < value < float("inf"):
            raise _usage(f"{option} {value:g}: the budget has to be positive and finite.", where=option)
    if flops is not None:
        return Budget("flops", flops)
    return None if minutes is None else Budget("minutes", minutes)


# ---------------------------------------------------------------------- running


def _announce(sweep: Sweep, parallel: int) -> None:
    """What is going to happen, on stderr: every cell, every impossible cell, the price."""
    from attnres_cli.cli.console import is_interactive, stderr
    from attnres_cli.report.document import render
    from attnres_cli.report.sweep_documents import plan_document

    left = _left(sweep)
    if left == 0:
        typer.echo(f"sweep {sweep.name}: nothing left to train; another --name starts anew", err=True)
        return
    console = stderr()
    width = console.width if is_interactive(sys.stderr) else None
    typer.echo(render(plan_document(sweep.to_dict(), width), "table", width_columns=width), err=True)
    side = "" if parallel == 1 else f", {parallel} side by side"
    typer.echo(f"sweep {sweep.name}: {left} of {len(sweep.runs)} runs to train{side}", err=True)


def _left(sweep: Sweep) -> int:
    from attnres_cli.sweep.results import SETTLED

    return sum(run.status not in SETTLED for run in sweep.runs)


def _run(directory: SweepDirectory, sweep: Sweep, slots: list[Slot], json_output: bool) -> None:
    """Train what is left, print the sweep, and leave with the exit code that says how it went."""
    from attnres_cli.cli.output import print_document, terminal
    from attnres_cli.cli.sweep_display import display
    from attnres_cli.data.prepare import prepare
    from attnres_cli.report.sweep_documents import sweep_document
    from attnres_cli.sweep.depth_width import run_preset
    from attnres_cli.sweep.engine import run_sweep
    from attnres_cli.sweep.results import create_sweep_directory

    if _left(sweep):
        typer.echo("preparing the data …", err=True)
        with saying_what_is_kept():  # once, before many processes would do it at the same time
            prepare(run_preset(sweep, sweep.runs[0]))
    if not directory.exists:
        create_sweep_directory(directory)
    with display(directory, sweep) as listener:
        run_sweep(directory, sweep, slots=slots, listener=listener)
    width = None if json_output else terminal()[0]
    print_document(sweep_document(directory.document(), width), "json" if json_output else "table")
    _leave(directory, sweep)


def _leave(directory: SweepDirectory, sweep: Sweep) -> None:
    """The exit code: 130 after an interruption; for runs without a result the code of their common reason."""
    again = f"attnres sweep resume {shlex.quote(directory.name)}"
    if directory.path.parent != DEFAULT_RUNS_DIR:
        again += f" --runs-dir {shlex.quote(str(directory.path.parent))}"
    if sweep.status == "interrupted":
        typer.echo(f"resume with: {again}", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED)
    statuses = {run.status for run in sweep.runs} - {"finished"}
    if statuses == {"diverged"}:
        raise typer.Exit(ExitCode.DIVERGED)
    if statuses:
        typer.echo(f"some runs failed; try them again with: {again}", err=True)
        raise typer.Exit(ExitCode.UNEXPECTED)


def _usage(what: str, *, where: str) -> UserError:
    return UserError(what, where=where, exit_code=ExitCode.USAGE)
