"""`attnres runs ls`, `runs show` and `watch`: every number, recomputed from the run directories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recomputed.harness import as_table, check_document, faults_of
from tests.recomputed.listed_runs import LISTED, SHOWN, WATCHED, watched_differences
from tests.recomputed.material import scattered_run
from tests.recomputed.raw import Run

Said = Callable[..., dict[str, Any]]


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Of two seeds and three schemes; one goes on, one was interrupted, one diverged. None began with another."""
    root = tmp_path / "runs"
    started = ("2026-01-02T03:04:05+00:00", "2026-03-02T03:04:05+01:00", "2026-02-02T23:04:05+00:00")
    later = ("2026-04-01T00:00:00+00:00", "2026-04-02T00:00:00+00:00")
    facts = [{"created": moment, "data.epochs": 0.31 + 0.01 * n} for n, moment in enumerate((*started, *later))]
    return [
        scattered_run(root, "plain", manifest=facts[0]),
        scattered_run(root, "mixing", scheme="attnres-block", better_by=0.05, manifest=facts[1]),
        scattered_run(root, "whole", scheme="attnres-full", until_step=70, status="running", manifest=facts[2]),
        scattered_run(root, "other", seed=3, until_step=60, status="interrupted", manifest=facts[3]),
        scattered_run(root, "lost", scheme="attnres-full", seed=3, until_step=45, status="diverged", manifest=facts[4]),
    ]  # fmt: skip


def test_the_list(runs: list[Run], said: Said) -> None:
    check_document(said("runs", "ls"), LISTED, runs)


@pytest.mark.parametrize("place", range(5))
def test_one_run(place: int, runs: list[Run], said: Said) -> None:
    check_document(said("runs", "show", runs[place].name), SHOWN, runs[place], tables=SHOWN)


def test_watched(runs: list[Run], said: Said) -> None:
    document = said("watch", *[run.name for run in runs], "--once")
    check_document(document, WATCHED, runs)
    faults = faults_of("differences", as_table(document["differences"]), watched_differences(runs), {})
    assert not faults, "\n".join(faults)
    by_name = {run.name: run for run in runs}
    for each in document["runs"]:
        run = by_name[each["name"]]
        assert (each["tokens"], each["steps"]) == (run.train_rows[-1]["tokens"], run.manifest["steps"])
        assert each["validation_step"] == run.evaluations[-1]["step"]
        assert each["tokens_of_the_whole_run"] == run.manifest["tokens"]
