"""Documents on their way out: to the terminal, into a pipe, or whole into one file."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from attnres_cli.report.document import Document

FORMAT_OF_SUFFIX = {".txt": "table", ".md": "markdown", ".csv": "csv", ".json": "json", ".tex": "latex"}


def chosen_format(format_name: str | None, output: Path | None, json: bool) -> str:
    """The format asked for, else the one that the file's suffix names, else "table".

    Raises UserError for a format that does not exist and for --json beside another format.
    """
    from attnres_cli.errors import ExitCode, UserError, nearest_name
    from attnres_cli.report.document import formats

    if json:
        if format_name not in (None, "json"):
            raise UserError(
                f"--json and --format {format_name} exclude each other.", where="--format", exit_code=ExitCode.USAGE
            )
        return "json"
    if format_name is None:
        suffix = output.suffix.lower() if output else ""
        if suffix and suffix not in FORMAT_OF_SUFFIX:
            raise UserError(
                f"No output format belongs to the suffix '{suffix}'.",
                where=str(output),
                expected=", ".join(FORMAT_OF_SUFFIX),
                hint=f"add --format with one of {', '.join(formats())}",
                exit_code=ExitCode.USAGE,
            )
        return FORMAT_OF_SUFFIX.get(suffix, "table")
    if format_name not in formats():
        raise UserError(
            f"There is no output format '{format_name}'.",
            where="--format",
            expected=", ".join(formats()),
            nearest=nearest_name(format_name, formats()),
            exit_code=ExitCode.USAGE,
        )
    return format_name


def check_writable(path: Path) -> None:
    """Raise UserError when there can be no such file, before any work is done for it."""
    from attnres_cli.errors import ExitCode, UserError

    fault = None
    if path.is_dir():
        fault = f"'{path}' is a folder"
    elif not path.absolute().parent.is_dir():
        fault = f"There is no folder '{path.parent}'"
    if fault:
        raise UserError(f"{fault}.", where="--output", expected="the path of a file", exit_code=ExitCode.USAGE)


def print_document(document: Document, format_name: str) -> None:
    """Write the document to stdout: folded and coloured for a terminal, whole and plain into a pipe.

    Characters that the stream's encoding lacks become "?": a table must not end in a traceback.
    """
    from attnres_cli.report.document import render

    width, colour = terminal()
    text = render(document, format_name, width_columns=width, colour=colour)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def write_document(document: Document, format_name: str, path: Path) -> None:
    """Write the document to exactly this file, in one step. Raises UserError when that is not possible."""
    from attnres_cli.report.document import render

    write_text(render(document, format_name), path)


def write_text(text: str, path: Path) -> None:
    """The same for text that is finished."""
    from attnres_cli.errors import UserError
    from attnres_cli.runs.files import write_whole

    target = path.resolve()  # through a link, so that the link stays one
    try:
        write_whole(target, text)
    except OSError as error:
        raise UserError(f"The result cannot be written: {error.strerror or error}.", where=str(path)) from error
    typer.echo(f"wrote {path}", err=True)


def terminal() -> tuple[int | None, bool]:
    """(width in columns, whether colour is wanted) of stdout; (None, False) off a terminal."""
    from attnres_cli.cli.console import is_interactive, stdout

    if not is_interactive(sys.stdout):
        return None, False
    if os.name == "nt":  # Rich knows which of its terminals can show what
        console = stdout()
        return console.width, console.color_system is not None and not console.no_color
    can_colour = os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
    return shutil.get_terminal_size().columns, can_colour and not os.environ.get("NO_COLOR")
