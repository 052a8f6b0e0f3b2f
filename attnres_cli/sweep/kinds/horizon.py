"""The horizon ladder: every scheme trained to decayed ends at several multiples of the preset's tokens.

A curve before its decay shows early advantages that are gone at the end, so each point here is a whole run with its own
decay. What the runs of one scheme and seed share is trained once: every rung leaves the one below it where that one
begins to decay (sweep/rungs.py), so it waits for that run (`Run.after`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from attnres_cli.residual.arms import default_arms
from attnres_cli.sweep.arms import Source, chosen_arms
from attnres_cli.sweep.budget import wall_seconds
from attnres_cli.sweep.definition import Count, Positive, read_definition
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.request import Request, checked_seeds
from attnres_cli.sweep.resolve import HORIZON
from attnres_cli.sweep.results import Sweep
from attnres_cli.sweep.rungs import Rung, ladder_of, saved_share

KIND = "horizon"
GROWING = ("horizons",)


class HorizonDefinition(BaseModel):
    """The keys of presets/sweeps/horizon.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str = Field(description="the preset it trains when none is named")
    seeds: Count = Field(1, description="runs of every scheme at every horizon, each with a seed of its own")
    horizons: Annotated[tuple[Positive, ...], Field(min_length=1)] = Field(
        description="training lengths as multiples of the preset's train.horizon_tokens"
    )


def make_request(
    ref: str | None,
    *,
    overlays: Sequence[str] = (),
    sets: Sequence[str] = (),
    residuals: Sequence[str] = (),
    horizons: Sequence[float] | None = None,
    seeds: int | None = None,
) -> Request:
    """The request that these options make. None and empty: what presets/sweeps/horizon.toml says. Raises UserError."""
    definition = read_definition(KIND, HorizonDefinition)
    source = Source(ref or definition.preset, overlays, sets)
    preset = source.load()
    return Request(
        kind=KIND,
        preset=preset,
        arms=chosen_arms(source, preset, residuals, default_arms("sweep")),
        seeds=checked_seeds(definition.seeds if seeds is None else seeds),
        settings={"horizons": sorted(horizons or definition.horizons)},
    )


def most_cells(request: Request) -> int:
    """How many rungs at most."""
    return len(request.settings["horizons"])


def plan(request: Request, context: Context) -> Sweep:
    """One run per rung, scheme and seed; all but the lowest leave the run of the rung below.

    Raises UserError when the preset is too short for its rungs.
    """
    rungs = ladder_of(request.preset, request.settings["horizons"])
    below = {above.key: rung.key for rung, above in pairwise(rungs)}
    points = [_point(rung, below.get(rung.key)) for rung in rungs]
    sweep = lay_out(request, context, points, report=KIND, facts={"saved": saved_share(rungs)})
    if "estimated_minutes" in sweep.budget:
        sweep.budget = {**sweep.budget, "estimated_minutes": _minutes(sweep)}
    return sweep


def _point(rung: Rung, below: str | None) -> Point:
    facts = {
        "steps": rung.steps,
        "tokens": rung.tokens,
        "constant_steps": rung.constant_steps,
        "trained_steps": rung.trained_steps,
    }
    return Point(
        key=rung.key,
        coordinates={"horizon": rung.ratio},
        changes={HORIZON: rung.tokens, **rung.changes},
        facts=facts,
        after=below,
        after_step=None if below is None else rung.first_step,
    )


def _minutes(sweep: Sweep) -> float:
    """Wall minutes: the rungs come one after the other, the schemes and seeds of one beside each other."""
    costs: dict[str, list[float]] = {}
    for run in sweep.runs:
        costs.setdefault(run.cell, []).append(run.cost)
    return sum(wall_seconds(each, sweep.budget["parallel_runs"]) for each in costs.values()) / 60
