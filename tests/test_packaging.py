"""What an installed program holds: the presets, the data samples, and dependencies that keep the user's own torch."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import attnres_cli

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network and without touching the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


def shipped_files(folder: str) -> set[str]:
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_wheel_holds_presets_and_samples(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = shipped_files("presets") | shipped_files("data_samples")
    assert any(name.endswith(".toml") for name in expected)
    assert {f"attnres_cli/shipped_files/{name}" for name in expected} <= names
    assert {"attnres_cli/py.typed", "attnres_cli/residual/arms.toml", "attnres_cli/analysis/paper_laws.toml"} <= names
    sources = {path.name for path in (ROOT / "attnres_cli" / "native").iterdir() if path.suffix in (".cpp", ".h")}
    assert len(sources) >= 4
    assert {f"attnres_cli/native/{name}" for name in sources} <= names
    assert {f"attnres_cli/report/page/{name}" for name in ("page.css", "page.js", "names.js", "paper.js")} <= names
    assert not [name for name in names if name.startswith("tests/") or "__pycache__" in name]


def test_wheel_runs_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(installed)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "attnres_cli", "presets", "ls"],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for path in (ROOT / "presets").glob("*.toml"):
        assert path.stem in done.stdout


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
    assert f"Version: {attnres_cli.__version__}\n" in metadata
    assert "Requires-Dist: torch>=2.9\n" in metadata  # a lower bound only: whatever torch is installed is kept
    assert "Requires-Dist: torch==" not in metadata


def test_dependencies_have_lower_bounds_only() -> None:
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for line in (line for group in groups for line in group):
        requirement = line.partition(";")[0]  # without the marker, which says for which machines
        assert ">=" in requirement
        assert not any(bound in requirement for bound in ("==", "~=", "<"))


def test_repository_commands_pin_torch() -> None:
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert pins == ["torch==2.13.0"]
    assert "-c constraints.txt" in (ROOT / "Makefile").read_text()


def test_continuous_integration_runs_what_the_readme_says() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text().splitlines()
    assert "make test" in lines
    assert "make check" in lines
    assert "$ make test\n" in (ROOT / "README.md").read_text(encoding="utf-8")
