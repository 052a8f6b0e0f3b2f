"""A copy is byte for byte the original, means the same, and never overwrites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import UserError
from attnres_cli.preset.copying import copy_preset
from attnres_cli.preset.reading import load_preset
from attnres_cli.shipped import shipped_folder

Write = Callable[[str, str], Path]


def test_copies_comments_and_all(project: Path) -> None:
    original = (shipped_folder("presets") / "cpu-tiny.toml").read_bytes()
    assert copy_preset("cpu-tiny", Path("my.toml")).read_bytes() == original
    assert copy_preset("cpu-tiny", Path("presets/new/my.toml")).read_bytes() == original
    assert copy_preset("cpu-tiny", project) == project / "cpu-tiny.toml"
    assert copy_preset("muon", project) == project / "muon.toml"
    Path("windows.toml").write_bytes(original.replace(b"\n", b"\r\n"))
    assert copy_preset("windows.toml", Path("copy.toml")).read_bytes() == original.replace(b"\n", b"\r\n")


def test_never_overwrites(project: Path) -> None:
    before = Path("base.toml").read_bytes()
    Path("base-2.toml").touch()
    Path("dangling.toml").symlink_to("nowhere")
    with pytest.raises(UserError) as caught:
        copy_preset("cpu-tiny", Path("base.toml"))
    (fault,) = caught.value.faults
    assert "exists already" in fault.what
    assert fault.hint == "attnres presets cp cpu-tiny base-3.toml"
    with pytest.raises(UserError, match="exists already"):
        copy_preset("base.toml", Path("base.toml"))
    with pytest.raises(UserError, match="exists already"):
        copy_preset("base.toml", Path("dangling.toml"))
    assert Path("base.toml").read_bytes() == before


def test_destinations_that_cannot_be(project: Path) -> None:
    with pytest.raises(UserError) as caught:
        copy_preset("cpu-tiny", Path("my"))
    assert str(caught.value.faults[0].expected).startswith("my.toml")
    with pytest.raises(UserError, match="cannot be written"):
        copy_preset("cpu-tiny", Path("base.toml/my.toml"))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_relative_parent_stays_the_parent(members: Any, write: Write, project: Path, ending: str) -> None:
    text = '# mine\nextends = "base.toml" # the base\n[train]\nseed = 1\n'.replace("\n", ending)
    (project / "child.toml").write_bytes(text.encode())
    copy_preset("child.toml", Path("deep/er/child.toml"))
    copied = (project / "deep/er/child.toml").read_bytes().decode()
    assert copied == text.replace('"base.toml"', '"../../base.toml"')
    assert load_preset("deep/er/child.toml", members=members) == load_preset("child.toml", members=members)
    copy_preset("deep/er/child.toml", Path("back.toml"))
    assert load_preset("back.toml", members=members) == load_preset("child.toml", members=members)
