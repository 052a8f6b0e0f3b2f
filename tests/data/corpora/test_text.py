from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.data.corpora.text import Config, documents
from attnres_cli.errors import UserError


def read(folder: Path, *files: str) -> list[tuple[str, bytes]]:
    return [(document.name, document.text) for document in documents(Config(corpus="text", files=files), folder)]


def test_files_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    assert read(tmp_path, "*.txt") == [("dos.txt", b"one\r\ntwo\r\n"), ("latin.txt", b"caf\xe9")]


def test_empty_file_is_refused_by_name_and_passed_on_under_a_glob(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    assert read(tmp_path, "*.txt") == [("empty.txt", b"")]
    with pytest.raises(UserError, match=r"empty\.txt is empty"):
        read(tmp_path, "empty.txt")


def test_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    with pytest.raises(UserError, match=r"loop\.txt"):
        read(tmp_path, "loop.txt")
