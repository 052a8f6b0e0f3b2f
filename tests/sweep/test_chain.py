"""The chain that `attnres verify --study` walks: that it holds, and that each broken link is seen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from attnres_cli.bench.interleaved import Interval
from attnres_cli.report import paired_verdicts
from attnres_cli.report.redrawn import compared_groups, share_of_draws, verdict_of, with_differences
from attnres_cli.sweep import chain as chain_module
from attnres_cli.sweep.chain import Chain, Link, Say, plant, time_link
from attnres_cli.sweep.results import Run, Sweep, SweepDirectory
from tests.small import VOCAB_SIZE, small_preset

SIZE = {"train.horizon_tokens": 64 * 4, "observe.observers": ["magnitudes"], "model.transformer_blocks": 1}


class Silent:
    def started(self, run: Run) -> None: ...

    def ended(self, run: Run) -> None: ...


@contextmanager
def silent(directory: SweepDirectory, sweep: Sweep) -> Iterator[Silent]:
    yield Silent()


def shortened(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.chdir(folder)
    patch.setattr(chain_module, "DRAWS", 200)
    patch.setattr(chain_module, "SAMPLE_SECONDS", 0.01)


def chain_in(folder: Path, say: Say) -> Chain:
    return Chain(small_preset(**SIZE), folder / "runs", "x", folder / "planted", VOCAB_SIZE, silent, say, 1)


@dataclass(frozen=True)
class Walked:
    """A chain that was walked from nothing to its end in `folder`, where nothing changes any more."""

    folder: Path
    chain: Chain
    links: list[Link]
    said: list[str]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Walked:
    folder, said = tmp_path_factory.mktemp("walked"), list[str]()
    chain = chain_in(folder, said.append)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNRES_CACHE", str(shared_cache))
        shortened(patch, folder)
        return Walked(folder, chain, list(chain.links()), said)


@pytest.fixture
def chain(walked: Walked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    """A chain that finds the runs of the walked one, in copies of its own."""
    shortened(monkeypatch, tmp_path)
    shutil.copytree(walked.chain.root, tmp_path / "runs")
    return chain_in(tmp_path, lambda text: None)


def shift(root: Path, group: str, change: float) -> None:
    for path in (root / group).glob("*/metrics.jsonl"):
        plant(path, change)


def test_every_link_holds(walked: Walked) -> None:
    links = {(link.check, link.what): link for link in walked.links}
    # Where the clock is a busy machine's, chance may fail it twice; that it is measured and judged is what is tested.
    time = links.pop(("A/A", "time of a step"))
    assert time.low is not None
    assert time.high is not None
    assert (time.status == "ok") == (round(time.low, 2) <= 1 <= round(time.high, 2))
    assert {link.status for link in links.values()} == {"ok"}
    assert [what for _, what in links] == [
        "largest difference",
        "loss, other seeds",
        "comes out: off by",
        "is shown: p",
        "finds an effect",
        "finds one of none",
    ]
    assert links["repeat", "largest difference"].measured == 0
    found = links["power", "finds an effect"].measured
    assert found == pytest.approx(0.8, abs=0.08)
    assert walked.chain.groups[:3] == ["x-a", "x-a-again", "x-a"]
    assert [text for text in walked.said if "runs with seeds" in text]
    # What is there is not trained again, and the runs that copies were made of are as they were.
    said: list[str] = []
    again = chain_in(walked.folder, said.append).links()
    assert [next(again).measured for _ in range(2)] == [link.measured for link in list(links.values())[:2]]
    assert not said


def test_runs_that_do_not_repeat_are_seen(chain: Chain) -> None:
    next(chain.links())
    path = sorted((chain.root / "x-a-again").glob("*/metrics.jsonl"))[0]
    plant(path, 1e-9)
    link = next(chain.links())
    assert link.status == "fails"
    assert link.measured == pytest.approx(1e-9, rel=1e-5)


def test_a_difference_where_there_is_none_fails_when_it_comes_twice(chain: Chain) -> None:
    links = chain.links()
    assert [next(links).status for _ in range(2)] == ["ok", "ok"]
    shift(chain.root, chain.groups[-1], 5.0)
    links = chain.links()
    next(links)
    once = next(links)
    assert (once.status, chain.groups[-2:]) == ("ok", ["x-a2", "x-b2"])  # decided by further seeds
    shift(chain.root, "x-b2", 5.0)
    links = chain.links()
    next(links)
    twice = next(links)
    assert twice.status == "fails"
    assert "shown to be worse" in twice.detail
    assert twice.low is not None
    assert twice.low > 0


def test_draws_are_judged_by_the_effect_that_is_put_in(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [chain._trained("a", 0), chain._trained("b", 5)]
    comparison = compared_groups(names, chain.root, seeds_of_first=True)
    assert comparison.pairings["x-b"].pairs[0].ours.seed == 0
    assert verdict_of(compared_groups(names, chain.root)).outcome == "too few"  # no seed in common
    exact = verdict_of(with_differences(comparison, [-0.25, -0.5, -0.125, -0.25, -0.5]))
    assert exact.difference is not None
    assert exact.difference.mean == pytest.approx(-0.325, abs=1e-12)
    assert exact.outcome == "better"
    assert share_of_draws(comparison, -10.0, 0.1, draws=20, seed=3) == (20, 20)
    assert share_of_draws(comparison, 10.0, 0.1, draws=20, seed=3) == (0, 20)
    few, shown = share_of_draws(comparison, 0.0, 0.1, draws=200, seed=3)
    assert few <= shown < 30
    # A verdict that judges at another level than it says it does keeps neither promise.
    assert [link.status for link in chain_module._power(comparison)] == ["ok", "ok"]
    monkeypatch.setattr(paired_verdicts, "ALPHA", 0.01)
    assert [link.status for link in chain_module._power(comparison)] == ["fails", "fails"]
    monkeypatch.setattr(paired_verdicts, "ALPHA", 0.15)
    assert [link.status for link in chain_module._power(comparison)] == ["fails", "fails"]


def test_planting_changes_validation_losses_only(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"kind": "train", "step": 1, "loss": 2.0}, {"kind": "eval", "step": 1, "loss": 3.0, "tokens": 64}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plant(path, -0.5)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [rows[0], {**rows[1], "loss": 2.5}]


@pytest.mark.parametrize(
    ("hits", "status"), [(1300, "fails"), (1600, "ok"), (1555, "ok"), (1545, "fails"), (1660, "fails")]
)
def test_a_share_has_to_hold_what_is_promised(hits: int, status: str) -> None:
    """Of 2000 draws, 1600 are expected, with a standard deviation of 18."""
    assert chain_module._share("finds an effect", hits, 0.8, "").status == status


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [(0.98, 1.01, "ok"), (1.004, 1.02, "ok"), (1.006, 1.02, "fails"), (0.9, 0.994, "fails"), (0.9, 0.996, "ok")],
)
def test_a_ratio_of_times_has_to_hold_one(low: float, high: float, status: str) -> None:
    link = time_link(Interval(0.5 * (low + high), low, high, 0.988), "cpu")
    assert (link.status, link.low, link.high) == (status, low, high)
    assert "cpu time" in link.detail
