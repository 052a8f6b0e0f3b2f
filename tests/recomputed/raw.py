"""Run directories as docs/run-directory.md describes them, read with json and tomllib alone."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run directory; whatever is missing in it is an error here, because the material of the tests is whole."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def manifest(self) -> Row:
        return _object((self.path / "manifest.json").read_text())

    @cached_property
    def state(self) -> Row:
        return _object((self.path / "state.json").read_text())

    @cached_property
    def resolved(self) -> dict[str, Row]:
        return tomllib.loads((self.path / "resolved.toml").read_text())

    @property
    def scheme(self) -> str:
        return str(self.resolved["residual"]["scheme"])

    @property
    def seed(self) -> int:
        return int(self.resolved["train"]["seed"])

    @cached_property
    def evaluations(self) -> list[Row]:
        return self._by_step("eval")

    @cached_property
    def train_rows(self) -> list[Row]:
        return self._by_step("train")

    def _by_step(self, kind: str) -> list[Row]:
        """The rows of a kind in order of their step; a step that was written again holds what was written last."""
        rows = {row["step"]: row for row in lines(self.path / "metrics.jsonl") if row.get("kind") == kind}
        return [rows[step] for step in sorted(rows)]

    @property
    def evaluated(self) -> list[Row]:
        """The evaluations that gave a loss."""
        return [row for row in self.evaluations if is_number(row["loss"])]

    @property
    def last_evaluation(self) -> Row | None:
        return self.evaluated[-1] if self.evaluated else None

    def evaluation_at(self, tokens: int) -> Row | None:
        return next((row for row in self.evaluated if row["tokens"] == tokens), None)

    def evaluation_within(self, tokens: float) -> Row | None:
        """The last evaluation after at most so many training tokens, and after some."""
        return next((row for row in reversed(self.evaluated) if 0 < row["tokens"] <= tokens), None)

    @property
    def end(self) -> Row | None:
        """The evaluation at the end of a finished schedule."""
        return self.evaluation_at(self.manifest["tokens"]) if self.state["status"] == "finished" else None

    @property
    def end_loss(self) -> float | None:
        return None if self.end is None else float(self.end["loss"])

    @cached_property
    def observations(self) -> list[Row]:
        return lines(self.path / "probes" / "observations.jsonl")

    def observed(self, observer: str) -> Row | None:
        """The summary of an observer at the last step at which it looked."""
        rows = [row for row in self.observations if row["observer"] == observer]
        return max(rows, key=lambda row: row["step"])["summary"] if rows else None


def lines(path: Path) -> list[Row]:
    """The objects of a .jsonl file; lines that are torn are left out."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(_object(line))
        except ValueError:
            continue
    return rows


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _object(text: str) -> Row:
    found: Row = json.loads(text)
    return found
