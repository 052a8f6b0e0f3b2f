"""The Triton back end: its kernels run in processes of their own (triton_numbers.py, triton_compilation.py)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from attnres_cli.errors import UserError
from attnres_cli.residual.backends import choose_backend, load_backend
from tests import forked

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CPU = torch.device("cpu")
PYTEST = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"

with_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton is not installed",
)


def from_nothing(*words: str, program: str, **streams: Any) -> subprocess.Popen[Any]:
    return subprocess.Popen([sys.executable, "-c", program, *words], **streams)


def passes(file: str, folder: Path, begin: Callable[..., subprocess.Popen[Any]], **environment: str) -> None:
    """Run a file of tests in its own process; fails with its output."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PYTEST_")]:
            patch.delenv(name)
        for name, value in {"TRITON_CACHE_DIR": str(folder / "cache"), **environment}.items():
            patch.setenv(name, value)
        words = ["-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'inner'}", file]
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = begin(*words, program=PYTEST, cwd=ROOT, **streams)
    out, _ = process.communicate()
    assert process.returncode == 0, out


@with_triton
def test_the_numbers_in_the_interpreter(tmp_path: Path) -> None:
    passes(str(HERE / "triton_numbers.py"), tmp_path, from_nothing, TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="")


@with_triton
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_the_numbers_on_the_gpu(tmp_path: Path) -> None:
    passes(str(HERE / "triton_numbers.py"), tmp_path, from_nothing, TRITON_INTERPRET="0")


@with_triton
def test_the_kernels_compile_for_gpus(tmp_path: Path) -> None:
    begin = from_nothing if "TRITON_INTERPRET" in os.environ else forked.start  # where Triton may be loaded already
    passes(str(HERE / "triton_compilation.py"), tmp_path, begin, TRITON_INTERPRET="0", CUDA_VISIBLE_DEVICES="")


def test_the_cpu_refuses_it_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert load_backend("triton").unusable(CPU) == "it computes on CUDA, not on cpu"
    choose_backend.cache_clear()
    with pytest.raises(UserError, match="'triton' does not work here: it computes on CUDA, not on cpu"):
        choose_backend("triton", "cpu")


def test_a_machine_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setitem(sys.modules, "triton", None)  # how Python marks what cannot be imported
    assert load_backend("triton").unusable(CPU) == "Triton is not installed"


@with_triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_machine_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert load_backend("triton").unusable(torch.device("cuda")) == "there is no GPU that torch can use"


def test_shapes_need_no_triton() -> None:
    assert load_backend("triton").unusable(torch.device("meta")) is None
