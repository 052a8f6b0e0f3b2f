"""The real command, and what it says as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from tests.recomputed.material import SCHEMES, scattered_run


@pytest.fixture
def said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, Any]]:
    """A command's JSON object, given its words; it has to succeed. The runs lie in `runs` of the working folder."""
    monkeypatch.chdir(tmp_path)

    def document(*words: str) -> dict[str, Any]:
        code = run([*words, "--json"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        found: dict[str, Any] = json.loads(captured.out)
        return found

    return document


@pytest.fixture(scope="package")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bench of the three schemes as a comparison stores it, measured once: all material here costs the same."""
    root = tmp_path_factory.mktemp("measured") / "runs"
    names = [str(scattered_run(root, scheme, scheme=scheme).path) for scheme in SCHEMES]
    assert run(["compare", *names, "--runs-dir", str(root), "-o", str(root / "said.txt")]) == 0
    [path] = (root / ".bench").iterdir()
    return path
