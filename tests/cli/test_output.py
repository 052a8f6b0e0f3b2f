"""Documents on their way out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import attnres_cli
from attnres_cli.cli.output import chosen_format
from attnres_cli.errors import UserError
from tests.fabricated_runs import fabricate


@pytest.mark.parametrize(
    ("format_name", "output", "json", "expected"),
    [
        (None, None, False, "table"),
        (None, "a.md", False, "markdown"),
        (None, "a.csv", False, "csv"),
        (None, "a.json", False, "json"),
        (None, "a.txt", False, "table"),
        ("csv", "a.md", False, "csv"),
        (None, "a.md", True, "json"),
        ("json", None, True, "json"),
    ],
)
def test_the_format_is_asked_for_or_follows_the_suffix(
    format_name: str | None, output: str | None, json: bool, expected: str
) -> None:
    assert chosen_format(format_name, Path(output) if output else None, json) == expected


def test_an_unknown_format_is_a_usage_error() -> None:
    with pytest.raises(UserError) as caught:
        chosen_format("cvs", None, False)
    assert caught.value.faults[0].nearest == "csv"


def test_a_stream_that_lacks_a_character_gets_a_question_mark(tmp_path: Path) -> None:
    fabricate(tmp_path / "runs", "名前")
    done = subprocess.run(
        [sys.executable, "-m", "attnres_cli", "runs", "ls"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(attnres_cli.__file__).parent.parent), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("ascii").splitlines()[-1].endswith("??")
