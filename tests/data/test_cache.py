from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from attnres_cli.caches import default_cache_folder
from attnres_cli.data.cache import add_entry, find_entry
from attnres_cli.errors import UserError


def write_content(content: bytes) -> Any:
    def write(folder: Path) -> dict[str, Any]:
        (folder / "train.bin").write_bytes(content)
        return {"answer": 42}

    return write


def left_over(cache: Path) -> list[str]:
    return [path.name for path in (cache / "data").iterdir() if path.name.startswith(".")]


def test_entry_is_found_again(tmp_path: Path) -> None:
    assert find_entry(tmp_path, "key") is None
    folder, meta = add_entry(tmp_path, "key", write_content(b"abc"))
    assert meta["answer"] == 42
    assert (folder / "train.bin").read_bytes() == b"abc"
    assert find_entry(tmp_path, "key") == (folder, meta)
    assert left_over(tmp_path) == []


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> dict[str, Any]:
        (folder / "train.bin").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_entry(tmp_path, "key", fail)
    assert list((tmp_path / "data").iterdir()) == []


def test_the_first_of_two_writers_wins(tmp_path: Path) -> None:
    both_have_written = Barrier(2)

    def write(number: int) -> tuple[Path, dict[str, Any]]:
        def fill(folder: Path) -> dict[str, Any]:
            (folder / "train.bin").write_bytes(b"same")
            both_have_written.wait()
            return {"writer": number}

        return add_entry(tmp_path, "key", fill)

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(write, range(2))
    assert one == other == find_entry(tmp_path, "key")
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("damage", ["shorter", "missing", "no meta", "torn meta"])
def test_damaged_entry_is_made_again(tmp_path: Path, damage: str) -> None:
    folder, _ = add_entry(tmp_path, "key", write_content(b"abc"))
    if damage == "shorter":
        (folder / "train.bin").write_bytes(b"ab")
    elif damage == "missing":
        (folder / "train.bin").unlink()
    elif damage == "no meta":
        (folder / "meta.json").unlink()
    else:
        (folder / "meta.json").write_text(json.dumps({"file_bytes": {}})[:7])
    assert find_entry(tmp_path, "key") is None
    folder, _ = add_entry(tmp_path, "key", write_content(b"whole"))
    assert (folder / "train.bin").read_bytes() == b"whole"
    assert left_over(tmp_path) == []


def test_what_killed_writers_left_is_removed_in_time(tmp_path: Path) -> None:
    old, young = tmp_path / "data" / ".unfinished-1-aa", tmp_path / "data" / ".unfinished-2-bb"
    for folder in (old, young):
        folder.mkdir(parents=True)
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    add_entry(tmp_path, "key", write_content(b"abc"))
    assert left_over(tmp_path) == [young.name]


def test_folder_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="can't be written") as caught:
        add_entry(tmp_path / "file", "key", write_content(b"abc"))
    assert "ATTNRES_CACHE" in str(caught.value.faults[0].hint)


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path / "own"))
    assert default_cache_folder() == tmp_path / "own"
    monkeypatch.delenv("ATTNRES_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache_folder() == tmp_path / "xdg" / "attnres"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / ".cache" / "attnres"
