"""`attnres demo`: the baseline and Attention Residuals on real text, compared, through the same doors as every run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    JsonOption,
    OverlayOption,
    RunsRootOption,
    SetOption,
    complete_preset,
)
from attnres_cli.errors import ExitCode

if TYPE_CHECKING:
    from attnres_cli.preset.reading import Preset
    from attnres_cli.runs.directory import RunDirectory

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    preset: Annotated[
        str, typer.Option("--preset", metavar="PRESET", help="What both train.", autocompletion=complete_preset)
    ] = "cpu-small",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Initial weights and data order of both.")] = 0,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    as_json: JsonOption = False,
) -> None:
    """Train the baseline and Attention Residuals on real text and compare them (minutes on two cores).

    Nothing is downloaded: the text is the source of Python's standard library. The runs are ordinary ones; the
    commands that the demo stands for are printed as it goes. Ctrl-C stops with a checkpoint.
    """
    from attnres_cli.residual.arms import default_arms

    arms = default_arms("demo")
    # Both are read before the first is trained: a mistake in --set costs nothing.
    presets = [_load(preset, scheme, seed, overlays, sets) for scheme in arms]
    runs = []
    for place, (scheme, loaded) in enumerate(zip(arms, presets, strict=True), 1):
        _say(f"{place} of {len(arms)}: {_command(preset, scheme, seed, overlays, sets)}")
        runs.append(str(_train(loaded, runs_dir).path))
    _compare(runs, runs_dir, as_json)


def _load(ref: str, scheme: str, seed: int, overlays: list[str] | None, sets: list[str] | None) -> Preset:
    from attnres_cli.cli.train import everyday_options, load_for_training

    given = everyday_options(seed, None)
    return load_for_training(
        ref, overlays=overlays or (), residual=scheme, sets=sets or (), given=given, asked_by=f"--preset {ref}"
    )


def _command(ref: str, scheme: str, seed: int, overlays: list[str] | None, sets: list[str] | None) -> str:
    """The command that trains this arm alone, for the reader to paste."""
    words = ["attnres", "train", ref, "--residual", scheme]
    words += [word for overlay in overlays or () for word in ("--overlay", overlay)]
    words += [word for each in sets or () for word in ("--set", each)]
    return shlex.join([*words, "--seed", str(seed)])


def _train(preset: Preset, runs_dir: Path) -> RunDirectory:
    """Train one arm; ends the program, as `attnres train` does, when it is interrupted."""
    from attnres_cli.cli.train import train_preset
    from attnres_cli.train.loop import resume_command

    result = train_preset(preset, runs_dir)
    if result.status != "finished":
        _say(f"resume with: {resume_command(result.run)}")
        raise typer.Exit(ExitCode.INTERRUPTED)
    return result.run


def _compare(runs: list[str], runs_dir: Path, as_json: bool) -> None:
    from attnres_cli.cli.compare import compare

    _say(f"comparing: {shlex.join(['attnres', 'compare', *runs])}")
    compare(runs, runs_dir=runs_dir, json=as_json)
    _say("go on with: attnres sweep depth-width --dry-run, or a preset of your own: attnres presets cp cpu-small mine")


def _say(text: str) -> None:
    typer.echo(text, err=True)
