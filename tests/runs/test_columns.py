"""The columnar cache: the same rows as the file's, never another file's, and no error whatever is wrong with it."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnres_cli.runs import columns
from attnres_cli.runs.columns import ColumnRows, cache_path, numbers, read_logged
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.files import Row, append_row
from attnres_cli.runs.metrics import number, rows_of_kind

STEPS = 1500  # rows of some 250 bytes: well above what is worth a cache


def rows_of(steps: int, shift: float = 0.0) -> list[Row]:
    rows: list[Row] = [{"kind": "event", "step": 0, "event": "started"}]
    for step in range(1, steps + 1):
        loss = 2 + math.exp(-step / 100) + shift
        rows.append(
            {
                "kind": "train", "step": step, "tokens": step * 2048, "loss": loss, "learning_rate": 0.003,
                "grad_norm": None if step == 7 else 1 / step, "grad_norm_trunk": 0.7, "clipped": step % 3 == 0,
                "tokens_per_second": 12345.678, "step_seconds": 0.1 + step / 7e4, "train_seconds": step / 3,
            }
        )  # fmt: skip
        if step % 500 == 0:
            row = {"kind": "eval", "step": step, "tokens": step * 2048, "loss": loss, "bits_per_byte": None}
            rows.append(row if step > 500 else row | {"note": "first", "parts": [1, {"a": None}], "big": 2**60 + 1})
    return [*rows, {"kind": "event", "step": steps, "event": "finished"}]


def write(path: Path, rows: list[Row], *, age_seconds: float = 60.0) -> None:
    """A metrics.jsonl last changed a while ago."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    make_older(path, age_seconds)


def make_older(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A long metrics.jsonl that has settled: a change of times cannot be set back by a test, so that none is waited
    for."""
    monkeypatch.setattr(columns, "SETTLED_NANOSECONDS", -1)
    write(tmp_path / "metrics.jsonl", rows_of(STEPS))
    assert (tmp_path / "metrics.jsonl").stat().st_size > columns.WORTH_KEEPING_BYTES
    return tmp_path / "metrics.jsonl"


def read(path: Path) -> columns.Logged:
    return read_logged(path, may_keep=lambda: True)


def typed(rows: Any) -> list[list[tuple[str, str, str]]]:
    """Keys in order, values and their types: 1 is not 1.0 and not True."""
    return [[(key, type(value).__name__, repr(value)) for key, value in row.items()] for row in rows]


def test_the_cache_gives_the_rows_of_the_file(path: Path) -> None:
    first = read(path)
    assert isinstance(first.train, list)  # parsed
    second = read(path)
    assert isinstance(second.train, ColumnRows)  # from the cache
    for found in (first, second):
        assert typed(found.train) == typed(rows_of_kind(rows_of(STEPS), "train"))
        assert typed(found.evaluations) == typed(rows_of_kind(rows_of(STEPS), "eval"))
        assert found.torn == 0
    assert isinstance(second.evaluations, list)


def test_single_rows_and_slices(path: Path) -> None:
    expected = read(path).train
    found = read(path).train
    assert isinstance(found, ColumnRows)
    for index in (0, 6, -1, STEPS - 1, -STEPS):
        assert typed([found[index]]) == typed([expected[index]])
    assert typed(found[5:9]) == typed(expected[5:9])
    assert typed(found[-2:]) == typed(expected[-2:])
    assert len(found) == STEPS
    assert bool(found)
    assert found == expected
    assert found != expected[1:]
    for index in (STEPS, -STEPS - 1):
        with pytest.raises(IndexError):
            found[index]


@pytest.mark.parametrize("name", ["loss", "step", "grad_norm", "clipped", "kind", "nothing of the name"])
def test_numbers_of_a_field_are_those_of_the_rows(path: Path, name: str) -> None:
    parsed, cached = read(path).train, read(path).train
    expected = [number(row, name) for row in parsed]
    for rows in (parsed, cached):
        found = numbers(rows, name)
        assert found.dtype == np.float64
        assert [None if math.isnan(each) else each for each in found.tolist()] == expected


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=2)
)
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["loss", "a", "b", "kinds", "header"]), SCALARS, max_size=4).flatmap(
        lambda row: st.tuples(st.sampled_from(["train", "eval", "event", "other"]), st.integers(-3, 6)).map(
            lambda pair: {"kind": pair[0], "step": pair[1], **row}
        )
    ),
    max_size=12,
)


@settings(max_examples=60)
@given(ROWS)
@example([{"kind": "train", "step": 0, "loss": math.inf}])
@example([{"kind": "eval", "step": 0, "loss": math.nan}, {"kind": "train", "step": 1, "loss": -math.inf}])
def test_any_rows_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    path = tmp_path_factory.mktemp("any") / "metrics.jsonl"
    write(path, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "WORTH_KEEPING_BYTES", 0)
        columns.keep(path)
    assert cache_path(path).exists()
    found = read(path)
    assert isinstance(found.train, ColumnRows)
    for kind, cached in (("train", found.train), ("eval", found.evaluations)):
        expected = rows_of_kind(list(map(as_json_has_it, rows)), kind)
        assert [dict(sorted(row.items())) for row in map(plain, cached)] == [
            dict(sorted(row.items())) for row in map(plain, expected)
        ]


def as_json_has_it(row: Row) -> Row:
    """NaN and Infinity, which JSON does not know, are read as null."""
    return {key: None if isinstance(each, float) and not math.isfinite(each) else each for key, each in row.items()}


def plain(row: Row) -> dict[str, str]:
    return {key: f"{type(value).__name__} {value!r}" for key, value in row.items()}


def test_a_torn_last_line_is_left_out_and_remembered(path: Path) -> None:
    with path.open("a", encoding="utf-8") as handle:
        handle.write('{"kind": "train", "st')
    assert [read(path).torn, read(path).torn] == [1, 1]
    assert isinstance(read(path).train, ColumnRows)
    assert len(read(path).train) == STEPS


def appended(path: Path) -> None:
    append_row(path, {"kind": "train", "step": STEPS + 1, "loss": 9.0})


def replaced(path: Path) -> None:
    """The same size and times in another inode."""
    before, stat = path.read_bytes(), path.stat()
    path.rename(path.with_suffix(".old"))
    path.write_bytes(before.replace(b'"learning_rate": 0.003', b'"learning_rate": 0.004'))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def edited(path: Path) -> None:
    """In place, the same size."""
    with path.open("r+b") as handle:
        content = handle.read().replace(b'"learning_rate": 0.003', b'"learning_rate": 0.004')
        handle.seek(0)
        handle.write(content)


def edited_and_set_back(path: Path) -> None:
    """In place, the same size, and the old modification time."""
    stat = path.stat()
    edited(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def cut(path: Path) -> None:
    rows = rows_of(STEPS)
    write(path, rows[: len(rows) // 2])


@pytest.mark.parametrize("change", [appended, replaced, edited, edited_and_set_back, cut])
def test_a_changed_file_is_read_anew(path: Path, change: Any) -> None:
    read(path)
    assert isinstance(read(path).train, ColumnRows)
    change(path)
    found = read(path)
    assert isinstance(found.train, list)
    assert typed(found.train) == typed(rows_of_kind(map(json.loads, path.read_text().splitlines()), "train"))
    if path.stat().st_size >= columns.WORTH_KEEPING_BYTES:
        assert isinstance(read(path).train, ColumnRows)  # made anew
        assert typed(read(path).train) == typed(found.train)


def test_a_copied_run_is_read_anew(path: Path, tmp_path: Path) -> None:
    """The cache comes along in a copy, but names another inode."""
    read(path)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy2(path, copy)
    shutil.copy2(cache_path(path), copy)
    assert isinstance(read(copy / path.name).train, list)


def flip_a_byte(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        flip_a_byte,
        lambda content: b"\x80\x04]q\x00.",  # a pickle
        lambda content: b"\x93NUMPY" + content,
        lambda content: bytes(len(content)),
    ],
)
def test_a_damaged_cache_is_ignored_and_made_anew(path: Path, damage: Any) -> None:
    read(path)
    expected = typed(read(path).train)
    cache_path(path).write_bytes(damage(cache_path(path).read_bytes()))
    found = read(path)
    assert isinstance(found.train, list)
    assert typed(found.train) == expected
    assert isinstance(read(path).train, ColumnRows)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(schema="attnres.columns/0"),
        lambda header: header.pop("torn"),
        lambda header: header["kinds"]["train"]["names"].pop(),
        lambda header: header["kinds"]["train"].update(rows=3),
        lambda header: header["kinds"]["train"]["types"].append(2),
    ],
)
def test_a_cache_of_another_layout_is_ignored(path: Path, change: Any) -> None:
    read(path)
    with np.load(cache_path(path)) as stored:
        arrays = dict(stored)
    header = json.loads(arrays["header"].tobytes())
    change(header)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with cache_path(path).open("wb") as handle:
        np.savez(handle, **arrays)
    assert isinstance(read(path).train, list)


def test_a_cache_that_is_a_folder_is_no_error(path: Path) -> None:
    cache_path(path).mkdir()
    assert len(read(path).train) == STEPS
    columns.keep(path)
    assert cache_path(path).is_dir()
    assert [each.name for each in path.parent.iterdir() if each.name.startswith(".write-")] == []


def test_a_folder_that_cannot_be_written_has_no_cache(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("read-only")  # a test that runs as root cannot make a folder refuse it

    monkeypatch.setattr(columns, "write_whole", refuse)
    assert len(read(path).train) == STEPS
    columns.keep(path)
    assert not cache_path(path).exists()


def test_short_files_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "SETTLED_NANOSECONDS", -1)
    path = tmp_path / "metrics.jsonl"
    write(path, rows_of(100))
    assert len(read(path).train) == 100
    columns.keep(path)
    assert not cache_path(path).exists()


def test_a_reader_keeps_nothing_of_a_file_written_just_now(tmp_path: Path) -> None:
    """It could change within one tick of the clock; the run itself, at its end, knows that it does not."""
    path = tmp_path / "metrics.jsonl"
    write(path, rows_of(STEPS))
    read(path)
    assert not cache_path(path).exists()
    columns.keep(path)
    assert isinstance(read(path).train, ColumnRows)


def test_a_file_that_grows_while_it_is_read_is_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = columns.read_rows

    def read_and_grow(file: Path) -> Any:
        rows = real(file)
        appended(file)
        return rows

    monkeypatch.setattr(columns, "read_rows", read_and_grow)
    assert len(read(path).train) == STEPS
    assert not cache_path(path).exists()


def test_no_file_has_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path / "metrics.jsonl") == columns.Logged([], [], 0)
    columns.keep(tmp_path / "metrics.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(OSError):
        read(tmp_path / "metrics.jsonl")
    columns.keep(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize(
    ("status", "kept"), [("finished", True), ("interrupted", True), ("diverged", True), ("running", False)]
)
def test_readers_keep_only_what_has_ended(path: Path, status: str, kept: bool) -> None:
    run = RunDirectory.create(path.parent / "runs", "stem", "mine")
    run.write_state(status=status)
    path.rename(run.metrics_path)
    assert len(run.train_rows()) == STEPS
    assert len(run.evaluations()) == 3
    assert cache_path(run.metrics_path).exists() == kept


def test_a_run_without_a_readable_state_is_left_alone(path: Path) -> None:
    run = RunDirectory(path.parent)
    assert len(run.train_rows()) == STEPS
    assert not cache_path(path).exists()


def test_a_run_keeps_its_columns_and_forgets_them_when_resumed(path: Path) -> None:
    run = RunDirectory(path.parent)
    run.keep_columns()
    assert isinstance(run.train_rows(), ColumnRows)
    run.truncate_metrics(1000)
    assert [row["step"] for row in run.train_rows()[-1:]] == [1000]
    assert run.evaluations()[-1]["step"] == 1000
