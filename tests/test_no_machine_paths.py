"""The repository says nothing of the machines it was written on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HOMES = re.compile(r"(?<![\w.])/(?:home|Users)/[a-z]\w*|(?<![\w.])/(?:root|work|opt/pypi)[/\w-]*/")


def test_no_file_names_a_folder_of_a_machine() -> None:
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git clone")
    found = []
    for name in listed.splitlines():
        path = ROOT / name
        if path == Path(__file__) or not path.is_file() or path.suffix in (".bin", ".tiktoken"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if HOMES.search(line):
                found.append(f"{name}:{number}: {line.strip()}")
    assert not found
