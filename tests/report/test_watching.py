"""Watching runs from their files: what was appended, what went away, which runs, and what is said of them."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.errors import UserError
from attnres_cli.report import watching_runs
from attnres_cli.report.document import render
from attnres_cli.report.watching import comparisons, line, watch_document
from attnres_cli.report.watching_log import CHUNK_BYTES, MOST_POINTS, MetricsLog
from attnres_cli.report.watching_runs import GONE, Watch
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.process import own_process
from tests.fabricated_runs import BLOCK_SCHEME, FULL_SCHEME, fabricate, loss_at
from tests.golden_files import check_golden


def train_row(step: int, loss: float = 2.0) -> dict[str, Any]:
    return {"kind": "train", "step": step, "tokens": step * 10, "loss": loss, "step_seconds": 0.5}


def eval_row(step: int, loss: float = 2.5) -> dict[str, Any]:
    return {"kind": "eval", "step": step, "tokens": step * 10, "loss": loss}


def lines_of(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def known(log: MetricsLog) -> tuple[Any, ...]:
    return log.last_train, log.last_evaluation, log.evaluated, log.points, log.torn


def read_anew(path: Path) -> tuple[Any, ...]:
    log = MetricsLog(path)
    log.read()
    return known(log)


# ---------------------------------------------------------------------- the log


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(lines_of(*(train_row(step) for step in range(1, 200))))
    log = MetricsLog(path)
    assert log.read()
    assert not log.read()
    before = list(log.points)
    with path.open("r+b") as handle:  # a reader that began again would now find a torn line, and another first loss
        handle.write(b"#" * 60)
    with path.open("ab") as handle:
        handle.write(lines_of(train_row(200, 1.5)))
    assert log.read()
    assert (log.torn, log.points) == (0, [*before, (200, 1.5)])


def test_a_line_counts_when_it_is_whole_and_a_torn_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    assert not log.read()
    path.write_bytes(lines_of(train_row(1)) + b'{"kind": "train", "st')
    assert log.read()
    assert log.last_train == train_row(1)
    with path.open("ab") as handle:  # the next writer closes the torn line, as runs.files.append_line does
        handle.write(b"\n" + lines_of(eval_row(2))[:10])
    log.read()
    assert (log.torn, log.last_evaluation) == (1, None)
    with path.open("ab") as handle:
        handle.write(lines_of(eval_row(2))[10:] + b"[1]\n\n")
    assert log.read()
    assert (log.torn, log.last_evaluation, log.evaluated) == (2, eval_row(2), {20: 2.5})


@pytest.mark.parametrize("in_place", [False, True])
def test_a_resumed_run_is_read_from_its_beginning(tmp_path: Path, in_place: bool) -> None:
    """in_place: a file that keeps its inode and is longer than before when somebody looks again."""
    run = RunDirectory.create(tmp_path, "unused", "mine")
    for step in range(1, 41):
        run.append_metric(train_row(step))
    run.append_metric(eval_row(40))
    log = MetricsLog(run.metrics_path)
    log.read()
    if in_place:
        run.metrics_path.write_bytes(lines_of(*(train_row(step, 1.0) for step in range(1, 100))))
    else:
        run.truncate_metrics(after_step=20)
        run.append_metric(train_row(21, 1.25))
    assert log.read()
    assert known(log) == read_anew(run.metrics_path)
    assert log.last_evaluation is None
    assert log.evaluated == {}


@given(
    rows=st.lists(st.sampled_from(["train", "eval", "torn", "other"]), max_size=30),
    cuts=st.lists(st.integers(0, 3000), max_size=6),
)
def test_however_a_file_grows_it_is_read_as_if_at_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str], cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    kinds = {"train": train_row, "eval": eval_row}
    content = b"".join(
        lines_of(kinds[kind](step, step / 7)) if kind in kinds else b'{"kind": 1}\n' if kind == "other" else b'{"a\n'
        for step, kind in enumerate(rows)
    )
    log = MetricsLog(path)
    for end in [*sorted(cuts), len(content)]:
        with path.open("ab") as handle:
            handle.write(content[handle.tell() : end])
        log.read()
    assert known(log) == read_anew(path)
    assert log.torn == rows.count("torn")
    assert [loss for _, loss in log.points] == [step / 7 for step, kind in enumerate(rows) if kind == "train"]


def test_a_long_file_gives_every_evaluation_and_evenly_spread_losses(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [
        row
        for step in range(1, 40_001)
        for row in (
            [train_row(step, step / 1000), eval_row(step)] if step % 100 == 0 else [train_row(step, step / 1000)]
        )
    ]
    path.write_bytes(lines_of(*rows))
    assert path.stat().st_size > 2 * CHUNK_BYTES
    log = MetricsLog(path)
    log.read()
    assert len(log.evaluated) == 400
    assert (log.last_train, log.last_evaluation) == (train_row(40_000, 40.0), eval_row(40_000))
    steps = [step for step, _ in log.points]
    assert MOST_POINTS / 4 < len(steps) <= MOST_POINTS
    gaps = [late - early for early, late in zip(steps, steps[1:], strict=False)]
    assert max(gaps) < 4 * 40_000 / len(steps)
    assert all(loss == step / 1000 for step, loss in log.points)


# ---------------------------------------------------------------------- which runs


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A running baseline and a running arm, one run that has finished; new runs are looked for every time."""
    monkeypatch.setattr(watching_runs, "LOOK_AROUND_EVERY_SECONDS", 0.0)
    root = tmp_path / "runs"
    fabricate(root, "base", until_step=60, status="running")
    fabricate(root, "mixing", residual=BLOCK_SCHEME, better_by=0.05, until_step=40, status="running")
    fabricate(root, "older")
    return root


def names(watch: Watch) -> list[str]:
    return [run.name for run in watch.runs]


def test_without_names_what_trains_is_watched_and_new_runs_appear(root: Path) -> None:
    watch = Watch(root)
    watch.look()
    assert names(watch) == ["base", "mixing"]
    fabricate(root / "group", "late", until_step=20, status="running")
    assert watch.look()
    assert names(watch) == ["base", "mixing", "group/late"]
    RunDirectory(root / "older").write_state(status="running")  # resumed
    watch.look()
    assert names(watch)[3:] == ["older"]
    assert not watch.is_over


def test_a_look_without_news_says_so(root: Path) -> None:
    watch = Watch(root)
    assert watch.look()
    assert not watch.look()
    RunDirectory(root / "base").write_state(step=61)
    assert watch.look()
    assert not watch.look()


def test_it_is_over_when_every_run_has_ended_or_gone(root: Path) -> None:
    watch = Watch(root)
    watch.look()
    over = []
    RunDirectory(root / "base").write_state(status="interrupted")
    watch.look()
    over.append(watch.is_over)
    shutil.rmtree(root / "mixing")
    assert watch.look()
    over.append(watch.is_over)
    assert over == [False, True]
    assert [run.status for run in watch.runs] == ["interrupted", GONE]
    assert watch.runs[1].log.last_train is not None  # what is known of it stays
    assert "mixing: removed  step 40/100" in line(watch.runs[1])


def test_a_sweep_that_goes_on_is_not_over_between_its_runs(root: Path) -> None:
    fabricate(root / "sweep", "first")
    file = root / "sweep" / "sweep.json"
    file.write_text(json.dumps({"status": "running", "process": own_process()}), encoding="utf-8")
    watch = Watch(root, ["sweep"])
    watch.look()
    assert names(watch) == ["sweep/first"]
    over = [watch.is_over]
    fabricate(root / "sweep", "second", until_step=20, status="running")
    watch.look()
    assert names(watch) == ["sweep/first", "sweep/second"]
    RunDirectory(root / "sweep" / "second").write_state(status="finished")
    file.write_text(json.dumps({"status": "running", "process": {**own_process(), "pid": 2**22 + 1}}), encoding="utf-8")
    watch.look()
    assert [*over, watch.is_over] == [False, True]


def test_names_groups_and_patterns_are_taken_and_a_wrong_name_is_refused(root: Path) -> None:
    fabricate(root / "group", "in-it")
    for refs, expected in (
        (["older", "mix"], ["older", "mixing"]),
        (["group"], ["group/in-it"]),
        (["*o*"], ["group/in-it", "older"]),
    ):
        watch = Watch(root, refs)
        watch.look()
        assert names(watch) == expected
    with pytest.raises(UserError, match="There is no run 'mixxing'"):
        Watch(root, ["mixxing"]).look()


def test_a_run_whose_process_is_gone_is_stale(root: Path) -> None:
    RunDirectory(root / "base").write_state(pid=2**22 + 1)
    watch = Watch(root, ["base"])
    watch.look()
    assert watch.runs[0].status == "stale"
    assert watch.is_over


# ---------------------------------------------------------------------- what is said


def test_the_figures_of_a_run_that_trains(root: Path) -> None:
    watch = Watch(root)
    watch.look()
    [row, _] = watch_document(watch).tables["watched"].to_dict()["rows"]
    assert row == {
        "name": "base", "scheme": "prenorm", "seed": 0, "status": "running", "step": 60,
        "loss_nats": loss_at(60, 0.0) - 0.03, "validation_loss_nats": loss_at(60, 0.0), "learning_rate": 0.003,
        "tokens_per_second": 2048 / 0.05, "eta_seconds": pytest.approx(40 * 0.05), "curve": row["curve"],
    }  # fmt: skip
    assert row["curve"][0] == "█"
    assert row["curve"][-1] == "▁"
    assert (
        line(watch.runs[0])
        == "base: running  step 60/100  loss 1.6691  val@60 1.6991  lr 3.00e-03  tok/s 40,960  ETA 2s"
    )


def test_a_difference_is_taken_at_equal_tokens_and_is_no_result_before_the_end(root: Path) -> None:
    watch = Watch(root)
    watch.look()
    [pair] = comparisons(watch.runs)
    assert (pair.run.name, pair.baseline.name, pair.tokens, pair.share) == ("mixing", "base", 40 * 2048, 0.4)
    assert pair.nats == pytest.approx(loss_at(40, 0.05) - loss_at(40, 0.0))
    text = render(watch_document(watch), "table")
    assert "Validation loss against the baseline so far: not a result" in text
    assert "attnres-block (mixing) -0.0491 nats against prenorm (base) after 81,920 tokens, 40% of the schedule" in text
    assert "Before the schedule has decayed, a scheme that ends behind may lead. Wait for the end." in text


def test_at_the_end_the_word_is_with_compare(tmp_path: Path) -> None:
    fabricate(tmp_path, "base")
    fabricate(tmp_path, "full", residual=FULL_SCHEME, better_by=0.1)
    watch = Watch(tmp_path, ["full", "base"])
    watch.look()
    text = render(watch_document(watch), "table")
    assert "against the baseline, at the end" in text
    assert "after 204,800 tokens, the end" in text
    assert "attnres compare says what they show" in text
    assert "not a result" not in text


@pytest.mark.parametrize("change", [{"train.tokens_per_step": 4096}, {"train.seed": 1}, {"model.rope_theta": 2.0}])
def test_runs_that_differ_in_more_than_the_scheme_are_not_compared(tmp_path: Path, change: dict[str, Any]) -> None:
    fabricate(tmp_path, "base")
    fabricate(tmp_path, "block", residual=BLOCK_SCHEME, change=change)
    watch = Watch(tmp_path, ["base", "block"])
    watch.look()
    assert list(comparisons(watch.runs)) == []
    assert len(watch_document(watch).blocks) == 1


def test_of_several_baselines_the_nearest_is_taken(tmp_path: Path) -> None:
    fabricate(tmp_path, "a", change={"train.learning_rate": 0.01})
    fabricate(tmp_path, "b")
    fabricate(tmp_path, "c", residual=BLOCK_SCHEME)
    watch = Watch(tmp_path, ["a", "b", "c"])
    watch.look()
    assert [pair.baseline.name for pair in comparisons(watch.runs)] == ["b"]


def test_narrow_terminals_and_names_of_users(tmp_path: Path) -> None:
    fabricate(tmp_path, "cpu-tiny-prenorm-s0-20260102-030405-ab12", until_step=60, status="running")
    fabricate(tmp_path, "[bold]<script>", residual=BLOCK_SCHEME, better_by=0.05, until_step=40, status="running")
    fabricate(tmp_path, "x" * 70, residual=FULL_SCHEME, until_step=0, status="diverged", error="the loss is not finite")
    watch = Watch(tmp_path, ["*"])
    watch.look()
    text = render(watch_document(watch, width_columns=80), "table", width_columns=80)
    assert max(map(len, text.splitlines())) <= 80
    check_golden("watch_80.txt", text)
    pipe = render(watch_document(watch), "table")
    assert "x" * 70 in pipe
    assert "cpu-tiny-prenorm-s0-20260102-030405-ab12" in pipe


def test_a_picture_fits_the_height_of_the_terminal(tmp_path: Path) -> None:
    for number in range(12):
        status = "running" if number > 7 else "finished"
        fabricate(tmp_path, f"run-{number}", until_step=40, status=status, change={"train.seed": number})
    watch = Watch(tmp_path, ["run-*"])
    watch.look()
    for height in (60, 24, 10):
        document = watch_document(watch, width_columns=80, height_lines=height)
        text = render(document, "table", width_columns=80)
        assert text.count("\n") <= height
        assert "run-11" in text
        assert ("tok/s" in text) == (height == 60)
    assert "run-0 " not in text
    assert "more runs, ended ones first to go" in text


@contextmanager
def cpu_seconds() -> Iterator[list[float]]:
    taken: list[float] = []
    began = time.process_time()
    yield taken
    taken.append(time.process_time() - began)


def test_looking_again_costs_next_to_nothing_beside_a_long_file(tmp_path: Path) -> None:
    """The first look reads all of it; a hundred further ones together take less than that first one."""
    run = fabricate(tmp_path, "long", until_step=20, status="running")
    filler = lines_of(*(train_row(step) for step in range(21, 3000)))
    with run.metrics_path.open("ab") as handle:
        for _ in range(40):
            handle.write(filler)
    watch = Watch(tmp_path)
    with cpu_seconds() as first:
        watch.look()
    log = watch.runs[0].log
    with cpu_seconds() as later:
        for step in range(3000, 3100):
            with run.metrics_path.open("ab") as handle:
                handle.write(lines_of(train_row(step)))
            log.read()
    assert log.last_train == train_row(3099)
    assert later[0] < first[0]
    assert os.path.getsize(run.metrics_path) > 8 * CHUNK_BYTES
