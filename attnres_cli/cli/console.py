"""Where output goes: results on stdout, progress and errors on stderr, and how each looks off a terminal.

Rich is imported inside the functions, so that a command that prints plain lines never loads it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from attnres_cli.errors import Fault, UserError

if TYPE_CHECKING:
    from rich.console import Console

# Wider than any table: off a terminal nothing is wrapped or cut, because a program or a file reads it.
UNLIMITED_WIDTH = 100_000


def stdout() -> Console:
    """The console for results. Off a terminal: no colour, no wrapping, nothing cut."""
    return _console(sys.stdout, on_stderr=False)


def stderr() -> Console:
    """The console for progress and messages. Off a terminal: no colour, no wrapping, nothing cut."""
    return _console(sys.stderr, on_stderr=True)


def is_interactive(stream: TextIO) -> bool:
    """Whether `stream` is a terminal that somebody may be watching (a live display is allowed)."""
    try:
        return stream.isatty()
    except ValueError:  # the stream is closed
        return False


def _console(stream: TextIO, *, on_stderr: bool) -> Console:
    from rich.console import Console

    # Markup is off for every string: a run called "[bold]" is shown as it is. Style through rich.text.Text instead.
    return Console(
        stderr=on_stderr,
        width=None if is_interactive(stream) else UNLIMITED_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
    )


def print_json(kind: str, payload: Mapping[str, Any]) -> None:
    """Write one JSON object {"schema": "attnres.<kind>/1", …payload} to stdout, numbers in full precision.

    JSON has no NaN and no infinity: both become null.
    """
    document = {"schema": f"attnres.{kind}/1", **payload}
    sys.stdout.write(json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """`value` in the types that JSON knows."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "tolist"):  # arrays and numbers of numpy and torch
        return _plain(value.tolist())
    raise TypeError(f"{type(value).__name__} has no JSON form")


def show_error(error: UserError) -> None:
    """Show every fault of `error` on stderr: one panel on a terminal, plain lines elsewhere."""
    if is_interactive(sys.stderr):
        _show_error_panel(error.faults)
    else:
        sys.stderr.write("\n".join(_plain_lines(error.faults)) + "\n")
        sys.stderr.flush()


def show_error_as_json(faults: Sequence[Fault], exit_code: int) -> None:
    """Write the faults to stderr as one JSON object on one line, the last line of a command that was asked for JSON."""
    document = {"schema": "attnres.error/1", "exit_code": int(exit_code), "errors": list(faults)}
    sys.stderr.write(json.dumps(_plain(document), ensure_ascii=False, allow_nan=False) + "\n")
    sys.stderr.flush()


def _details(fault: Fault) -> list[tuple[str, str]]:
    pairs = [("where", fault.where), ("expected", fault.expected), ("nearest", fault.nearest), ("try", fault.hint)]
    return [(label, text) for label, text in pairs if text]


def _plain_lines(faults: Sequence[Fault]) -> list[str]:
    lines = []
    for fault in faults:
        lines.append(f"error: {fault.what}")
        lines += [f"  {label}: {text}" for label, text in _details(fault)]
    return lines


def _show_error_panel(faults: Sequence[Fault]) -> None:
    from rich.console import Group, RenderableType
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = []
    for fault in faults:
        if parts:
            parts.append(Text())
        parts.append(Text(fault.what, style="bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for label, text in _details(fault):
            grid.add_row(label, Text(text, style="green" if label in ("nearest", "try") else ""))
        if grid.row_count:
            parts.append(grid)
    title = "error" if len(faults) == 1 else f"{len(faults)} errors"
    stderr().print(Panel(Group(*parts), title=title, title_align="left", border_style="red"))
