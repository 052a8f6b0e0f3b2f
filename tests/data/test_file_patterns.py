from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.data.file_patterns import find_files
from attnres_cli.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/deep/d.txt", "notes.md", ".hidden.txt", "odd[1].txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def names(patterns: list[str], folder: Path) -> list[str]:
    return [name for name, _ in find_files(patterns, folder, key="data.files")]


def test_globs_are_sorted_and_patterns_keep_their_order(folder: Path) -> None:
    assert names(["notes.md", "?.txt"], folder) == ["notes.md", "a.txt", "b.txt"]
    assert names(["**/*.txt"], folder) == ["a.txt", "b.txt", "odd[1].txt", "sub/c.txt", "sub/deep/d.txt"]


def test_each_file_once(folder: Path) -> None:
    assert names(["b.txt", "*.txt", "sub/../a.txt"], folder) == ["b.txt", "a.txt", "odd[1].txt"]


def test_absolute_paths_and_the_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert [path for _, path in find_files(["~/a.txt", str(folder / "b.txt")], Path("/nowhere"), key="data.files")] == [
        folder / "a.txt",
        folder / "b.txt",
    ]


def test_a_name_with_brackets_is_a_name_first(folder: Path) -> None:
    assert names(["odd[1].txt"], folder) == ["odd[1].txt"]


def test_missing_file_names_the_nearest(folder: Path) -> None:
    with pytest.raises(UserError, match=r"data\.files: there is no file 'note\.md'") as caught:
        names(["note.md"], folder)
    assert caught.value.faults[0].nearest == "notes.md"


def test_glob_without_files(folder: Path) -> None:
    with pytest.raises(UserError, match=r"no file matches 'sub/\*\.md'"):
        names(["sub/*.md"], folder)


def test_folder_instead_of_files(folder: Path) -> None:
    with pytest.raises(UserError, match="names the folder sub/") as caught:
        names(["sub/"], folder)
    assert caught.value.faults[0].hint == 'data.files = ["sub/**/*.txt"]'
