"""Every number of a hops sweep is that of its runs' observations.

The sweep file is written by hand, without any number that its runs have found, and `attnres sweep resume` reads those:
so neither the preset that the command trains by default nor the task matters here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnres_cli.errors import ExitCode
from tests.fabricated_runs import fabricate
from tests.fabricated_sweep import grid_document
from tests.recomputed import sweeps_hops
from tests.recomputed.harness import check_document
from tests.recomputed.sweeps_files import Files
from tests.recomputed.sweeps_lists import ORACLES as LISTS
from tests.recomputed.sweeps_material import command
from tests.recomputed.sweeps_payload import check_payload
from tests.small import small_preset

ORACLES = {**LISTS, **sweeps_hops.ORACLES}
HOPS, NODES, SOLVED = 3, 7, 0.85
BLOCKS, ARMS = (2, 5), ("prenorm", "mixing", "other")
LOST = ("L5", "other", 1)


def make(seeds: int, *, lost: bool) -> Files:
    """runs/made with a run for every depth, arm and seed."""
    folder = Path("runs/made")
    folder.mkdir(parents=True)
    found = {f"L{blocks}": {arm: [0.0] * seeds for arm in ARMS} for blocks in BLOCKS}
    document = grid_document(
        found,
        [{"transformer_blocks": blocks} for blocks in BLOCKS],
        kind="hops",
        report="hops",
        facts={"hops": HOPS, "nodes": NODES, "solved_accuracy": SOLVED},
        preset={"name": "tiny", "digest": "", "values": small_preset().to_dict(), "source_text": ""},
    )
    generator = np.random.default_rng(8)
    for row in document["runs"]:
        is_lost = lost and (row["cell"], row["arm"], row["seed"]) == LOST
        row |= {"loss": None if is_lost else 0.0, "status": "diverged" if is_lost else "finished", "trial": ""}
        write_run(folder, row, generator, is_lost=is_lost)
    (folder / "sweep.json").write_text(json.dumps(document))
    return Files(folder)


def write_run(folder: Path, row: dict[str, Any], generator: np.random.Generator, *, is_lost: bool) -> None:
    run = fabricate(
        folder,
        row["folder"],
        residual={"scheme": row["arm"]},
        change={"train.seed": row["seed"]},
        manifest={"preset_digest": row["digest"]},
        observed=False,
        luck=float(generator.normal(scale=0.1)),
        status="diverged" if is_lost else "finished",
        until_step=50 if is_lost else None,
    )
    for step in (50, 100):
        summary = {
            "kinds": list(range(1, HOPS + 1)),
            "answers": generator.integers(200, 260, size=HOPS).tolist(),
            # Nearly all of them know one hop, half of them two.
            "accuracy": (1 - generator.random(HOPS) * [0.16, 0.3, 0.4]).tolist(),
            "loss": generator.random(HOPS).tolist(),
        }
        run.append_observation({"step": step, "observer": "answers", "tokens": step, "arrays": {}, "summary": summary})


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("seeds", [1, 4])
def test_every_number_of_hops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seeds: int, lost: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    files = make(seeds, lost=lost)
    is_lost = lost and seeds > LOST[2]
    command(capsys, "sweep", "resume", "made", code=ExitCode.DIVERGED if is_lost else 0)
    shown = command(capsys, "sweep", "show", "made")
    check_document(shown, ORACLES, files, tables={"hops", "hops_loss"} | ({"hops_by_seed"} if seeds > 1 else set()))
    check_payload(shown, {"hops": sweeps_hops.hops_payload(files)})
    if seeds > 1:
        solved = {row["solved"] for row in sweeps_hops.hops(files)}
        assert len(solved) > 1, "material in which not all solve the same"
        check_document(command(capsys, "sweep", "status", "made"), LISTS, files, tables={"runs"})
