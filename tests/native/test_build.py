"""The C++ operators are built once, with whatever compiler there is; without one, everything goes on."""

from __future__ import annotations

import os
import platform
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnres_cli.native import build

ROOT = Path(__file__).parent.parent.parent

SCRIPT = """
import torch
from attnres_cli.native import build
from attnres_cli.residual.backends import choose_backend
print("load:", build.load())
op, reason = choose_backend("auto", "cpu")
print("back end:", op.NAME, "|", reason)
from tests.small import small_model, tokens_and_targets
model = small_model({"scheme": "attnres-block"}, dtype=torch.float32, stir=0.5)
model.loss(*tokens_and_targets()).backward()
print("loss:", round(float(model.loss(*tokens_and_targets()).detach()), 3))
"""


def started(folder: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), build.FOLDER_VARIABLE: str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, **environment: str) -> tuple[dict[str, str], str]:
    """What SCRIPT printed, by label, and its stderr."""
    process = started(folder, **environment)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return dict(line.split(": ", 1) for line in out.splitlines()), err


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


needs_gcc = pytest.mark.skipif(build.find_compiler() is None, reason=build.NO_COMPILER)


@needs_gcc
def test_processes_that_start_together_build_once(tmp_path: Path) -> None:
    processes = [started(tmp_path) for _ in range(2)]
    results = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    assert sum(err.count("Building the C++ operators with") for _, err in results) == 1
    assert all("load: None\nback end: cpu | first choice on cpu\n" in out for out, _ in results)
    (library,) = tmp_path.glob("*.so")
    built = library.stat().st_mtime_ns
    third, err = run(tmp_path)
    assert third["load"] == "None"
    assert err.count("Building") == 0
    assert library.stat().st_mtime_ns == built
    assert {path.name for path in tmp_path.iterdir()} == {library.name, ".lock"}


@needs_gcc
@pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of another kind of processor")
@pytest.mark.parametrize("capability", sorted({*build._VECTORS, "DEFAULT"} - {torch.backends.cpu.get_cpu_capability()}))
def test_every_kind_of_vector_compiles(capability: str) -> None:
    """Those that this processor does not have; its own are built by everything else."""
    found = build.find_compiler()
    assert found is not None
    command = [found[0], "-fsyntax-only", "-x", "c++", *build._flags(capability), *build._includes(), "-"]
    done = subprocess.run(command, input=build._all_sources(), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def test_without_a_compiler_plain_pytorch_computes(tmp_path: Path) -> None:
    told, err = run(tmp_path, CXX="/nowhere/g++")
    assert told["load"] == "no GCC (g++) was found"
    assert told["back end"] == "torch | not cpu: no GCC (g++) was found"
    assert "Building" not in err
    assert not list(tmp_path.iterdir())


def test_another_compiler_is_not_taken(tmp_path: Path) -> None:
    """Its OpenMP runtime would be a second pool of threads."""
    clang = program(tmp_path / "clang++", "echo clang version 19")
    assert run(tmp_path / "built", CXX=clang)[0]["load"] == "no GCC (g++) was found"


def test_a_compiler_that_fails_is_quoted(tmp_path: Path) -> None:
    broken = program(
        tmp_path / "g++",
        'if [ "$1" = --version ]; then echo g++ 99; else echo "x.h:1: error: no such header" >&2; exit 1; fi',
    )
    told, err = run(tmp_path / "built", CXX=broken)
    assert told["load"] == "the C++ operators do not compile: x.h:1: error: no such header"
    assert told["back end"].startswith("torch | not cpu: the C++ operators do not compile")
    assert err.count("Building the C++ operators with g++ 99") == 1
    assert not list((tmp_path / "built").glob("*.so"))


def test_no_place_to_keep_them(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    told, _ = run(tmp_path / "file" / "built")
    assert told["load"].startswith(("there is no place to keep the built operators", build.NO_COMPILER))
    assert told["back end"].startswith("torch | not cpu: ")


@needs_gcc
def test_a_library_that_does_not_load(tmp_path: Path) -> None:
    found = build.find_compiler()
    assert found is not None
    (tmp_path / f"attnres-{build._fingerprint(found[1])}.so").write_bytes(b"not a library")
    assert run(tmp_path)[0]["load"].startswith("the built library does not load: ")


def test_the_loss_is_the_same_either_way(tmp_path: Path) -> None:
    assert run(tmp_path, CXX="/nowhere/g++")[0]["loss"] == run(Path(os.environ[build.FOLDER_VARIABLE]))[0]["loss"]


def test_the_name_changes_with_what_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build._fingerprint("g++ 12")
    assert build._fingerprint("g++ 12") == before
    assert build._fingerprint("g++ 13") != before
    monkeypatch.setattr(build, "_flags", lambda capability=None: ["-O0"])
    assert build._fingerprint("g++ 12") != before
