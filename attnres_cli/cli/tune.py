"""`attnres tune PRESET`: the learning rate of every arm, with the same number of trials each."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    JsonOption,
    OverlayOption,
    PresetArgument,
    RunsRootOption,
    SetOption,
)
from attnres_cli.cli.study import complete_arms
from attnres_cli.cli.sweep_options import DryRunOption, JobsOption, ResidualsOption, usage
from attnres_cli.errors import ExitCode, plural

if TYPE_CHECKING:
    from attnres_cli.sweep.results import Sweep, SweepDirectory

app = typer.Typer(add_completion=False)


def complete_engine(incomplete: str) -> list[str]:
    """Names of engines, from file names only."""
    from attnres_cli.discovery import names

    return [name for name in names("analysis.tuners") if name.startswith(incomplete)]


@app.command()
def tune(
    preset: PresetArgument,
    residuals: ResidualsOption = None,
    arms: Annotated[
        str | None,
        typer.Option(
            "--arms",
            metavar="A,B,…",
            help="Residual schemes or overlays (an ablation, say) instead of --residual.",
            autocompletion=complete_arms,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="Who chooses the trials: grid (coarse to fine) or optuna (TPE).",
            autocompletion=complete_engine,
        ),
    ] = "grid",
    trials: Annotated[
        int | None,
        typer.Option("--trials", metavar="N", help="Of optuna: trials of every arm; without it as many as the grid's."),
    ] = None,
    weight_decay: Annotated[bool, typer.Option("--weight-decay", help="Tune the weight decay, too.")] = False,
    query_lr_factor: Annotated[
        bool,
        typer.Option("--query-lr-factor", help="Tune the learning-rate factor of the depth queries, too."),
    ] = False,
    points: Annotated[
        int,
        typer.Option("--points", metavar="N", help="Values on the factor-2 grid of each axis, odd; 5: ×1/4 to ×4."),
    ] = 5,
    horizon_fraction: Annotated[
        float,
        typer.Option(
            "--horizon-fraction",
            metavar="F",
            help="Search with this share of the tokens; the best and ±√2 are then checked with all of them.",
        ),
    ] = 1.0,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="Seeds of every trial, none of which a verdict uses.")
    ] = 1,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the tune; the same name again continues it."),
    ] = None,
    jobs: JobsOption = None,
    dry_run: DryRunOption = False,
    force: Annotated[bool, typer.Option("--force", help="Write over overlays that another tune has written.")] = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Find the learning rate of every arm, coarse to fine.

    A factor-2 grid around the preset's rate, then ±√2 around the best of each arm: the same number of trials for
    every arm, with seeds that no verdict uses. Each tuned arm becomes an overlay in ./presets/overlays. A best at the
    edge of what was tried is not tuned, and the exit code is 6. The same command continues. --engine optuna draws and
    proposes rates between the ends of the grid instead.
    """
    from attnres_cli.cli.output import print_document, terminal
    from attnres_cli.cli.sweep_running import train_stages
    from attnres_cli.report.sweep_documents import plan_document
    from attnres_cli.sweep.kinds.tune import growing, make_request, next_stage
    from attnres_cli.sweep.preparation import planned
    from attnres_cli.sweep.request import continued
    from attnres_cli.sweep.resolve import notes_of
    from attnres_cli.sweep.tuned_overlays import overlay_path, refuse_to_overwrite

    named = [] if arms is None else [word.strip() for word in arms.split(",") if word.strip()]
    if arms is not None and (residuals or not named):
        raise usage(
            "--arms names no arm." if not named else "--arms and --residual exclude each other.", where="--arms"
        )
    request = make_request(
        preset,
        overlays=overlays or (),
        sets=sets or (),
        residuals=residuals or (),
        arms=named,
        engine_name=engine,
        trials=trials,
        points=points,
        weight_decay=weight_decay,
        query_lr_factor=query_lr_factor,
        horizon_fraction=horizon_fraction,
        seeds=seeds,
    )
    for note in notes_of(request):
        typer.echo(f"note: {note}", err=True)
    found = continued(runs_dir, name or request.default_name, request, growing(request))
    if found.note is not None:
        typer.echo(f"note: {found.note}", err=True)
    typer.echo("planning; timing a few training steps …", err=True)
    priced, slots = planned(found, jobs, command=shlex.join(["attnres", *sys.argv[1:]]))
    if dry_run:
        document = plan_document(priced.to_dict(), None if json else terminal()[0])
        print_document(document, "json" if json else "table")
        return
    paths = {arm.label: overlay_path(request.preset.name, arm.label) for arm in request.arms}
    refuse_to_overwrite(paths, priced.name, force=force)
    first = next_stage(found.request, priced, found.earlier)
    _announce(priced, first, is_new=found.earlier is None)
    sweep = train_stages(
        found.directory, first, slots, lambda before: next_stage(found.request, priced, before), request.preset
    )
    _print(found.directory, json)
    _leave(found.directory, sweep)


def _announce(priced: Sweep, first: Sweep, *, is_new: bool) -> None:
    """The price of the whole on stderr; what is left of one that goes on."""
    from attnres_cli.cli.console import is_interactive, stderr
    from attnres_cli.report.document import render
    from attnres_cli.report.sweep_documents import plan_document

    if first.left == 0:
        typer.echo(f"tune {priced.name}: nothing left to train; another --name starts anew", err=True)
    elif is_new:
        width = stderr().width if is_interactive(sys.stderr) else None
        typer.echo(render(plan_document(priced.to_dict(), width), "table", width_columns=width), err=True)
    else:
        done = len(first.runs) - first.left
        typer.echo(
            f"tune {priced.name}: {done} of {len(priced.runs)} {plural(len(priced.runs), 'run')} are there; going on",
            err=True,
        )


def _print(directory: SweepDirectory, json: bool) -> None:
    from attnres_cli.cli.output import print_document, terminal
    from attnres_cli.report.sweep_documents import sweep_document

    document = sweep_document(directory.document(), None if json else terminal()[0])
    print_document(document, "json" if json else "table")


def _leave(directory: SweepDirectory, sweep: Sweep) -> None:
    """Write the overlays of what is tuned, and leave with the exit code: 130 after an interruption, 1 where runs
    failed, 6 where an arm is not tuned."""
    from attnres_cli.preset.catalogue import shown
    from attnres_cli.report.tuning import Tuning
    from attnres_cli.sweep.tuned_overlays import write_overlays

    if sweep.status == "interrupted":
        typer.echo(f"go on with the same command and --name {shlex.quote(directory.name)}", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED)
    for path in write_overlays(sweep).values():
        typer.echo(f"wrote {shown(path)}; use it with --overlay {path.stem}", err=True)
    if any(run.status not in ("finished", "diverged") for run in sweep.runs):
        typer.echo("some trials failed; the same command tries them again", err=True)
        raise typer.Exit(ExitCode.UNEXPECTED)
    tuning = Tuning.of(sweep.to_dict())
    if any(not tuning.outcome(label).is_tuned for label in tuning.labels):
        raise typer.Exit(ExitCode.THRESHOLD)
