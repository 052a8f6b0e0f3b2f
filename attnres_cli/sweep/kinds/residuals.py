"""Every residual scheme, with its defaults, against the baseline: one cell, one arm per scheme."""

from __future__ import annotations

from collections.abc import Sequence

from attnres_cli.discovery import names
from attnres_cli.residual.arms import default_arms
from attnres_cli.sweep.arms import Source, asked_arms
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.definition import Definition, read_definition
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.request import Request, checked_seeds
from attnres_cli.sweep.results import Sweep

KIND = "residuals"
GROWING = ()


def make_request(
    ref: str | None,
    *,
    overlays: Sequence[str] = (),
    sets: Sequence[str] = (),
    residuals: Sequence[str] = (),
    budget: Budget | None = None,
    seeds: int | None = None,
) -> Request:
    """The request that these options make. residuals: schemes, the reference first; empty: all, the baseline first.

    A scheme asked for beside no reference gets the baseline before it. Raises UserError for anything the preset room
    refuses.
    """
    definition = read_definition(KIND, Definition)
    source = Source(ref or definition.preset, overlays, sets)
    baseline = default_arms("sweep")[0]
    asked = list(residuals) or names("residual.schemes")
    if baseline not in asked or not residuals:
        asked = [baseline, *(name for name in asked if name != baseline)]
    return Request(
        kind=KIND,
        preset=source.load(),
        arms=asked_arms(source, asked),
        seeds=checked_seeds(definition.seeds if seeds is None else seeds),
        budget=definition.budget(ref, budget),
    )


def most_cells(request: Request) -> int:
    return 1


def plan(request: Request, context: Context) -> Sweep:
    """One cell; a scheme that does not fit the preset is a row with its reason."""
    return lay_out(request, context, [Point("", {}, {})], report="arms")
