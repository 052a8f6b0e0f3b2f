from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.data.corpora.jsonl import Config, documents
from attnres_cli.data.text import clean
from attnres_cli.errors import UserError


def read(path: Path, content: bytes, field: str = "text") -> list[tuple[str, bytes]]:
    path.write_bytes(content)
    section = Config(corpus="jsonl", files=(path.name,), field=field)
    return [(document.name, document.text) for document in documents(section, path.parent)]


def fault(path: Path, content: bytes, field: str = "text") -> tuple[str, str | None, str | None]:
    with pytest.raises(UserError) as caught:
        read(path, content, field)
    (only,) = caught.value.faults
    return only.what, only.where, only.nearest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.jsonl"


def test_one_document_a_line(path: Path) -> None:
    content = '{"text": "one\\r\\ntwo"}\n\n   \n{"id": 3, "text": "naïve"}'.encode()
    assert read(path, content) == [("notes.jsonl:1", b"one\r\ntwo"), ("notes.jsonl:4", "naïve".encode())]


def test_other_field(path: Path) -> None:
    assert read(path, b'{"body": "x"}', field="body") == [("notes.jsonl:1", b"x")]


def test_bad_json_names_file_and_line(path: Path) -> None:
    what, where, _ = fault(path, b'{"text": "a"}\n{"text": "b"\n')
    assert what.startswith("This line is not JSON: Expecting ',' delimiter at column 13")
    assert where == f"{path}:2"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[1, 2]", "This line is not a JSON object but a list."),
        (b"null", "This line is not a JSON object but null."),
        (b'{"text": 7}', "The field 'text' is not a text but a number."),
        (b'{"text": null}', "The field 'text' is not a text but null."),
        (b'{"text": {}}', "The field 'text' is not a text but an object."),
        (b"[" * 100_000, "This line is not JSON: "),
    ],
)
def test_bad_lines(path: Path, line: bytes, message: str) -> None:
    what, where, _ = fault(path, line)
    assert what.startswith(message)
    assert where == f"{path}:1"


def test_missing_field_names_the_nearest(path: Path) -> None:
    what, where, nearest = fault(path, b'{"texts": "a", "id": 1}')
    assert what == "This line has no field 'text'."
    assert where == f"{path}:1"
    assert nearest == "texts"


def test_file_without_lines(path: Path) -> None:
    what, where, _ = fault(path, b"\n\n")
    assert what == "The file notes.jsonl has no lines."
    assert where == str(path)


def test_undecodable_bytes_reach_the_policy(path: Path) -> None:
    path.write_bytes(b'{"text": "a\xffb"}\n{"text": "half \\ud83d pair"}\n{"text": "\\ud83d\\ude00"}\n')
    section = Config(corpus="jsonl", files=(path.name,))
    cleaned = list(clean(documents(section, path.parent), "replace"))
    assert [text.content.decode() for text in cleaned] == ["a\ufffdb", "half \ufffd\ufffd\ufffd pair", "\U0001f600"]
    assert [text.replaced_bytes for text in cleaned] == [1, 3, 0]
    with pytest.raises(UserError, match=r"notes\.jsonl:1 is not UTF-8: byte ff at offset 1"):
        list(clean(documents(section, path.parent), "strict"))
