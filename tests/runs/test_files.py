"""Files written whole or line by line, and read although a line is torn."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.runs.files import (
    append_line,
    append_row,
    json_text,
    read_json,
    read_last_rows,
    read_rows,
    write_json,
    write_whole,
)
from attnres_cli.runs.reading import parsed_toml


def test_write_whole_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_whole(path, "one")
    write_whole(path, b"\xc3\xa9")
    assert path.read_text(encoding="utf-8") == "é"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    folder = tmp_path / "taken"
    folder.mkdir()
    (folder / "inside").write_text("kept")
    with pytest.raises(OSError):
        write_whole(folder, "a folder cannot be replaced by a file")
    assert (folder / "inside").read_text() == "kept"
    assert list(tmp_path.iterdir()) == [folder]


def test_write_whole_accepts_the_longest_name_that_a_file_may_have(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".json")
    write_whole(path, "{}")
    assert path.read_text() == "{}"


def test_rows_are_readable_as_soon_as_they_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for step in range(3):
        append_row(path, {"step": step})
        assert [row["step"] for row in read_rows(path).rows] == list(range(step + 1))


def test_a_torn_last_line_is_left_out_and_does_not_swallow_the_next_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_row(path, {"step": 1})
    with path.open("a") as handle:
        handle.write('{"step": 2, "los')  # the process died here
    torn = read_rows(path)
    assert (torn.rows, torn.torn) == ([{"step": 1}], 1)
    append_row(path, {"step": 2})
    mended = read_rows(path)
    assert (mended.rows, mended.torn) == ([{"step": 1}, {"step": 2}], 1)


@pytest.mark.parametrize("line", ["[1, 2]", "3", "null", "{} {}", "\x00\x00\x00", '{"a": 1},{"b": 2}'])
def test_lines_that_hold_no_json_object_are_counted_as_torn(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"ok": 1}}\n{line}\n\n{{"ok": 2}}\n')
    found = read_rows(path)
    assert ([row["ok"] for row in found.rows], found.torn) == ([1, 2], 1)


def test_a_file_that_does_not_exist_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "none.jsonl").rows == []
    assert read_last_rows(tmp_path / "none.jsonl").rows == []


def test_the_last_rows_of_a_long_file_are_found_without_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"step": {step}}}\n' for step in range(1000)))
    last = read_last_rows(path, tail_bytes=100)
    assert last.rows[-1] == {"step": 999}
    assert 3 < len(last.rows) < 10
    assert last.torn == 0


def test_numbers_that_json_does_not_have_become_null_and_arrays_lists(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    write_json(
        path,
        {
            "nan": math.nan,
            "inf": -math.inf,
            "float32": np.float32(0.5),
            "array": np.array([1.0, math.nan]),
            "path": Path("a/b"),
            "tuple": (1, True, None),
        },
    )
    assert read_json(path) == {
        "nan": None,
        "inf": None,
        "float32": 0.5,
        "array": [1.0, None],
        "path": "a/b",
        "tuple": [1, True, None],
    }


def test_a_json_file_that_holds_no_object_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text("[1]")
    with pytest.raises(ValueError, match="no JSON object"):
        read_json(path)


UNUSABLE = {
    "brackets": "[" * 100_000,
    "deep": '{"a": ' * 200 + "1" + "}" * 200,
    "101 digits": '{"a": 1' + "0" * 100 + "}",
    "5,000 digits": '{"a": 1' + "0" * 5000 + "}",
    "half a character": '{"a": "\\ud800"}',
}


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_computed_with_is_no_json(text: str, tmp_path: Path) -> None:
    """Not the error of a parser that gave up, or of whoever uses the value later."""
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(ValueError):
        read_json(path)
    path.write_text('{"step": 1}\n' + text + '\n{"step": 2, "loss": NaN, "name": "\\u00e9"}\n')
    found = read_rows(path)
    assert found.rows == [{"step": 1}, {"step": 2, "loss": None, "name": "é"}]
    assert found.torn == 1
    assert read_last_rows(path).rows == found.rows[-len(read_last_rows(path).rows) :]


def test_toml_is_read_with_the_same_care() -> None:
    assert parsed_toml("a = [1, 2.5]\n[b]\nc = 'x'") == {"a": [1, 2.5], "b": {"c": "x"}}
    for text in ("a = " + "[" * 5000, "a = 1" + "0" * 120, "a = 2026-01-01", ".".join("a" * 60) + " = 1", "a ="):
        with pytest.raises(ValueError):
            parsed_toml(text)


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), plain_values, max_size=3))
def test_a_row_is_one_line_and_reads_back_at_full_precision(row: dict[str, object]) -> None:
    text = json_text(row)
    assert "\n" not in text
    assert json.loads(text) == row


def test_a_line_cannot_hold_a_line_break(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        append_line(tmp_path / "log.txt", "two\nlines")
