"""The plan of a reproduction: the paper's claims, how each is tested, and what was assumed before any run.

    presets/reproductions/<scale>.toml      what comes with the program; the user's and the project's own go first

Which runs are trained follows from the claims: every claim names the runs it needs, and one that the power calculation
leaves out needs none.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from attnres_cli import discovery
from attnres_cli.analysis.claims import decidable
from attnres_cli.discovery import names
from attnres_cli.errors import ExitCode, UserError, nearest_name
from attnres_cli.preset.catalogue import preset_folders
from attnres_cli.report.evidence import LOSS, Prior
from attnres_cli.runs.observed import FIGURES
from attnres_cli.sweep.definition import Count, definition_of

FOLDER = "reproductions"


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Assumption(_Frozen):
    """effect: of the claim's figure, in nats, or a ratio where the figure is one. standard_deviation: of it over seeds
    (of a bench: over its rounds), in nats, or of the logarithm of a ratio. source: where both come from."""

    effect: float
    standard_deviation: Annotated[float, Field(gt=0)]
    source: str


class Claim(BaseModel):
    """One row of the table; the other keys are those of its test (report/claims/)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    key: str = Field(description="unique in the plan")
    claim: str = Field(description="a sentence")
    paper: str = Field(description="the paper's figures, in words")
    source: str = Field(description="where in the paper")
    test: str = Field(description="a file of report/claims/")
    seeds: Count | None = Field(None, description="runs of every arm it needs; without it the plan's seeds")
    assumed: Assumption | None = None

    @property
    def settings(self) -> Any:
        """The keys of its test, as the test's own model."""
        return self._module.Settings.model_validate(self.model_extra or {})

    @property
    def _module(self) -> Any:
        return discovery.load("report.claims", self.test, what="test of a claim", where="claims.test")

    def needs_runs(self) -> tuple[str, ...]:
        found: tuple[str, ...] = self._module.runs(self.settings)
        return found

    def needs_benches(self) -> tuple[str, ...]:
        found: tuple[str, ...] = self._module.benches(self.settings)
        return found


class Bench(_Frozen):
    """One interleaved bench. arms: the baseline first. changes: of the plan's preset, beside the plan's own."""

    mode: str = "train"
    arms: Annotated[tuple[str, ...], Field(min_length=2)]
    pairs: Annotated[int, Field(ge=6)] = Field(15, description="six are the fewest that give an interval")
    prompt_tokens: int = 0
    changes: dict[str, Any] = Field(default_factory=dict)


class PlanArm(_Frozen):
    """A scheme, or an overlay, with keys of its own. residual: of that section, beside the scheme. changes: of other
    sections, such as its own learning rate."""

    scheme: str | None = None
    overlay: str | None = None
    residual: dict[str, Any] = Field(default_factory=dict)
    changes: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.scheme is None) == (self.overlay is None):
            raise ValueError("an arm is a scheme or an overlay")
        return self


class Plan(_Frozen):
    """A whole plan. changes: of the preset, for every run. cells: name → further changes. arms: those that are not just
    a scheme or an overlay."""

    summary: str
    preset: str
    seeds: Annotated[int, Field(ge=3)]
    changes: dict[str, Any] = Field(default_factory=dict)
    cells: dict[str, dict[str, Any]]
    arms: dict[str, PlanArm] = Field(default_factory=dict)
    benches: dict[str, Bench] = Field(default_factory=dict)
    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        keys = [claim.key for claim in self.claims]
        for key in {key for key in keys if keys.count(key) > 1}:
            yield f"the claim '{key}' is there twice"
        for claim in self.claims:
            if claim.test not in (tests := names("report.claims")):
                nearest = nearest_name(claim.test, tests)
                meant = f"; did you mean {nearest}?" if nearest else ""
                yield f"claim '{claim.key}': there is no test '{claim.test}' (there are {', '.join(tests)}){meant}"
                continue
            try:
                settings = claim.settings
            except ValidationError as error:
                first = error.errors()[0]
                yield f"claim '{claim.key}': {'.'.join(map(str, first['loc']))}: {first['msg']}"
                continue
            figure = getattr(settings, "figure", LOSS)
            if figure not in (LOSS, *FIGURES):
                yield f"claim '{claim.key}': there is no figure '{figure}' (there are {LOSS}, {', '.join(FIGURES)})"
            if claim.needs_runs() and claim.assumed is None:
                yield f"claim '{claim.key}': what is assumed before the runs is missing (assumed = {{effect = …}})"
            if claim.seeds is not None and not 3 <= claim.seeds <= self.seeds:
                yield f"claim '{claim.key}': seeds = {claim.seeds} is not between 3 and the plan's {self.seeds}"
            for place in claim.needs_runs():
                if place.partition("/")[0] not in self.cells:
                    yield f"claim '{claim.key}': '{place}' is no cell of the plan and an arm (cell/arm)"
            for bench in claim.needs_benches():
                if bench not in self.benches:
                    yield f"claim '{claim.key}': there is no bench '{bench}' in the plan"

    def to_dict(self) -> dict[str, Any]:
        """Plain values as in the file."""
        values: dict[str, Any] = self.model_dump(mode="json", exclude_none=True)
        return values

    @property
    def hash(self) -> str:
        """SHA-256, hexadecimal, of the canonical content."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @cached_property
    def verdict_before(self) -> Mapping[str, tuple[bool, float | None]]:
        """Claim → (whether it is tested, its power; None for a bench of which nothing is assumed)."""
        assumed = {}
        certain = []
        for claim in self.claims:
            module, prior = claim._module, _prior(claim)
            if prior is None:
                certain.append(claim.key)
            else:
                assumed[claim.key] = module.assumed(claim.settings, prior, self._samples(claim))
        decided = decidable(assumed, certain=len(certain))
        return {claim.key: decided.get(claim.key, (True, None)) for claim in self.claims}

    def _samples(self, claim: Claim) -> int:
        """What its test is made over: seeds, or the rounds of its bench."""
        benches = claim.needs_benches()
        return min(self.benches[key].pairs for key in benches) if benches else claim.seeds or self.seeds

    @property
    def tested(self) -> tuple[Claim, ...]:
        return tuple(claim for claim in self.claims if self.verdict_before[claim.key][0])

    def seeds_by_place(self) -> dict[str, int]:
        """ "cell/arm" → how many seeds the tested claims need there; the first of them for every claim alike."""
        found: dict[str, int] = {}
        for claim in self.tested:
            for place in claim.needs_runs():
                found[place] = max(found.get(place, 0), claim.seeds or self.seeds)
        return found

    def bench_keys(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for claim in self.tested for key in claim.needs_benches()))


def _prior(claim: Claim) -> Prior | None:
    """With the logarithm of an effect that is a ratio."""
    if claim.assumed is None:
        return None
    figure = getattr(claim.settings, "figure", LOSS)
    ratio = figure != LOSS and FIGURES[figure][1]
    effect = math.log(claim.assumed.effect) if ratio else claim.assumed.effect
    return Prior(effect, claim.assumed.standard_deviation, claim.assumed.source)


# ---------------------------------------------------------------------- the file


@dataclass(frozen=True)
class Found:
    plan: Plan
    path: Path


def read_plan(scale: str, *, quick: bool = False) -> Found:
    """The plan of this scale, or of this file. Raises UserError for a scale that does not exist, and with a fault of
    the file."""
    name = f"{scale}-quick" if quick else scale
    known = _plans()
    path = Path(scale) if scale.endswith(".toml") and not quick else known.get(name)
    if path is None or not path.is_file():
        raise UserError(
            f"There is no {'quick ' * quick}plan of the scale '{scale}'.",
            where="--scale" if not quick else "--quick",
            expected=f"{', '.join(known)}, or the path of a plan that ends in .toml",
            nearest=nearest_name(name, known),
            hint="attnres reproduce --dry-run",
            exit_code=ExitCode.USAGE,
        )
    return Found(definition_of(path, Plan), path)


def plan_names() -> Sequence[str]:
    """Names of scales, from file names only."""
    return tuple(_plans())


def _plans() -> dict[str, Path]:
    """Name → file; the project's folder goes before the user's, and that before the built-in one."""
    found: dict[str, Path] = {}
    for _, folder in preset_folders():
        for path in sorted((folder / FOLDER).glob("*.toml")):
            found.setdefault(path.stem, path)
    return found
