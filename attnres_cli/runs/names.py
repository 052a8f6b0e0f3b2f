"""Names of run directories: what may be one, and those that the program makes up."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

from attnres_cli.errors import UserError

LONGEST_NAME = 120


def check_name(name: str) -> None:
    """Raise UserError unless `name` can be the name of a run: one visible folder that no option parser mistakes."""
    fault = None
    if not name.strip():
        fault = "it is empty"
    elif "/" in name or "\\" in name:
        fault = "it contains a path separator"
    elif name[0] in ".-":
        fault = f"it starts with '{name[0]}'"
    elif any(not character.isprintable() for character in name):
        fault = "it contains an invisible character"
    elif len(name.encode("utf-8")) > LONGEST_NAME:
        fault = f"it is longer than {LONGEST_NAME} bytes"
    if fault:
        raise UserError(
            f"'{name}' cannot be the name of a run: {fault}.", where="--name", expected="letters, digits, '-', '_', '.'"
        )


def generated_name(stem: str) -> str:
    """`<stem>-<time>-<4 hex digits>`, with "-" for whatever a folder's name had better not hold."""
    safe = re.sub(r"[^A-Za-z0-9_.]+", "-", stem).strip("-.") or "run"
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return f"{safe[: LONGEST_NAME - 21]}-{stamp}-{os.urandom(2).hex()}"
