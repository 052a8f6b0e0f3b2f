"""Which presets there are, whose they are, and what hides what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from attnres_cli.errors import UserError
from attnres_cli.preset.catalogue import entries, find, find_either, is_path, names, shown
from attnres_cli.shipped import shipped_folder

Write = Callable[[str, str], Path]


def test_built_in_presets_everywhere(project: Path) -> None:
    assert {"cpu-tiny", "cpu-small", "cpu-deep", "gpu-124m", "gpu-350m", "gpu-deep-124m"} <= set(names())
    assert {"muon", "wsd", "bf16", "attnres-full", "attnres-block", "prenorm"} <= set(names("overlay"))
    assert {entry.place for entry in entries()} == {"built in"}


def test_the_project_hides_the_user_who_hides_the_built_in(write: Write, user_presets: Path) -> None:
    (user_presets / "cpu-tiny.toml").write_text("# the user's\n")
    (user_presets / "mine.toml").write_text("[model]\n")
    entry = find("cpu-tiny")
    assert (entry.place, entry.summary) == ("user", "the user's")
    assert entry.shadows == (shipped_folder("presets") / "cpu-tiny.toml",)
    path = write("presets/cpu-tiny.toml", "\n  ## the project's\n# more\n")
    entry = find("cpu-tiny")
    assert (entry.place, entry.summary) == ("project", "the project's")
    assert [each.parent for each in entry.shadows] == [user_presets, shipped_folder("presets")]
    assert entry.shadowing_note is not None
    assert "presets/cpu-tiny.toml" in entry.shadowing_note
    assert find("mine").summary == ""
    assert find("mine").shadowing_note is None
    below = find("cpu-tiny", below=path)
    assert below.path == user_presets / "cpu-tiny.toml"
    assert find("cpu-tiny", below=below.path).path == shipped_folder("presets") / "cpu-tiny.toml"
    with pytest.raises(UserError):
        find("cpu-tiny", below=shipped_folder("presets") / "cpu-tiny.toml")


def test_inside_a_clone_the_project_folder_is_the_built_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shipped_folder("presets").parent)
    assert {entry.place for entry in entries()} == {"built in"}
    assert not any(entry.shadows for entry in entries())


def test_overlays_are_apart(write: Write) -> None:
    write("presets/overlays/fast.toml", "# Quick.\n")
    assert "fast" in names("overlay")
    assert "fast" not in names("preset")
    assert find_either("fast").kind == "overlay"
    assert find_either("cpu-tiny").kind == "preset"
    assert find_either("presets/overlays/fast.toml").kind == "overlay"


def test_names_that_are_not_there(project: Path) -> None:
    with pytest.raises(UserError) as caught:
        find("cpu-tinny", where="my.toml:1")
    (fault,) = caught.value.faults
    assert (fault.nearest, fault.where) == ("cpu-tiny", "my.toml:1")
    with pytest.raises(UserError) as caught:
        find_either("presets/cpu-tiny.tml")
    assert "no file" in caught.value.faults[0].what
    (project / "local").write_text("")
    with pytest.raises(UserError) as caught:
        find("local")
    assert caught.value.faults[0].hint == "./local"


@pytest.mark.parametrize(
    ("ref", "expected"),
    [("a", False), ("cpu-tiny", False), ("a.toml", True), ("./a", True), ("x/a", True), (Path("a"), True)],
)
def test_what_is_a_path(ref: str | Path, expected: bool) -> None:
    assert is_path(ref) is expected


def test_paths_are_shown_as_a_user_would_type_them(project: Path) -> None:
    assert shown(project / "base.toml") == "base.toml"
    assert shown(Path("base.toml")) == "base.toml"
    assert shown(Path("/elsewhere/base.toml")) == "/elsewhere/base.toml"
