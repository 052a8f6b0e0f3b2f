"""`attnres presets ls|show|cp|check|diff`: find, read, copy, judge and compare presets.

`ls`, `cp` and a plain `show` read text only; what validates a preset loads its residual scheme, and with it torch.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnres_cli.cli.options import (
    JsonOption,
    OverlayOption,
    ResidualOption,
    SetOption,
    complete_overlay,
    complete_preset,
)
from attnres_cli.cli.preset_tables import list_schemes, print_ablations, print_table

if TYPE_CHECKING:
    from attnres_cli.preset.catalogue import Entry
    from attnres_cli.preset.reading import Checked, Preset

app = typer.Typer(no_args_is_help=True, help="List, show, copy, check and compare presets.")


def complete_either(incomplete: str) -> list[str]:
    """Names of presets and overlays that start with `incomplete`."""
    return [*complete_preset(incomplete), *complete_overlay(incomplete)]


EitherArgument = Annotated[
    str,
    typer.Argument(
        metavar="PRESET", help="Name of a preset or overlay, or path of a TOML file.", autocompletion=complete_either
    ),
]
OriginsOption = Annotated[
    bool, typer.Option("--origins", help="Where each value comes from: file and line, or option.")
]


@app.command("ls")
def list_them(
    overlays: Annotated[
        bool, typer.Option("--overlays", help="List overlays, partial presets to put on others.")
    ] = False,
    ablations: Annotated[
        bool,
        typer.Option("--ablations", help="List the overlays that are rows of the paper's ablations, with its figures."),
    ] = False,
    schemes: Annotated[
        bool, typer.Option("--schemes", help="List the residual schemes, for --residual, with their formulas.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """List the presets: the project's (./presets), yours, and those that come with the program."""
    from attnres_cli.preset.catalogue import entries, shown

    if schemes:
        list_schemes(json)
        return
    found = entries("overlay" if overlays or ablations else "preset")
    if overlays or ablations:
        found = tuple(entry for entry in found if entry.is_ablation == ablations)
    for entry in found:
        _note(entry.shadowing_note)
    if ablations and not json:
        print_ablations(found)
        return
    if json:
        from attnres_cli.cli.console import print_json

        print_json("presets", {"presets": [_entry_dict(entry) for entry in found]})
        return
    rows = tuple(
        {"name": each.name, "place": each.place, "summary": each.summary or shown(each.path)} for each in found
    )
    print_table("presets", (("name", "name"), ("place", "from"), ("summary", "what it is")), rows)


@app.command("show")
def show(
    preset: EitherArgument,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="Everything that is in effect: parents, overlays, options, defaults.")
    ] = False,
    origins: OriginsOption = False,
    residual: ResidualOption = None,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Show a preset's file as written, or with --resolved (or any option that changes it) all that is in effect."""
    if not (resolved or origins or residual or overlays or sets):
        _show_file(preset, json)
        return
    from attnres_cli.preset.reading import load_preset

    loaded = load_preset(preset, overlays=overlays or (), residual=residual, sets=sets or ())
    _notes(loaded)
    if json:
        _print_json(loaded)
    elif origins:
        _print_origins(loaded)
    else:
        changes = [
            *(f"--overlay {each}" for each in overlays or ()),
            *([f"--residual {residual}"] if residual else []),
            *(f"--set {each}" for each in sets or ()),
        ]
        typer.echo(" ".join(["#", loaded.name, *changes]) + ", resolved: every key and the value in effect.\n")
        typer.echo(loaded.to_toml(), nl=False)


@app.command("cp")
def copy(
    preset: EitherArgument,
    destination: Annotated[
        Path, typer.Argument(metavar="DEST", help="The new file (.toml), or a folder to put it in.")
    ],
    json: JsonOption = False,
) -> None:
    """Copy a preset to a file of your own, comments and all. Never overwrites."""
    from attnres_cli.preset.catalogue import shown
    from attnres_cli.preset.copying import copy_preset

    written = shown(copy_preset(preset, destination))
    if json:
        from attnres_cli.cli.console import print_json

        print_json("presets.cp", {"path": written})
        return
    typer.echo(written)
    typer.echo(f"Edit it, then: attnres presets check {written}", err=True)


@app.command("check")
def check(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Files or names of presets and overlays.", autocompletion=complete_either),
    ],
    json: JsonOption = False,
) -> None:
    """Check presets and overlays; every error of every file at once, each with its line.

    Corpus files, packages and tokenizer files are looked for; nothing is prepared or downloaded.
    """
    from attnres_cli.data.inputs import missing_inputs
    from attnres_cli.errors import ExitCode, UserError
    from attnres_cli.preset.reading import check_file

    checked = [check_file(file, inputs=missing_inputs) for file in files]
    faults = [fault for each in checked for fault in each.faults]
    for note in dict.fromkeys(note for each in checked for note in each.notes):
        _note(note)
    if json:
        from attnres_cli.cli.console import print_json

        print_json("presets.check", {"files": [_checked_dict(each) for each in checked]})
        raise typer.Exit(ExitCode.INPUT if faults else ExitCode.DONE)
    for each in checked:
        if not each.faults:
            typer.echo(f"{each.name}: {each.kind}, no errors{_found_at(each)}")
    if faults:
        raise UserError(faults)


@app.command("diff")
def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A preset or file.", autocompletion=complete_preset)],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.", autocompletion=complete_preset)],
    json: JsonOption = False,
) -> None:
    """Show the keys in which two presets differ, parents and defaults included, and nothing else."""
    from attnres_cli.preset.difference import differences
    from attnres_cli.preset.reading import load_preset

    one, other = load_preset(first, asked_by="A"), load_preset(second, asked_by="B")
    for each in (one, other):
        _notes(each)
    found = differences(one, other)
    if json:
        from attnres_cli.cli.console import print_json

        pairs = [{"key": each.key, "a": each.first, "b": each.second} for each in found]
        print_json("presets.diff", {"a": first, "b": second, "differences": pairs})
        return
    if not found:
        typer.echo("no differences")
        return
    rows = tuple({"key": each.key, "a": _written(each.first), "b": _written(each.second)} for each in found)
    print_table("differences", (("key", "key"), ("a", first), ("b", second)), rows)


def _show_file(ref: str, json: bool) -> None:
    from attnres_cli.preset.catalogue import find_either, shown
    from attnres_cli.preset.toml import parse, read_text

    entry = find_either(ref, where="PRESET")
    _note(entry.shadowing_note)
    text = read_text(entry.path, shown(entry.path))
    if not json:
        typer.echo(text, nl=not text.endswith("\n"))
    elif entry.kind == "preset":
        from attnres_cli.preset.reading import load_preset

        _print_json(load_preset(ref))
    else:
        from attnres_cli.cli.console import print_json

        print_json("preset", {**_entry_dict(entry), "values": parse(text, shown(entry.path)), "text": text})


def _print_json(preset: Preset) -> None:
    from attnres_cli.cli.console import print_json

    derived = ("steps", "sequences_per_step", "accumulation_steps", "warmup_steps", "decay_steps")
    print_json(
        "preset",
        {
            "name": preset.name,
            "kind": "preset",
            "path": preset.source_path,
            "values": preset.to_dict(),
            "origins": {key: str(origin) for key, origin in preset.origins.items()},
            "derived": {key: getattr(preset, key) for key in derived},
            "digest": preset.digest(),
            "text": preset.source_text,
        },
    )


def _print_origins(preset: Preset) -> None:
    values = {f"{section}.{key}": each for section, keys in preset.to_dict().items() for key, each in keys.items()}
    rows = tuple(
        {"key": key, "value": _written(each), "origin": str(preset.origins[key])} for key, each in values.items()
    )
    print_table("origins", (("key", "key"), ("value", "value"), ("origin", "from")), rows)


def _entry_dict(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": entry.kind,
        "from": entry.place,
        "path": entry.path,
        "summary": entry.summary,
        "hides": list(entry.shadows),
        **({"paper": [asdict(row) for row in entry.paper_rows]} if entry.is_ablation else {}),
    }


def _checked_dict(checked: Checked) -> dict[str, Any]:
    return {
        "name": checked.name,
        "kind": checked.kind,
        "path": checked.path,
        "errors": list(checked.faults),
        "notes": list(checked.notes),
    }


def _found_at(checked: Checked) -> str:
    """The file that a name led to; nothing where the user gave the path."""
    from attnres_cli.preset.catalogue import is_path, shown

    return "" if checked.path is None or is_path(checked.name) else f" ({shown(checked.path)})"


def _written(value: Any) -> str | None:
    from attnres_cli.preset.toml import format_value

    return None if value is None else format_value(value)


def _notes(preset: Preset) -> None:
    for note in preset.notes:
        _note(note)


def _note(note: str | None) -> None:
    if note:
        typer.echo(f"note: {note}", err=True)
