"""A library that is not what was built is never loaded: the loader would end the process with a signal."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attnres_cli.native import build, kept
from attnres_cli.residual.backends import choose_backend
from tests.native.test_build import anew, needs_gcc, program, started

assert anew, "a fixture of this file, too"


def library_of_all_tests() -> Path:
    found = build.find_compiler()
    assert found is not None
    assert build.load() is None
    return build.cache_folder() / f"attnres-{build._fingerprint(found[1])}.so"


def compiler(folder: Path, link: str) -> str:
    """A compiler of the real one's version: it compiles nothing, and links by a shell command whose last word is the
    library."""
    found = build.find_compiler()
    assert found is not None
    for answer in (build.load, build.find_compiler):  # whoever asks next is told of this one
        answer.cache_clear()
    return program(
        folder / "g++",
        f"""[ "$1" = --version ] && exec {found[0]} --version
what=$1
while [ "$1" != -o ]; do shift; done
if [ "$what" = -c ]; then echo compiled > "$2"; else {link} "$2"; fi""",
    )


def cut(library: Path) -> None:
    """As a machine leaves it that stopped while the library was written."""
    os.truncate(library, 5000)


def empty(library: Path) -> None:
    os.truncate(library, 0)


def turn_a_bit(library: Path) -> None:
    content = bytearray(library.read_bytes())
    content[len(content) // 2] ^= 1
    library.write_bytes(content)


def forget_the_sum(library: Path) -> None:
    """As older versions left it."""
    kept.sum_of(library).unlink()


def cut_the_sum(library: Path) -> None:
    os.truncate(kept.sum_of(library), 20)


DAMAGES: dict[Callable[[Path], None], str] = {
    cut: "has 5,000 bytes instead of ",
    empty: "has 0 bytes instead of ",
    turn_a_bit: "is not what was built",
    forget_the_sum: "has no checksum beside it",
    cut_the_sum: "has no checksum beside it",
}


def keep_a_copy(library: Path, folder: Path) -> Path:
    """What a build would leave in `folder`."""
    (folder / "unit").mkdir(parents=True)
    built = folder / "unit" / library.name
    shutil.copyfile(library, built)
    kept.keep(built, folder / library.name)
    return folder / library.name


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_damage_is_seen(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    original = tmp_path / "attnres-0.so"
    original.write_bytes(os.urandom(20_000))
    library = keep_a_copy(original, tmp_path / "kept")
    assert kept.damage(library) is None
    damage(library)
    assert str(kept.damage(library)).startswith(DAMAGES[damage])


@needs_gcc
@pytest.mark.parametrize("damage", [cut, empty, forget_the_sum], ids=lambda damage: damage.__name__)
def test_a_damaged_library_is_built_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Through the loader, in a process that would die of it."""
    original = library_of_all_tests()
    library = keep_a_copy(original, tmp_path / "built")
    damage(library)
    process = started(library.parent, CXX=compiler(tmp_path, f"cp {original}"))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "load: None\nback end: cpu | first choice on cpu\n" in out
    (line,) = (line for line in err.splitlines() if "Building" in line)
    assert line.startswith("Building the C++ operators again with ")
    assert f"{library} {DAMAGES[damage]}" in line
    assert library.read_bytes() == original.read_bytes()
    assert kept.damage(library) is None


@needs_gcc
@pytest.mark.usefixtures("anew")
def test_a_damaged_library_that_cannot_be_built_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    library = keep_a_copy(library_of_all_tests(), tmp_path / "built")
    cut(library)
    monkeypatch.setenv("CXX", compiler(tmp_path, "echo 'x.cpp:1: error: no room' >&2; exit 1;"))
    monkeypatch.setenv(build.FOLDER_VARIABLE, str(library.parent))
    assert build.load() == "the C++ operators do not link: x.cpp:1: error: no room"
    assert choose_backend("auto", "cpu").op.NAME == "torch"
    assert capfd.readouterr().err.count("Building the C++ operators again") == 1
    assert {path.name for path in library.parent.iterdir()} == {".lock", "unit"}


@needs_gcc
@pytest.mark.usefixtures("anew")
def test_a_library_that_does_not_load_is_built_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a compiler makes of the same sources the second time will not be better the third time."""
    monkeypatch.setenv("CXX", compiler(tmp_path, "echo no library >"))
    monkeypatch.setenv(build.FOLDER_VARIABLE, str(tmp_path / "built"))
    for builds in (["with", "again"], []):
        assert str(build.load()).startswith("the built library does not load: ")
        told = [line.split()[4] for line in capfd.readouterr().err.splitlines() if line.startswith("Building")]
        assert told == builds
        build.load.cache_clear()
    assert choose_backend("auto", "cpu").op.NAME == "torch"


@pytest.mark.skipif(platform.system() != "Linux", reason="asks /proc for names")
def test_a_library_has_its_name_only_when_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[tuple[str, str]] = []
    fsync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        happened.append(("synced", os.readlink(f"/proc/self/fd/{handle}").rpartition("/")[2]))
        fsync(handle)

    def replaced(path: Path, target: Path) -> Path:
        happened.append(("named", target.name))
        return replace(path, target)

    original = tmp_path / "a.so"
    original.write_bytes(b"library")
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    keep_a_copy(original, tmp_path / "kept")
    assert happened == [
        ("synced", "a.so"), ("named", "a.so"), ("synced", "a.so.sum"), ("named", "a.so.sum"), ("synced", "kept"),
    ]  # fmt: skip
