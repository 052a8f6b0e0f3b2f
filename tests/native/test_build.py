"""The C++ operators are built once, with whatever compiler there is; without one, everything goes on."""

from __future__ import annotations

import os
import platform
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from attnres_cli.native import build, kept
from attnres_cli.residual.backends import choose_backend
from tests import forked
from tests.small import small_model, tokens_and_targets

ROOT = Path(__file__).parent.parent.parent

SCRIPT = """
print("begins", flush=True)
from attnres_cli.native import build
from attnres_cli.residual.backends import choose_backend
print("load:", build.load())
op, reason = choose_backend("auto", "cpu")
print("back end:", op.NAME, "|", reason)
"""
MODEL_SCRIPT = """
import torch
from tests.small import small_model, tokens_and_targets
model = small_model({"scheme": "attnres-block"}, dtype=torch.float32, stir=0.5)
model.loss(*tokens_and_targets()).backward()
print("loss:", round(float(model.loss(*tokens_and_targets()).detach()), 3))
"""


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has not asked for the operators yet. Afterwards it is asked again, for the library of all
    tests."""

    def forget() -> None:
        for answer in (build.load, build.find_compiler, choose_backend):
            answer.cache_clear()

    forget()
    monkeypatch.setattr(build, "_loaded", False)
    yield
    forget()


def started(folder: Path, script: str = SCRIPT, **environment: str) -> subprocess.Popen[str]:
    """A process of its own, which has imported torch and has never asked for the operators."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {build.FOLDER_VARIABLE: str(folder), **environment}.items():
            patch.setenv(name, value)
        return forked.start(program=script, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


needs_gcc = pytest.mark.skipif(build.find_compiler() is None, reason=build.NO_COMPILER)


def compiler_that_waits(folder: Path, library: Path) -> tuple[str, int]:
    """(path, descriptor) of a compiler of the same name as the real one, which compiles once for every line that is
    written to the descriptor, and links to a copy of `library`."""
    found = build.find_compiler()
    assert found is not None
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    waits = program(
        folder / "g++",
        f"""[ "$1" = --version ] && exec {found[0]} --version
what=$1
while [ "$1" != -o ]; do shift; done
if [ "$what" = -c ]; then read line < {pipe}; echo "$line" > "$2"; else cp {library} "$2"; fi""",
    )
    return waits, os.open(pipe, os.O_RDWR)


@needs_gcc
def test_processes_that_start_together_build_once(tmp_path: Path) -> None:
    """The compiler has nothing to do before both have begun; the library of all tests was built by the real one."""
    found = build.find_compiler()
    assert found is not None
    assert build.load() is None
    (library,) = build.cache_folder().glob(f"attnres-{build._fingerprint(found[1])}.so")
    compiler, go = compiler_that_waits(tmp_path, library)
    folder = tmp_path / "built"
    processes = [started(folder, CXX=compiler) for _ in range(2)]
    try:
        assert [process.stdout and process.stdout.readline() for process in processes] == ["begins\n"] * 2
        os.write(go, b"compiled\n" * len(build.units()))
        results = [process.communicate(timeout=300) for process in processes]
    finally:
        os.close(go)
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], results
    assert sum(err.count("Building the C++ operators with") for _, err in results) == 1
    assert all("load: None\nback end: cpu | first choice on cpu\n" in out for out, _ in results)
    assert {path.name for path in folder.iterdir()} == {library.name, kept.sum_of(library).name, ".lock"}


@needs_gcc
def test_an_interrupt_ends_the_compilers_too(tmp_path: Path) -> None:
    """Sent to the process alone, as `kill` and `timeout` do, while it waits for compilers that never end. It does wait
    when the first of them has got rid of more than fits into a pipe."""
    found = build.find_compiler()
    assert found is not None
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    begun = os.open(pipe, os.O_RDWR)
    first, *_ = build.units()
    never_ends = f"""[ "$1" = --version ] && exec {found[0]} --version
case "$*" in *{first}.cpp*) yes | head -c 200000 >&2;; esac
echo $$ > {pipe}; read line < {tmp_path}/never"""
    os.mkfifo(tmp_path / "never")
    with started(tmp_path / "built", CXX=program(tmp_path / "g++", never_ends)) as process:
        compilers: list[int] = []
        while len(compilers) < len(build.units()):
            compilers += [int(line) for line in os.read(begun, 4096).split()]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    os.close(begun)
    assert process.returncode != 0
    for compiler in compilers:
        with pytest.raises(ProcessLookupError):
            os.kill(compiler, 0)
    assert not list((tmp_path / "built").glob("*.so"))


@needs_gcc
@pytest.mark.usefixtures("anew")
def test_what_was_built_is_not_built_again(capfd: pytest.CaptureFixture[str]) -> None:
    built = {path: path.stat().st_mtime_ns for path in build.cache_folder().glob("*.so")}
    assert build.load() is None
    assert choose_backend("auto", "cpu").op.NAME == "cpu"
    assert "Building" not in capfd.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in build.cache_folder().glob("*.so")} == built


@needs_gcc
@pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of another kind of processor")
@pytest.mark.parametrize("capability", sorted({*build._VECTORS, "DEFAULT"} - {torch.backends.cpu.get_cpu_capability()}))
def test_every_kind_of_vector_compiles(capability: str) -> None:
    """Those that this processor does not have; its own are built by everything else. Like those, once: what a compiler
    made of these sources is kept."""
    found = build.find_compiler()
    assert found is not None
    told = build.cache_folder() / f"attnres-{build._fingerprint(found[1])}-{capability}.txt"
    if not told.exists():
        command = [found[0], "-fsyntax-only", "-x", "c++", *build._flags(capability), *build._includes(), "-"]
        done = subprocess.run(
            command, input=build.units()["operators"], capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        told.write_text(done.stderr)


def test_without_a_compiler_plain_pytorch_computes_the_same(tmp_path: Path) -> None:
    """In a process of its own, which has never seen the operators."""
    model = small_model({"scheme": "attnres-block"}, dtype=torch.float32, stir=0.5)
    loss = round(float(model.loss(*tokens_and_targets()).detach()), 3)
    process = started(tmp_path, SCRIPT + MODEL_SCRIPT, CXX="/nowhere/g++")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    told = dict(line.split(": ", 1) for line in out.splitlines()[1:])
    assert told["load"] == "no GCC (g++) was found"
    assert told["back end"] == "torch | not cpu: no GCC (g++) was found"
    assert told["loss"] == str(loss)
    assert "Building" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("anew")
def test_another_compiler_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its OpenMP runtime would be a second pool of threads."""
    monkeypatch.setenv("CXX", program(tmp_path / "clang++", "echo clang version 19"))
    assert build.load() == "no GCC (g++) was found"


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("unit", build.units())
def test_a_compiler_that_fails_is_quoted(
    unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whichever of the units it fails on."""
    broken = program(
        tmp_path / "g++",
        f"""case "$*" in
--version) echo g++ 99;;
*{unit}.cpp*) echo "x.h:1: error: no such header" >&2; exit 1;;
esac""",
    )
    monkeypatch.setenv("CXX", broken)
    monkeypatch.setenv(build.FOLDER_VARIABLE, str(tmp_path / "built"))
    assert build.load() == "the C++ operators do not compile: x.h:1: error: no such header"
    op, reason = choose_backend("auto", "cpu")
    assert op.NAME == "torch"
    assert reason.startswith("not cpu: the C++ operators do not compile")
    assert capfd.readouterr().err.count("Building the C++ operators with g++ 99") == 1
    assert not list((tmp_path / "built").glob("*.so"))


@pytest.mark.usefixtures("anew")
def test_no_place_to_keep_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(build.FOLDER_VARIABLE, str(tmp_path / "file" / "built"))
    assert str(build.load()).startswith(("there is no place to keep the built operators", build.NO_COMPILER))
    op, reason = choose_backend("auto", "cpu")
    assert (op.NAME, reason[:9]) == ("torch", "not cpu: ")


def test_the_name_changes_with_what_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build._fingerprint("g++ 12")
    assert build._fingerprint("g++ 12") == before
    assert build._fingerprint("g++ 13") != before
    monkeypatch.setattr(build, "_flags", lambda capability=None: ["-O0"])
    assert build._fingerprint("g++ 12") != before
