"""Holds the numbers that `--json` has beside its tables against recomputed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.recomputed.harness import RELATIVE, same


def check_payload(
    payload: Mapping[str, Any], expected: Mapping[str, Any], *, wider: Mapping[str, float] | None = None
) -> None:
    """Assert that every number under the keys of `expected` is the expected one, and that there are no others.

    wider: {last part of a path: relative tolerance} where 1e-9 is too narrow; say why beside it.
    """
    faults = []
    for key, wanted in expected.items():
        found, given = dict(_numbers(payload[key], key)), dict(_numbers(wanted, key))
        for path in sorted(found.keys() | given.keys()):
            tolerance = (wider or {}).get(path.rpartition(".")[2], RELATIVE)
            if path not in given:
                faults.append(f"{path}: {found[path]!r} is a number that nobody recomputes")
            elif path not in found or not same(found[path], given[path], tolerance):
                faults.append(f"{path}: {found.get(path)!r}, but recomputed {given[path]!r}")
    assert not faults, "\n".join(faults)


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _numbers(each, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from _numbers(each, f"{path}.{number}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value
