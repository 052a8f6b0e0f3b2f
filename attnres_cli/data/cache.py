"""The folder in which prepared data is kept: complete entries only, whoever else is writing at the same time."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnres_cli.errors import UserError

FORMAT = 1
_META = "meta.json"
_UNFINISHED = ".unfinished-"
_UNFINISHED_KEPT_SECONDS = 24 * 3600


class NotPrepared(Exception):
    """There is no entry, and the caller wanted none to be made."""


def is_empty(cache: Path) -> bool:
    """Whether nothing has been prepared yet."""
    return next((cache / "data").glob("[!.]*"), None) is None and next(cache.glob("[!.]*.json"), None) is None


def find_entry(cache: Path, key: str) -> tuple[Path, dict[str, Any]] | None:
    """Folder and meta data of a complete entry; None when there is none, or it has been cut short or tampered with."""
    folder = cache / "data" / key
    try:
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
        complete = meta["format"] == FORMAT and all(
            (folder / name).stat().st_size == size for name, size in meta["file_bytes"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return (folder, meta) if complete else None


def add_entry(cache: Path, key: str, write: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    """Let `write` fill a new folder and return its meta data, then put it in place, whole, under `key`.

    When another process has put its own there in the meantime, that one is used. Raises UserError when the folder can't
    be written.
    """
    data_folder = cache / "data"
    try:
        data_folder.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(data_folder)
        unfinished = _new_folder(data_folder)
        try:
            meta = write(unfinished)
            files = sorted(unfinished.iterdir())
            meta = {**meta, "format": FORMAT, "file_bytes": {path.name: path.stat().st_size for path in files}}
            (unfinished / _META).write_text(json.dumps(meta, indent=1), encoding="utf-8")
            for path in [*files, unfinished / _META]:
                _flush(path)
            _put_in_place(unfinished, cache, key)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"The cache of prepared data can't be written: {error.strerror or error}.",
            where=str(data_folder),
            expected="a folder with room for the tokens (2 bytes each)",
            hint="set ATTNRES_CACHE to another folder",
        ) from error
    entry = find_entry(cache, key)
    assert entry is not None, f"the entry {key} is not whole after it was written"
    return entry


def _put_in_place(unfinished: Path, cache: Path, key: str) -> None:
    target = cache / "data" / key
    if target.exists() and find_entry(cache, key) is None:  # damaged: out of the way first
        damaged = _new_folder(target.parent)
        os.rename(target, damaged / key)
        shutil.rmtree(damaged, ignore_errors=True)
    try:
        os.rename(unfinished, target)
    except OSError:
        if find_entry(cache, key) is None:  # not because somebody else was first
            raise


def _new_folder(data_folder: Path) -> Path:
    folder = data_folder / f"{_UNFINISHED}{os.getpid()}-{secrets.token_hex(4)}"
    folder.mkdir()
    return folder


def _remove_abandoned(data_folder: Path) -> None:
    """Remove what killed processes left behind, once nobody can still be writing it."""
    for path in data_folder.glob(f"{_UNFINISHED}*"):
        try:
            abandoned = time.time() - path.stat().st_mtime > _UNFINISHED_KEPT_SECONDS
        except OSError:  # its owner has just finished
            continue
        if abandoned:
            shutil.rmtree(path, ignore_errors=True)


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
