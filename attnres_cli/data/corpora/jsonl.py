"""Corpus `jsonl`: JSON lines; one line is one document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from attnres_cli.data.documents import Document
from attnres_cli.data.file_patterns import find_files, missing_files
from attnres_cli.errors import Fault, UserError, nearest_name
from attnres_cli.preset.schema import DataConfig, FilePath

GIVES = Document


class Config(DataConfig):
    """[data] with corpus = "jsonl"."""

    corpus: Literal["jsonl"] = Field(description="jsonl: JSON lines, one document each")
    files: Annotated[tuple[str, ...], Field(min_length=1), FilePath()] = Field(
        description="paths and globs (`**` for any depth), relative to the preset's folder"
    )
    field: str = Field("text", description="the field of each line's object that holds the text")


def missing(config: Config, base_folder: Path) -> Iterator[tuple[str, Fault]]:
    """(key, fault) of every path and glob that leads nowhere."""
    return (("files", fault) for fault in missing_files(config.files, base_folder, key="data.files"))


def documents(config: Config, base_folder: Path) -> Iterator[Document]:
    """The text of every line; blank lines are skipped. Raises UserError with file and line where one is wrong."""
    for name, path in find_files(config.files, base_folder, key="data.files"):
        lines = 0
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        lines += 1
                        yield Document(f"{name}:{number}", _text_of(line, config.field, f"{path}:{number}"))
        except OSError as error:
            raise UserError(f"The file {name} can't be read: {error.strerror}.", where=str(path)) from error
        if not lines:
            raise UserError(f"The file {name} has no lines.", where=str(path), expected="one JSON object a line")


def _text_of(line: bytes, field: str, where: str) -> bytes:
    # Raw bytes that are not UTF-8 must reach the corpus's policy, so they ride through the JSON parser as surrogates.
    try:
        row: Any = json.loads(line.rstrip(b"\r\n").decode("utf-8", errors="surrogateescape"))
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise UserError(f"This line is not JSON: {reason}.", where=where, expected="one JSON object a line") from error
    if not isinstance(row, dict):
        raise UserError(
            f"This line is not a JSON object but {_json_kind(row)}.", where=where, expected=f'{{"{field}": "…"}}'
        )
    if field not in row:
        raise UserError(
            f"This line has no field '{field}'.",
            where=where,
            expected=f"data.field is one of {', '.join(map(str, row)) or '(it has no fields)'}",
            nearest=nearest_name(field, row),
        )
    if not isinstance(row[field], str):
        raise UserError(
            f"The field '{field}' is not a text but {_json_kind(row[field])}.",
            where=where,
            expected=f'{{"{field}": "…"}}',
        )
    return _to_bytes(row[field])


def _to_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", errors="surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair, spelt \ud83d: bytes that are not UTF-8, for the policy to judge
        return b"".join(_surrogate_bytes(character) for character in text)


def _surrogate_bytes(character: str) -> bytes:
    escaped_byte = "\udc80" <= character <= "\udcff"
    return character.encode("utf-8", errors="surrogateescape" if escaped_byte else "surrogatepass")


def _json_kind(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}.get(
        type(value), "an object"
    )
