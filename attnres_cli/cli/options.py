"""Arguments and options that several commands share, so that each is spelt, explained and completed in one way.

Use them as annotations:

    @app.command()
    def train(preset: PresetArgument, sets: SetOption = None, runs_dir: RunsRootOption = DEFAULT_RUNS_DIR) -> None: ...

Parameters that hold the runs folder must be called `runs_dir`: completion of run names looks it up by that name. The
completion functions read folder names only; a shell waits for them at every press of the tab key.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from attnres_cli.discovery import names
from attnres_cli.errors import UserError, nearest_name
from attnres_cli.preset import catalogue
from attnres_cli.runs.lookup import DEFAULT_ROOT, is_absent, run_names

DEFAULT_RUNS_DIR = DEFAULT_ROOT


def complete_preset(incomplete: str) -> list[str]:
    """Names of presets that start with `incomplete`."""
    return _starting_with(incomplete, catalogue.names("preset"))


def complete_overlay(incomplete: str) -> list[str]:
    """Names of overlays that start with `incomplete`."""
    return _starting_with(incomplete, catalogue.names("overlay"))


def complete_residual(incomplete: str) -> list[str]:
    """Names of residual schemes that start with `incomplete`."""
    return _starting_with(incomplete, names("residual.schemes"))


def complete_set(incomplete: str) -> list[str]:
    """`section.key=`, and after the equals sign the values to choose from; both at once where only one key is left."""
    from attnres_cli.preset.keys import keys_and_choices

    choices = keys_and_choices()
    name, equals, _ = incomplete.partition("=")
    keys = [name] if equals else _starting_with(name, choices)
    if len(keys) > 1 or not choices.get(keys[0] if keys else "", ()):
        return [] if equals else [f"{key}=" for key in keys]
    return [value for choice in choices[keys[0]] if (value := f"{keys[0]}={choice}").startswith(incomplete)]


def complete_device(incomplete: str) -> list[str]:
    """Kinds of devices that start with `incomplete`; whether there is one is found out later."""
    return _starting_with(incomplete, ("auto", "cpu", "cuda"))


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of runs (`name` or `group/name`) in the runs folder of the line being typed."""
    root = Path(ctx.params.get("runs_dir") or os.environ.get("ATTNRES_RUNS") or DEFAULT_RUNS_DIR)
    return _starting_with(incomplete, run_names(root))


def complete_format(incomplete: str) -> list[str]:
    """Names of table formats that start with `incomplete`."""
    return _starting_with(incomplete, names("report.renderers"))


def _starting_with(incomplete: str, candidates: Iterable[str]) -> list[str]:
    return sorted({candidate for candidate in candidates if candidate.startswith(incomplete)})


def _no_file(ctx: typer.Context, param: typer.CallbackParam, root: Path) -> Path:
    """`root`. Raises UserError where it is a file, or would lie in one: no command can use it."""
    there = next((each for each in (root, *root.parents) if os.path.exists(each)), None)
    if there is not None and not there.is_dir() and not ctx.resilient_parsing:
        raise UserError(
            f"{there} is a file, not a folder.", where=_said_by(ctx, param), expected="a folder, or a new one"
        )
    return root


def _there(ctx: typer.Context, param: typer.CallbackParam, root: Path) -> Path:
    """`root`, for a command that lists what is in it. Raises UserError where it is not there, which a list of nothing
    would hide."""
    if is_absent(_no_file(ctx, param, root)) and not ctx.resilient_parsing:
        beside = [each.name for each in root.parent.iterdir() if each.is_dir()] if root.parent.is_dir() else []
        nearest = nearest_name(root.name, beside)
        raise UserError(
            f"There is no folder {root}.",
            where=_said_by(ctx, param),
            expected="the folder that holds the runs",
            nearest=str(root.parent / nearest) if nearest else None,
        )
    return root


def _said_by(ctx: typer.Context, param: typer.CallbackParam) -> str:
    """The option, or the variable that stands in for it."""
    source = ctx.get_parameter_source(str(param.name))
    return "$ATTNRES_RUNS" if source is not None and source.name == "ENVIRONMENT" else "--runs-dir"


PresetArgument = Annotated[
    str,
    typer.Argument(
        metavar="PRESET",
        help="Name of a preset (`attnres presets ls`) or path of a TOML file.",
        autocompletion=complete_preset,
    ),
]
OverlayOption = Annotated[
    list[str] | None,
    typer.Option(
        "--overlay",
        metavar="NAME",
        help="Put a partial preset on top; repeatable, applied in order, before --set.",
        autocompletion=complete_overlay,
    ),
]
ResidualOption = Annotated[
    str | None,
    typer.Option(
        "--residual",
        metavar="SCHEME",
        help="Residual scheme (`attnres presets ls --schemes`), with its defaults, instead of the preset's.",
        autocompletion=complete_residual,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Override one key (a TOML value); repeatable, applied last.",
        autocompletion=complete_set,
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Name of a run, a beginning or end that only it has, or its path.",
        autocompletion=complete_run,
    ),
]
RunsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN",
        help="Names of runs, beginnings or ends that only one has, paths, or names of groups.",
        autocompletion=complete_run,
    ),
]
_RUNS_HELP = "Folder that holds the runs."
RunsRootOption = Annotated[
    Path,
    typer.Option("--runs-dir", envvar="ATTNRES_RUNS", metavar="FOLDER", help=_RUNS_HELP, callback=_no_file),
]
ListedRootOption = Annotated[
    Path,
    typer.Option("--runs-dir", envvar="ATTNRES_RUNS", metavar="FOLDER", help=_RUNS_HELP, callback=_there),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, numbers in full precision.")]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="table, markdown, latex, csv or json; without it the file's suffix decides, else table.",
        autocompletion=complete_format,
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the result to exactly this file.")
]
