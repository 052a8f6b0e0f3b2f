"""The progress of a sweep, read from run directories that were written by hand."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from attnres_cli.cli.sweep_display import _Progress, display
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.sweep.results import Sweep, SweepDirectory
from tests.fabricated_sweep import sweep_document

# One cell done, one being trained with both schemes, one waiting. Depths 8, 4 and 2.
LOSSES = {(None, 8.0): (2.0, "failed"), (None, 16.0): (None, None), (None, 32.0): (None, None)}


def progress(tmp_path: Path) -> tuple[_Progress, Sweep, list[str]]:
    sweep = Sweep.from_dict(sweep_document(LOSSES))
    shown = _Progress(SweepDirectory(tmp_path), sweep)
    lines: list[str] = []
    shown.print = lines.append
    return shown, sweep, lines


def train(shown: _Progress, sweep: Sweep, cell: str, step: int) -> None:
    for run in sweep.runs:
        if run.cell == cell:
            run.status, run.folder = "running", run.name
            directory = RunDirectory.create(shown.directory.path, "", run.name)
            directory.write_state(step=step, steps=500)
            shown.started(run)


def test_one_line_says_what_is_done_and_what_runs(tmp_path: Path) -> None:
    shown, sweep, _ = progress(tmp_path)
    train(shown, sweep, "r16", step=250)
    # Weighted by cost: (1 + 1 + half of 1 + half of 1) of 6.
    line = "1 of 6 runs finished, 50%, r16 plain seed 0 step 250/500, r16 mixing seed 0 step 250/500, ETA "
    assert shown.line().startswith(line)


def test_runs_weigh_what_they_cost(tmp_path: Path) -> None:
    shown, sweep, _ = progress(tmp_path)
    for run, cost in zip(sweep.runs, (3.0, 3.0, 2.0, 2.0, 1.0, 1.0), strict=True):
        run.cost = cost
    assert shown._share() == pytest.approx(6 / 12)


def test_steps_before_an_interruption_are_done_but_not_gained(tmp_path: Path) -> None:
    shown, sweep, _ = progress(tmp_path)
    for run in sweep.runs[2:4]:
        run.step, run.steps = 250, 500
    train(shown, sweep, "r16", step=250)
    assert shown.share_at_start == shown._share() == pytest.approx(3 / 6)
    assert shown.line().endswith("ETA –")


def test_every_ending_is_a_line(tmp_path: Path) -> None:
    shown, sweep, lines = progress(tmp_path)
    for run in sweep.runs[:2]:
        shown.ended(run)
    assert lines == [
        "r8 plain seed 0: validation loss 2.0000 after 1m of training",
        "r8 mixing seed 0: failed: its process was killed by SIGKILL",
    ]


def test_the_panel_fits_a_terminal_of_eighty_columns(tmp_path: Path) -> None:
    shown, sweep, _ = progress(tmp_path)
    train(shown, sweep, "r16", step=0)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(shown.panel())
    lines = console.export_text().splitlines()
    assert re.match(r"1 of 6 runs finished, 1 failed   elapsed \d+s   ETA –", lines[1])
    assert [line.split()[0:2] for line in lines[2:4]] == [["r16", "plain"], ["r16", "mixing"]]
    assert max(map(len, lines)) <= 80


def test_off_a_terminal_there_are_lines_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, sweep, _ = progress(tmp_path)
    with display(SweepDirectory(tmp_path), sweep) as listener:
        listener.ended(sweep.runs[0])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "r8 plain seed 0: validation loss 2.0000 after 1m of training\n"
