"""Every number of a horizon ladder is that of its runs' metrics.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from tests.recomputed import sweeps_arms, sweeps_horizon
from tests.recomputed.harness import check_document
from tests.recomputed.sweeps_contrasts import differences
from tests.recomputed.sweeps_files import Files
from tests.recomputed.sweeps_lists import ORACLES as LISTS
from tests.recomputed.sweeps_lists import found
from tests.recomputed.sweeps_material import Trainer, command, in_a_folder, power_law
from tests.recomputed.sweeps_payload import check_payload

SWEEP = ["sweep", "horizon", "./small.toml", "--jobs", "1", "--name", "made", "--residual", "prenorm", "--residual",
         "attnres-full"]  # fmt: skip
THREE = [*SWEEP, "--residual", "attnres-block", "--horizons", "0.5,0.7,1,1.4", "--seeds", "3"]
ORACLES = {**LISTS, **sweeps_horizon.ORACLES}
# The program tests 4001 places of the ladder and puts a straight line between two of them; here the end is solved for.
ENDS = 1e-5
WIDER = {"multipliers.low": ENDS, "multipliers.high": ENDS}


def check(capsys: pytest.CaptureFixture[str], plan: dict[str, Any]) -> Files:
    files = Files(Path("runs/made"))
    check_document(plan, ORACLES, files, tables={"rungs"})
    minutes = sum(sweeps_arms.seconds(files, *each.place) for each in files.everything) / 60
    check_payload(plan, {"price": {**sweeps_arms.price(files), "minutes": minutes}})
    check_payload(plan["facts"], {"saved": sweeps_horizon.saved(files)})
    shown = command(capsys, "sweep", "show", "made")
    check_document(shown, ORACLES, files, tables={"losses", "differences", "multipliers"}, wider=WIDER)
    check_payload(shown, {"differences": differences(files), "nats_per_doubling": sweeps_horizon.trends(files)})
    ends = {"low": ENDS, "high": ENDS}
    check_payload(shown, {"multipliers": sweeps_horizon.multipliers_payload(files)}, wider=ends)
    rows = found(files)
    check_payload({"runs": [{key: row[key] for key in rows[0]} for row in shown["runs"]]}, {"runs": rows})
    check_halves(capsys, files)
    return files


def check_halves(capsys: pytest.CaptureFixture[str], files: Files) -> None:
    """Behind the losses stand half-widths that JSON does not have."""
    assert run(["sweep", "show", "made", "--format", "markdown"]) == 0
    table = capsys.readouterr().out.partition("Loss by horizon")[2].partition("Δ loss by horizon")[0]
    wanted = sweeps_horizon.shown_halves(files)
    rows = [line for line in table.splitlines() if line.startswith("|")][-len(wanted) :]
    for row, halves in zip(rows, wanted, strict=True):
        assert all(half in row for half in halves), (row, halves)
        assert row.count("±") == sum(bool(half) for half in halves)


@pytest.mark.parametrize("words", [[*SWEEP, "--seeds", "1"], [*SWEEP, "--horizons", "0.5,1,2", "--seeds", "2"], THREE])
def test_every_rung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law, noise=0.008), **{"train.horizon_tokens": 64 * 60})
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words)
    check(capsys, plan)


def test_lost_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Who waits for a run that diverged fails with it."""
    endings = {"x1-attnres-full-s1": "diverged", "x1.4-prenorm-s0": "diverged", "x1.4-attnres-block-s2": "failed"}
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law, endings, noise=0.02), **{"train.horizon_tokens": 64 * 60})
    plan = command(capsys, *THREE, "--dry-run")
    command(capsys, *THREE, code=ExitCode.UNEXPECTED)
    files = check(capsys, plan)
    check_document(command(capsys, "sweep", "status", "made"), LISTS, files, tables={"runs"})
