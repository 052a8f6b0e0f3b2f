"""Every number of a scaling sweep is that of its runs' metrics.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import ExitCode
from tests.recomputed import sweeps_arms, sweeps_laws
from tests.recomputed.harness import check_document
from tests.recomputed.sweeps_files import Files
from tests.recomputed.sweeps_lists import ORACLES as LISTS
from tests.recomputed.sweeps_material import Trainer, command, in_a_folder, power_law
from tests.recomputed.sweeps_payload import check_payload

TWO = ["--residual", "prenorm", "--residual", "attnres-full"]
SWEEP = ["sweep", "scaling", "./small.toml", "--jobs", "1", "--name", "made", "--tokens-per-parameter", "2", *TWO]
ORACLES = {**LISTS, **sweeps_arms.ORACLES, **sweeps_laws.ORACLES}

# The program looks for E on a grid, which it narrows five times to a 10⁻⁷th of the loss; what depends on E is as exact.
TERM = 1e-5
COLUMNS = [f"laws.{column}" for column in ("coefficient", "exponent", "irreducible", "multiplier")]


def made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0,
    **endings: str,
) -> tuple[Files, dict[str, Any]]:  # fmt: skip
    """A finished sweep, and what `sweep show` prints of it; its plan is held against the runs on the way."""
    ended = {name.replace("_", "-"): ending for name, ending in endings.items()}
    in_a_folder(folder, monkeypatch, Trainer(power_law, ended, noise=0.004))
    plan = command(capsys, *SWEEP, *words, "--dry-run")
    command(capsys, *SWEEP, *words, code=code)
    files = Files(Path("runs/made"))
    check_document(plan, ORACLES, files, tables={"plan"})
    return files, command(capsys, "sweep", "show", "made")


def test_laws_with_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One size has lost a run, and is no point of any law."""
    files, shown = made(tmp_path, monkeypatch, capsys, "--residual", "attnres-block", "--sizes", "2,3,4,5,6",
                        "--seeds", "3", code=ExitCode.DIVERGED,
                        L3_attnres_full_s1="diverged")  # fmt: skip
    check_document(shown, ORACLES, files, tables={"arms", "laws", "unfinished"})
    check_payload(shown, {**sweeps_arms.payload(files), "laws": sweeps_laws.laws_payload(files)})


def test_one_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    files, shown = made(tmp_path, monkeypatch, capsys, "--sizes", "2,4,6", "--seeds", "1")
    check_document(shown, ORACLES, files, tables={"arms", "laws"})
    check_payload(shown, {"laws": sweeps_laws.laws_payload(files)})


def test_an_irreducible_term_from_six_sizes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files, shown = made(tmp_path, monkeypatch, capsys, "--sizes", "2,3,4,5,6,7", "--seeds", "2")
    check_document(shown, ORACLES, files, tables={"laws"}, wider=dict.fromkeys(COLUMNS, TERM))
    check_payload(shown, {"laws": sweeps_laws.laws_payload(files)}, wider=dict.fromkeys(("value", "low", "high"), TERM))
