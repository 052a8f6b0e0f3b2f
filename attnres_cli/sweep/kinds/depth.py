"""More layers at one width: one cell per depth, every cell with every scheme.

Everything but the number of transformer blocks stays as the preset says: the deeper cells have more parameters and cost
more. The initial residual projections follow depth by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from attnres_cli.residual.arms import default_arms
from attnres_cli.sweep.arms import Source, chosen_arms
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.definition import Count, Definition, read_definition
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.rates import SETTING, asked_rates, candidates, with_trials
from attnres_cli.sweep.request import Request, checked_seeds
from attnres_cli.sweep.results import Sweep

KIND = "depth"
GROWING = ("blocks", SETTING)


class Depth(Definition):
    """The keys of presets/sweeps/depth.toml."""

    arms: tuple[str, ...] = Field((), description="residual schemes, the reference first; default: residual/arms.toml")
    transformer_blocks: tuple[Count, ...] = Field(min_length=1, description="depths, all of the preset's width")


def make_request(
    ref: str | None,
    *,
    overlays: Sequence[str] = (),
    sets: Sequence[str] = (),
    residuals: Sequence[str] = (),
    depths: tuple[int, ...] | None = None,
    budget: Budget | None = None,
    seeds: int | None = None,
    tune_rates: int | None = None,
) -> Request:
    """The request that these options make. depths: numbers of transformer blocks; None: the definition's. tune_rates:
    learning rates that every depth and arm tries around the preset's; None: the preset's."""
    definition = read_definition(KIND, Depth)
    source = Source(ref or definition.preset, overlays, sets)
    preset = source.load()
    return Request(
        kind=KIND,
        preset=preset,
        arms=chosen_arms(source, preset, residuals, definition.arms or default_arms("sweep")),
        seeds=checked_seeds(definition.seeds if seeds is None else seeds),
        budget=definition.budget(ref, budget),
        settings={"blocks": sorted(set(depths or definition.transformer_blocks)), **asked_rates(tune_rates)},
    )


def most_cells(request: Request) -> int:
    return len(request.settings["blocks"])


def plan(request: Request, context: Context) -> Sweep:
    """A cell per depth; a scheme that does not fit a depth is a row with its reason."""
    points = [
        Point(f"L{blocks}", {"transformer_blocks": blocks}, {"model.transformer_blocks": blocks}, size=blocks)
        for blocks in request.settings["blocks"]
    ]
    return with_trials(request, lay_out(request, context, points, report="depth", trials=candidates(request)))
