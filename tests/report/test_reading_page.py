"""docs/reading-the-report.md explains every picture that the program draws."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnres_cli.report import pictures_of_sweeps
from attnres_cli.report.pictures import pictures
from tests.report.groups import comparison
from tests.reported_runs import arms_of_three

PAGE = Path(__file__).parents[2] / "docs" / "reading-the-report.md"
ARMS = ("prenorm", "attnres-block", "attnres-full")
# What makes a picture of a sweep takes its key first, or behind the grid that it is of.
MAKERS = ("Lines", "Heat", "Views", "_heat")


@pytest.fixture(scope="module")
def explained() -> set[str]:
    """Every key that the page names; a key with an arm in it as `mixing-ARM`."""
    return set(re.findall(r"`([a-z-]+(?:-ARM)?)`", PAGE.read_text(encoding="utf-8")))


def test_every_picture_of_runs_is_explained(tmp_path: Path, explained: set[str]) -> None:
    keys = {picture.key for picture in pictures(comparison(arms_of_three(tmp_path), baseline="prenorm"))}
    general = {re.sub(rf"-({'|'.join(ARMS)})$", "-ARM", key) for key in keys}
    assert len(general) > 20
    assert general - explained == set()


def test_every_picture_of_sweeps_is_explained(explained: set[str]) -> None:
    keys = set(keys_of_sweeps())
    assert {"arms", "hops", "loss-grid", "horizon-difference"} <= keys
    assert keys - explained == set()


def keys_of_sweeps() -> Iterator[str]:
    """The keys written in the files of pictures_of_sweeps/; of one with more behind it the beginning."""
    for file in Path(next(iter(pictures_of_sweeps.__path__))).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in MAKERS:
                yield from (key for argument in node.args[:2] if (key := _key(argument)))
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "key":
                yield from filter(None, [_key(node.value)])


def _key(node: ast.expr) -> str | None:
    if isinstance(node, ast.BinOp):
        return _key(node.left)
    if isinstance(node, ast.JoinedStr):
        return _key(node.values[0])
    value = node.value if isinstance(node, ast.Constant) else None
    return value.rstrip("-") if isinstance(value, str) and re.fullmatch(r"[a-z]+(-[a-z]+)*-?", value) else None
