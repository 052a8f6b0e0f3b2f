"""What a manifest records of machine and source."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from attnres_cli import __version__
from attnres_cli.runs.environment import environment_facts, git_facts, package_version


def git(folder: Path, *words: str) -> None:
    identity = {
        f"GIT_{who}_{what}": "someone@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, env={**os.environ, **identity})


def test_facts_hold_versions_and_what_the_caller_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    facts = environment_facts(device="cpu", threads=3, platform="told otherwise")
    assert facts["attnres"] == __version__
    assert facts["python"] == platform.python_version()
    assert facts["torch"] == package_version("torch")
    assert facts["omp_wait_policy"] == "PASSIVE"
    assert (facts["device"], facts["threads"], facts["platform"]) == ("cpu", 3, "told otherwise")
    assert facts["processor"]


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert package_version("no-such-package-anywhere") is None


def test_git_facts(tmp_path: Path) -> None:
    assert git_facts(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert git_facts(tmp_path) is None  # a repository without a commit
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    clean = git_facts(tmp_path)
    assert clean is not None
    assert (len(clean["commit"]), clean["dirty"]) == (40, False)
    (tmp_path / "untracked").write_text("is no change")
    assert git_facts(tmp_path) == clean
    (tmp_path / "file").write_text("two")
    assert git_facts(tmp_path) == {**clean, "dirty": True}
    assert git_facts(tmp_path / "absent") is None
