"""A preset's file, copied to where its new owner wants it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from attnres_cli.errors import UserError
from attnres_cli.preset.catalogue import find_either, is_path, shown
from attnres_cli.preset.positions import key_lines
from attnres_cli.preset.toml import format_value, parse, read_text


def copy_preset(ref: str, destination: Path) -> Path:
    """Copy the preset or overlay `ref` (name or path) to the file `destination`, or into it where it is a folder.

    Missing folders are made; `extends` with a relative path is rewritten for the new place. Returns the file. Raises
    UserError where the file exists, whatever it is: nothing is ever overwritten.
    """
    source = find_either(ref, where="PRESET").path
    target = destination / source.name if destination.is_dir() else destination
    if target.suffix != ".toml":
        raise UserError(
            f"{shown(target)} does not end in .toml.", expected=f"{shown(target)}.toml, or a folder that exists"
        )
    text = _moved(read_text(source, shown(source)), source, target)
    try:
        if target.is_symlink() or target.exists():
            raise UserError(
                f"{shown(target)} exists already; it is left as it is.",
                expected="a file that is not there yet",
                hint=f"attnres presets cp {ref} {_free_name(target)}",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8", newline="") as file:  # x: not even one that appears at this moment
            file.write(text)
    except OSError as error:
        raise UserError(f"{shown(target)} cannot be written: {error.strerror}.", where=shown(target)) from None
    return target


def _moved(text: str, source: Path, target: Path) -> str:
    """The text with `extends`, where that is a relative path, naming the same file from the new place."""
    extends = parse(text, shown(source)).get("extends")
    if not isinstance(extends, str) or not is_path(extends) or Path(extends).expanduser().is_absolute():
        return text
    parent = os.path.relpath(source.resolve().parent / extends, target.resolve().parent)
    if not is_path(parent):
        parent = f"./{parent}"
    lines = text.split("\n")
    row = key_lines(text)[("extends",)] - 1
    lines[row] = re.sub(r"=.*?(?=\s*(#|\r?$))", lambda _: f"= {format_value(parent)}", lines[row], count=1)
    return "\n".join(lines)


def _free_name(taken: Path) -> str:
    number = 2
    while (free := taken.with_stem(f"{taken.stem}-{number}")).exists():
        number += 1
    return shown(free)
