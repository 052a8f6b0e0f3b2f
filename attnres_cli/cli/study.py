"""`attnres study new|run|show|ls`: a comparison whose plan is frozen before its first run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    JsonOption,
    OverlayOption,
    PresetArgument,
    RunsRootOption,
    SetOption,
    complete_overlay,
    complete_residual,
)
from attnres_cli.cli.sweep_options import DryRunOption, JobsOption, complete_sweep
from attnres_cli.errors import ExitCode, UserError

if TYPE_CHECKING:
    from attnres_cli.sweep.results import SweepDirectory
    from attnres_cli.sweep.study import Study

app = typer.Typer(no_args_is_help=True, help="Freeze the plan of a comparison before its first run, and train it.")


def complete_study(incomplete: str) -> list[str]:
    """Names of plans in ./studies, from file names only."""
    return sorted(path.stem for path in Path("studies").glob(f"{incomplete}*.toml"))


def complete_arms(incomplete: str) -> list[str]:
    """The last name of a list with commas: schemes and overlays."""
    before, comma, last = incomplete.rpartition(",")
    names = sorted({*complete_residual(last), *complete_overlay(last)})
    return [f"{before}{comma}{name}" for name in names]


StudyArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of a study in ./studies, or a beginning that only it has.",
        autocompletion=complete_study,
    ),
]  # fmt: skip


@app.command()
def new(
    preset: PresetArgument,
    arms: Annotated[
        str,
        typer.Option(
            "--arms",
            metavar="A,B,…",
            help="Residual schemes or overlays; the others are compared with the first.",
            autocompletion=complete_arms,
        ),
    ],
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Runs of every arm, paired by seed.")] = 5,
    horizon: Annotated[
        int | None,
        typer.Option("--horizon", metavar="TOKENS", min=1, help="Training tokens of every run; else the preset's."),
    ] = None,
    smallest_effect: Annotated[
        float,
        typer.Option("--smallest-effect", metavar="NATS", help="The smallest difference of loss that would matter."),
    ] = 0.005,
    sd: Annotated[
        float | None,
        typer.Option("--sd", metavar="NATS", help="Standard deviation of paired differences, for the power."),
    ] = None,
    sd_from: Annotated[
        str | None,
        typer.Option(
            "--sd-from", metavar="GROUP", help="Take it from a group that has been trained.",
            autocompletion=complete_sweep,
        ),
    ] = None,
    hypothesis: Annotated[
        str | None, typer.Option("--hypothesis", metavar="TEXT", help="What is asked, in a sentence.")
    ] = None,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the study and its runs.")] = None,
    jobs: JobsOption = None,
    dry_run: DryRunOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Freeze arms, seeds, horizon and smallest effect of interest in one file.

    Writes ./studies/NAME.toml, prices its runs, says what that many seeds can show, and prints the hash that verdicts
    carry. Nothing is trained: `attnres study run NAME` does that.
    """
    from attnres_cli.cli.output import print_document, terminal
    from attnres_cli.report.study import power_of_plan
    from attnres_cli.report.study_documents import new_study_document
    from attnres_cli.sweep.arms import Source
    from attnres_cli.sweep.kinds.study import make_request
    from attnres_cli.sweep.preparation import planned
    from attnres_cli.sweep.request import Continued, checked_seeds
    from attnres_cli.sweep.results import SweepDirectory
    from attnres_cli.sweep.study import new_study, refuse_existing, write_study

    if checked_seeds(seeds) < 3:
        raise _usage(
            f"--seeds {seeds}: fewer than three pairs never give a verdict.", where="--seeds", expected="3 or more"
        )
    if not 0 < smallest_effect < float("inf"):
        raise _usage(f"--smallest-effect {smallest_effect:g} is no difference.", where="--smallest-effect",
                     expected="nats, a number above zero")  # fmt: skip
    deviation = _standard_deviation(sd, sd_from, runs_dir)
    study = new_study(
        Source(preset, overlays or (), sets or ()),
        [word.strip() for word in arms.split(",") if word.strip()],
        seeds=seeds,
        horizon_tokens=horizon,
        smallest_effect=smallest_effect,
        standard_deviation=deviation,
        hypothesis=hypothesis,
        name=name,
    )
    group = SweepDirectory(runs_dir / study.name)
    refuse_existing(study, group)
    typer.echo("planning; timing a few training steps …", err=True)
    sweep, _ = planned(Continued(make_request(study), group, None), jobs, command=_command())
    tested = len(study.arms) - 1
    power = None if deviation is None else power_of_plan(deviation, seeds, tested, smallest_effect)
    if not dry_run:
        write_study(study)
    width = None if json else terminal()[0]
    document = new_study_document(study.to_dict(), study.hash, sweep.to_dict(), power, width, is_written=not dry_run)
    print_document(document, "json" if json else "table")


@app.command()
def run(
    name: StudyArgument,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", help="More seeds than the plan has; those beyond it are exploratory."),
    ] = None,
    jobs: JobsOption = None,
    dry_run: DryRunOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Train a study's runs, or what is left of them.

    A plan that was changed after its first run is refused: make another study of it.
    """
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.sweep.kinds.study import make_request, refuse_if_changed
    from attnres_cli.sweep.study import read_study

    study = read_study(name)
    group = _group(study, runs_dir)
    if group is not None:
        refuse_if_changed(study, group.read())
    request = make_request(study, seeds=seeds)
    start(request, name=study.name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)


@app.command()
def show(name: StudyArgument, runs_dir: RunsRootOption = DEFAULT_RUNS_DIR, json: JsonOption = False) -> None:
    """Print the frozen plan, its hash, and what is done of it."""
    from attnres_cli.cli.output import print_document
    from attnres_cli.report.study import power_of_plan
    from attnres_cli.report.study_documents import study_document
    from attnres_cli.sweep.kinds.study import changes_since
    from attnres_cli.sweep.study import read_study

    study = read_study(name)
    group = _group(study, runs_dir)
    power = None
    if study.standard_deviation is not None:
        power = power_of_plan(study.standard_deviation, len(study.seeds), len(study.arms) - 1, study.smallest_effect)
    changed = [] if group is None else changes_since(study, group.read())
    done = None if group is None else group.document()
    print_document(study_document(study.to_dict(), study.hash, done, changed, power), "json" if json else "table")


@app.command()
def ls(json: JsonOption = False) -> None:
    """List the plans in ./studies."""
    from attnres_cli.cli.output import print_document
    from attnres_cli.report.study_documents import studies_document
    from attnres_cli.sweep.study import read_study, study_names

    found: list[dict[str, Any]] = []
    for name in study_names():
        try:
            study = read_study(name)
            found.append({"name": name, "hash": study.hash, "plan": study.to_dict(), "error": None})
        except UserError as error:
            found.append({"name": name, "hash": None, "plan": None, "error": str(error)})
    if not found and not json:
        typer.echo("There are no studies in ./studies. Freeze one: attnres study new PRESET --arms A,B", err=True)
    print_document(studies_document(found), "json" if json else "table")


def _standard_deviation(sd: float | None, sd_from: str | None, runs_dir: Path) -> float | None:
    """Nats, said or measured; None where neither was asked for."""
    from attnres_cli.report.study import spread_of_group
    from attnres_cli.sweep.results import find_sweep

    if sd is not None and sd_from is not None:
        raise _usage("--sd and --sd-from exclude each other.", where="--sd-from")
    if sd is not None and not 0 <= sd < float("inf"):
        raise _usage(f"--sd {sd:g} is no standard deviation.", where="--sd", expected="nats, zero or more")
    if sd_from is None:
        return sd
    directory = find_sweep(sd_from, runs_dir)
    found = spread_of_group(directory.document())
    if found is None:
        raise _usage(f"Group '{directory.name}' has no arm with three pairs.", where="--sd-from",
                     expected="two arms with three seeds each that finished", exit_code=ExitCode.INPUT)  # fmt: skip
    return found


def _group(study: Study, runs_dir: Path) -> SweepDirectory | None:
    """The runs of a study; None before its first."""
    from attnres_cli.sweep.results import SweepDirectory

    directory = SweepDirectory(runs_dir / study.name)
    return directory if directory.exists else None


def _command() -> str:
    return shlex.join(["attnres", *sys.argv[1:]])


def _usage(what: str, *, exit_code: ExitCode = ExitCode.USAGE, **details: str | None) -> UserError:
    return UserError(what, exit_code=exit_code, **details)
