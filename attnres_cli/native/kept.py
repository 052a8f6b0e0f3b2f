"""A built library on disk, kept with its size and its SHA-256 in a file beside it: LIBRARY.sum.

Loading a library that ends too early kills the process with a signal, which nothing can catch. So no library is loaded
that is not, to the last byte, the one that was built; one without a sum, as older versions left them, counts as
damaged.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

# A key of the sum: this one was built because another of the same sum did not load.
SECOND = "second_attempt"


def keep(built: Path, library: Path, *, second_attempt: bool = False) -> None:
    """Put `built`, a file in a folder below that of `library`, in its place; the sum comes last. Raises OSError.

    Both are on the disk before they have their names: a machine that stops here leaves no library, or one without a
    sum.
    """
    told = {**_measured(built), SECOND: second_attempt}
    _sync(built)
    built.replace(library)
    text = built.with_name(f"{built.name}.sum")
    text.write_text(json.dumps(told) + "\n", encoding="ascii")
    _sync(text)
    text.replace(sum_of(library))
    _sync(library.parent)


def damage(library: Path) -> str | None:
    """Why `library` must not be loaded, as words after "it"; None where it is the one that was built."""
    told = _told(library)
    try:
        found = _measured(library)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not told:
        return "has no checksum beside it"
    if found["size_bytes"] != told.get("size_bytes"):
        return f"has {found['size_bytes']:,} bytes instead of {told.get('size_bytes'):,}"
    return None if found["sha256"] == told.get("sha256") else "is not what was built"


def is_second_attempt(library: Path) -> bool:
    """Whether building it anew has been tried, so that trying again would help nobody."""
    return _told(library).get(SECOND) is True


def discard(library: Path) -> None:
    """Remove a library and its sum. Processes that have loaded it go on: they keep the file that they have open."""
    for path in (sum_of(library), library):
        path.unlink(missing_ok=True)


def sum_of(library: Path) -> Path:
    return library.with_name(f"{library.name}.sum")


def _measured(path: Path) -> dict[str, Any]:
    content = path.read_bytes()  # some 400 KB
    return {"size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _told(library: Path) -> dict[str, Any]:
    """What the sum says; nothing where there is none, or none of ours."""
    with suppress(OSError, ValueError, RecursionError):
        told = json.loads(sum_of(library).read_bytes())
        if isinstance(told, dict) and isinstance(told.get("size_bytes"), int):
            return told
    return {}


def _sync(path: Path) -> None:
    """Have what was written to a file, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
