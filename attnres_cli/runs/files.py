"""Files that survive a crash: written whole or appended line by line, and read with a torn line left out.

A reader never locks and never fails on a half-written line; a writer never leaves a half-written file under its final
name. Reading text that somebody else wrote is reading.py's affair.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnres_cli.runs.reading import parsed_json, parsed_lines

Row = dict[str, Any]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError of the body names `path`: one that comes while a file is being written names none, or a temporary."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content` (text as UTF-8) in one step: a reader sees the old file or the new one, never a part.

    The folder has to exist. Raises OSError (disk full, no permission); then `path` is what it was before.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    # Short on purpose: a temporary name built from a long file name could exceed the file system's limit.
    temporary = path.parent / f".write-{os.getpid()}-{os.urandom(4).hex()}.tmp"
    try:
        with naming(path), temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):  # a disk that cannot be written refuses this as well
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one JSON object whole, indented for people; see `json_text` for numbers that are not finite."""
    write_whole(path, json_text(value, indent=2) + "\n")


def append_line(path: Path, line: str) -> None:
    """Append one line and hand it to the operating system at once.

    If an earlier writer died in the middle of a line, that torn line is closed first, so that it cannot swallow this
    one.
    """
    assert "\n" not in line, "one line at a time"
    with naming(path), path.open("ab+") as handle:
        if handle.tell() > 0:
            handle.seek(-1, os.SEEK_END)
            if handle.read(1) != b"\n":
                handle.write(b"\n")
        handle.write(line.encode("utf-8") + b"\n")


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append one JSON object as one line."""
    append_line(path, json_text(row))


@dataclass(frozen=True)
class Rows:
    """The rows of a JSONL file. torn: how many lines were no JSON object and were left out."""

    rows: list[Row]
    torn: int = 0


def read_rows(path: Path) -> Rows:
    """Every complete row of a JSONL file; a file that does not exist has none."""
    try:
        return _parsed(path.read_bytes())
    except FileNotFoundError:
        return Rows([])


def _parsed(content: bytes) -> Rows:
    lines = [line for line in content.split(b"\n") if line.strip()]
    try:  # One parse of the whole file takes half the time of one parse per line.
        values = parsed_lines(lines)
        if len(values) == len(lines) and all(type(value) is dict for value in values):
            return Rows(values)
    except ValueError:
        pass
    rows = [row for line in lines if (row := parsed_row(line)) is not None]
    return Rows(rows, torn=len(lines) - len(rows))


def parsed_row(line: bytes) -> Row | None:
    """The JSON object of one line; None for a line that holds none."""
    try:
        value = parsed_json(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_last_rows(path: Path, tail_bytes: int = 65536) -> Rows:
    """The complete rows among the last `tail_bytes` of a JSONL file, for a quick look at how it ends."""
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - tail_bytes))
            tail = handle.read()
    except FileNotFoundError:
        return Rows([])
    if size > tail_bytes:  # the first line was most likely cut
        tail = tail.partition(b"\n")[2]
    return _parsed(tail)


def read_json(path: Path) -> Row:
    """One JSON object. Raises FileNotFoundError, or ValueError when the file holds anything else."""
    value = parsed_json(path.read_bytes())
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds no JSON object")
    return value


def json_or_nothing(path: Path) -> Row:
    """One JSON object; an empty one where the file is missing, cannot be read, or holds anything else."""
    try:
        return read_json(path)
    except (OSError, ValueError):
        return {}


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON at full precision that every parser reads: a number that is not finite becomes null, an array becomes a
    list."""
    return json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if value is None or type(value) in (str, int, bool):  # most of what there is, so asked first
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if isinstance(value, (int, str)):  # of a subclass: an enumeration's, say
        return value
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # numpy scalars and arrays, tensors; imported by whoever made them
        return _plain(value.tolist())
    raise TypeError(f"cannot write a {type(value).__name__} as JSON")


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; only POSIX lets a folder be opened for that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
