"""`attnres train PRESET`: one run, seen live, resumable; with several schemes or seeds a group, paired by seed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    JsonOption,
    OverlayOption,
    RunsRootOption,
    SetOption,
    complete_device,
    complete_preset,
    complete_residual,
    complete_run,
)
from attnres_cli.cli.sweep_options import JobsOption
from attnres_cli.cli.sweep_running import start
from attnres_cli.errors import ExitCode, UserError

if TYPE_CHECKING:
    from attnres_cli.preset.options import Given
    from attnres_cli.preset.reading import Preset
    from attnres_cli.runs.directory import RunDirectory
    from attnres_cli.sweep.request import Request
    from attnres_cli.train.loop import TrainResult

app = typer.Typer(add_completion=False)

OptionalPreset = Annotated[
    str | None,
    typer.Argument(
        metavar="PRESET",
        help="Name of a preset (`attnres presets ls`) or path of a TOML file.",
        autocompletion=complete_preset,
    ),
]
ResidualsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--residual",
        metavar="SCHEME",
        help="Residual scheme (`attnres presets ls --schemes`), with its defaults, instead of the preset's; repeated: "
        "a group of runs, the others compared with the first.",
        autocompletion=complete_residual,
    ),
]
SeedsOption = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        metavar="N",
        help="A group of runs: every scheme with N seeds (train.seed and on), paired by seed.",
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of the run or group; default: preset, scheme, seed, time."),
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume", metavar="RUN", help="Go on with an interrupted run, exactly.", autocompletion=complete_run
    ),
]
StepsOption = Annotated[
    int | None, typer.Option("--steps", min=1, help="Train this many steps instead of train.horizon_tokens.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Initial weights and data order (train.seed).")]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="auto, cpu, cuda or cuda:N (train.device).",
        autocompletion=complete_device,
    ),
]


@app.command()
def train(
    preset: OptionalPreset = None,
    residuals: ResidualsOption = None,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    name: NameOption = None,
    steps: StepsOption = None,
    seed: SeedOption = None,
    seeds: SeedsOption = None,
    jobs: JobsOption = None,
    device: DeviceOption = None,
    resume: ResumeOption = None,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json_output: JsonOption = False,
) -> None:
    """Train a model from a preset.

    Progress goes to stderr, the result to stdout. Ctrl-C stops at the next step with a checkpoint and prints the
    command that goes on from it; a second Ctrl-C ends at once. With --seeds, or --residual more than once, a group of
    runs is trained in a folder of its own, side by side where there are cores or GPUs; the same command goes on with
    it.
    """
    is_group = seeds is not None or len(residuals or ()) > 1
    if resume is not None:
        given: dict[str, object] = {
            "PRESET": preset,
            "--residual": residuals,
            "--overlay": overlays,
            "--set": sets,
            "--name": name,
        }
        given |= {"--steps": steps, "--seed": seed, "--seeds": seeds, "--jobs": jobs, "--device": device}
        _refuse_changes(given, resume)
        result = resume_run(resume, runs_dir)
    else:
        if preset is None:
            raise UserError(
                "Which preset?", expected="attnres train PRESET, or attnres train --resume RUN",
                hint="attnres presets ls", exit_code=ExitCode.USAGE,
            )  # fmt: skip
        given_keys = everyday_options(seed, device)
        if is_group:
            num_seeds = 1 if seeds is None else seeds
            group = _group_request(preset, overlays or (), residuals or (), sets or (), given_keys, steps, num_seeds)
            start(group, name=name, jobs=jobs, runs_dir=runs_dir, json=json_output)
            return
        if jobs is not None:
            raise UserError(
                "--jobs has no effect on a single run.",
                where="--jobs",
                expected="a group of runs: --seeds N, or --residual more than once",
                exit_code=ExitCode.USAGE,
            )
        loaded = load_for_training(
            preset,
            overlays=overlays or (),
            residual=residuals[0] if residuals else None,
            sets=sets or (),
            given=given_keys,
            steps=steps,
        )
        result = train_preset(loaded, runs_dir, name=name)
    _report(result, json_output)


def _group_request(
    ref: str,
    overlays: Sequence[str],
    residuals: Sequence[str],
    sets: Sequence[str],
    given: Sequence[Given],
    steps: int | None,
    seeds: int,
) -> Request:
    """The group that these options make: every scheme with every seed."""
    from attnres_cli.sweep.arms import Source
    from attnres_cli.sweep.kinds.group import make_request
    from attnres_cli.train.device import choose_device

    source = Source(ref, overlays, sets, given)
    preset = with_steps(source.load(), steps)
    choose_device(preset.train.device, where=str(preset.origins["train.device"]))
    return make_request(source, preset, residuals=residuals, seeds=seeds)


def with_steps(preset: Preset, steps: int | None) -> Preset:
    """The preset with this many optimiser steps; None: as it is."""
    if steps is None:
        return preset
    horizon_tokens = steps * preset.train.tokens_per_step
    return preset.replace({"train.horizon_tokens": horizon_tokens}, said_by=f"--steps {steps}")


def load_for_training(
    ref: str,
    *,
    overlays: Any = (),
    residual: str | None = None,
    sets: Any = (),
    given: Sequence[Given] = (),
    steps: int | None = None,
    asked_by: str = "PRESET",
) -> Preset:
    """The preset, with `steps` optimiser steps where given. asked_by: the argument or option that `ref` is.

    Raises UserError with everything that is wrong with it, and everything of its data that is missing.
    """
    from attnres_cli.data.inputs import missing_inputs
    from attnres_cli.preset.reading import load_preset

    preset = load_preset(
        ref, overlays=overlays, residual=residual, sets=sets, given=given, inputs=missing_inputs, asked_by=asked_by
    )
    for note in (*preset.notes, preset.note_on_seeds([preset.train.seed])):
        if note is not None:
            typer.echo(f"note: {note}", err=True)
    return with_steps(preset, steps)


def train_preset(preset: Preset, runs_dir: Path, *, name: str | None = None) -> TrainResult:
    """Train in a new run directory below `runs_dir`, with the display on stderr."""
    from attnres_cli.runs.directory import RunDirectory
    from attnres_cli.train.beginning import start_of
    from attnres_cli.train.device import choose_device

    # A device that is not there leaves no empty run behind.
    choose_device(preset.train.device, where=str(preset.origins["train.device"]))
    stem = f"{preset.name}-{preset.residual.scheme}-s{preset.train.seed}"
    return _train(preset, RunDirectory.create(runs_dir, stem, name, start=start_of(preset)), resume=False)


def resume_run(ref: str, runs_dir: Path) -> TrainResult:
    """Go on with the run that `ref` names. Raises UserError when it is still running."""
    from attnres_cli.preset.reading import preset_from_dict
    from attnres_cli.runs.lookup import find_run, name_below

    run = find_run(ref, runs_dir, of_a_sweep="resume")
    if run.status == "running":
        raise UserError(
            f"Run '{run.name}' is still running (process {run.read_state().get('pid')}).", where=str(run.path)
        )
    if run.never_began and not run.resolved_toml.exists():
        raise UserError(
            f"Run '{run.name}' was stopped before its first step, and has no resolved.toml to begin it from: an older "
            "version of attnres wrote that only then.",
            where=str(run.path),
            hint=f"attnres runs rm {shlex.quote(name_below(run, runs_dir))}, then start the run again",
        )
    named = run.read_state() if run.never_began else run.manifest()
    preset = preset_from_dict(
        run.resolved(), str(named.get("preset_name") or run.name), source_text=run.preset_toml.read_text("utf-8")
    )
    return _train(preset, run, resume=True)


def _train(preset: Preset, run: RunDirectory, *, resume: bool) -> TrainResult:
    from attnres_cli.cli.train_display import display
    from attnres_cli.train.loop import train

    with display() as listener:
        return train(preset, run, on_event=listener, resume=resume)


def everyday_options(seed: int | None, device: str | None) -> list[Given]:
    """The keys that have an option of their own."""
    from attnres_cli.preset.options import Given

    options = [("--seed", "train.seed", seed), ("--device", "train.device", device)]
    return [Given(f"{option} {value}", key, value) for option, key, value in options if value is not None]


def _refuse_changes(given: dict[str, object], resume: str) -> None:
    """A resumed run is the same run: whatever would change it is refused by name."""
    changed = [option for option, value in given.items() if value]
    if changed:
        raise UserError(
            f"--resume goes on with a run exactly as it began; {', '.join(changed)} would change it.",
            hint=f"attnres train --resume {resume}, or start a new run without --resume",
            exit_code=ExitCode.USAGE,
        )


def _report(result: TrainResult, json_output: bool) -> None:
    from dataclasses import asdict

    from attnres_cli.cli.console import print_json
    from attnres_cli.train.loop import resume_command

    interrupted = result.status == "interrupted"
    evaluation = result.evaluation
    if json_output:
        print_json(
            "train",
            {
                "run": result.run.name,
                "path": str(result.run.path),
                "status": result.status,
                "step": result.step,
                "train_seconds": result.train_seconds,
                "validation": None if evaluation is None else {"step": result.evaluated_step, **asdict(evaluation)},
                "resume": resume_command(result.run) if interrupted else None,
            },
        )
    else:
        if evaluation is not None:
            bytes_part = "" if evaluation.bits_per_byte is None else f", {evaluation.bits_per_byte:.4f} bits per byte"
            loss = f"validation loss at step {result.evaluated_step}: {evaluation.loss:.4f}"
            typer.echo(f"{loss}, perplexity {evaluation.perplexity:.2f}{bytes_part}")
        typer.echo(f"run {result.run.path} {result.status} at step {result.step}")
    if interrupted:
        typer.echo(f"resume with: {resume_command(result.run)}", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED)
