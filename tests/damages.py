"""Ways in which a file of a run directory may be damaged, or hold what this program never writes."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tomli_w

TEXTS: dict[str, bytes] = {
    "empty": b"",
    "half of an object": b'{"step": 1, "status',
    "a list": b"[1, 2]",
    "a text": b'"text"',
    "null": b"null",
    "bytes": bytes(range(256)) * 4,
    "brackets": b"[" * 100_000,
    "deep": b'{"a": ' * 700 + b"1" + b"}" * 700,
    "half a character": b'{"status": "\\ud800", "observer": "\\ud800", "kind": "eval", "step": 3}',
}
# In place of one value in a file that is otherwise whole.
VALUES: dict[str, Any] = {
    "401 digits": 10**400,
    "a huge integer": 10**90,
    "beyond a float": "@1e999",
    "negative": -3,
    "a text": "x",
    "a list": [1, "x", [2]],  # TOML has no null
    "a table": {"x": {"y": 1}},
    "true": True,
    "null": None,
    "nan": "@NaN",
}
JSON_FILES = ("manifest.json", "state.json")
LINES_FILES = ("metrics.jsonl", "probes/observations.jsonl")
TOML_FILE = "resolved.toml"

Damage = Callable[[Path], None]


def whole_files(run: Path) -> list[str]:
    """Every file of a run that this program reads as text."""
    probes = sorted(path.relative_to(run).as_posix() for path in run.glob("probed/*/*.json"))
    return [*JSON_FILES, *LINES_FILES, TOML_FILE, *probes]


def of_whole_files(run: Path) -> Iterator[tuple[str, Damage]]:
    """(name, damage) of every file as a whole: another content, none, a folder."""
    for file in whole_files(run):
        for name, content in TEXTS.items():
            yield f"{file}: {name}", _content(file, content)
        yield f"{file}: missing", _missing(file)
        yield f"{file}: a folder", _folder(file)
    for file in LINES_FILES:
        for name, content in TEXTS.items():
            yield f"{file}: a line of {name}", _line(file, content)
    for path in sorted(run.glob("probed/*/*.safetensors")):
        file = path.relative_to(run).as_posix()
        yield f"{file}: bytes", _content(file, TEXTS["bytes"])
        yield f"{file}: empty", _content(file, b"")


def of_values(run: Path) -> Iterator[tuple[str, Damage]]:
    """(name, damage) of every value in every file of a run, one at a time, in place of which there is another."""
    for file in whole_files(run):
        for place in places(_parsed(run / file)):
            for name, value in VALUES.items():
                yield f"{file} {'.'.join(map(str, place))}: {name}", _value(file, place, value)


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside; of a list to its first, and of rows to every one with other keys."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        kinds: dict[Any, int] = {}
        for index in reversed(range(len(value))):
            each = value[index]
            kinds[(each.get("kind"), each.get("observer")) if isinstance(each, dict) else type(each)] = index
        inner = [(index, value[index]) for index in kinds.values()]
    for key, each in inner:
        yield (*before, key)
        yield from places(each, (*before, key))


def _parsed(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return tomllib.loads(text)
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def _content(file: str, content: bytes) -> Damage:
    return lambda run: (run / file).write_bytes(content) and None


def _missing(file: str) -> Damage:
    return lambda run: (run / file).unlink()


def _folder(file: str) -> Damage:
    def damage(run: Path) -> None:
        (run / file).unlink()
        (run / file).mkdir()

    return damage


def _line(file: str, content: bytes) -> Damage:
    def damage(run: Path) -> None:
        lines = (run / file).read_bytes().split(b"\n")
        (run / file).write_bytes(b"\n".join([*lines[:2], content, *lines[2:]]))

    return damage


def _value(file: str, place: tuple[Any, ...], value: Any) -> Damage:
    def damage(run: Path) -> None:
        path = run / file
        whole = copy.deepcopy(_parsed(path))
        inner = whole
        for key in place[:-1]:
            inner = inner[key]
        if value is None and path.suffix == ".toml":
            del inner[place[-1]]
        else:
            inner[place[-1]] = value
        if path.suffix == ".toml":
            text = tomli_w.dumps(whole).replace('"@NaN"', "nan").replace('"@1e999"', "inf")
        elif path.suffix == ".jsonl":
            text = "".join(json.dumps(row) + "\n" for row in whole)
        else:
            text = json.dumps(whole)
        path.write_text(text.replace('"@NaN"', "NaN").replace('"@1e999"', "1e999"), encoding="utf-8")

    return damage
