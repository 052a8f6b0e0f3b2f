"""How many pointers can a model of some depth follow? Every scheme at several depths, on questions of 1 to k hops.

The runs learn the task `hops` of the corpus `synthetic`, where every question says how many pointers to follow; the
observer `answers` writes down how many answers of each number of hops are right. Nothing but the number of transformer
blocks and the scheme differs between runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from attnres_cli.errors import UserError
from attnres_cli.residual.arms import default_arms
from attnres_cli.sweep.arms import Source, chosen_arms
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.definition import Count, read_definition
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.request import Request, checked_seeds
from attnres_cli.sweep.results import Sweep

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

KIND = "hops"
GROWING = ("blocks",)
OBSERVER = "answers"


class Hops(BaseModel):
    """The keys of presets/sweeps/hops.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str = Field(description="the preset that it trains when none is named: task, width, length of the training")
    transformer_blocks: tuple[Count, ...] = Field(min_length=1, description="depths, all of the preset's width")
    seeds: Count = Field(1, description="runs of every scheme at every depth, each with a seed of its own")
    solved_accuracy: Annotated[float, Field(gt=0, le=1)] = Field(
        description="share of right answers from which a number of hops counts as solved"
    )


def make_request(
    ref: str | None,
    *,
    overlays: Sequence[str] = (),
    sets: Sequence[str] = (),
    residuals: Sequence[str] = (),
    depths: tuple[int, ...] | None = None,
    budget: Budget | None = None,
    seeds: int | None = None,
) -> Request:
    """The request that these options make. depths: numbers of transformer blocks; None: the definition's.

    Without a budget every run trains for the preset's horizon. Raises UserError for a preset that trains another task.
    """
    definition = read_definition(KIND, Hops)
    source = Source(ref or definition.preset, overlays, sets)
    preset = source.load()
    _check_task(preset, definition.preset)
    return Request(
        kind=KIND,
        preset=preset,
        arms=chosen_arms(source, preset, residuals, default_arms("sweep")),
        seeds=checked_seeds(definition.seeds if seeds is None else seeds),
        budget=budget or Budget("preset"),
        settings={
            "blocks": sorted(set(depths or definition.transformer_blocks)),
            "solved_accuracy": definition.solved_accuracy,
        },
    )


def most_cells(request: Request) -> int:
    return len(request.settings["blocks"])


def plan(request: Request, context: Context) -> Sweep:
    """A cell per depth; a scheme that does not fit a depth is a row with its reason."""
    points = [
        Point(f"L{blocks}", {"transformer_blocks": blocks}, {"model.transformer_blocks": blocks}, size=blocks)
        for blocks in request.settings["blocks"]
    ]
    data = request.preset.data
    facts = {
        "hops": data.hops,  # type: ignore[attr-defined]
        "nodes": data.length,  # type: ignore[attr-defined]
        "solved_accuracy": request.settings["solved_accuracy"],
    }
    return lay_out(request, context, points, report=KIND, facts=facts)


def _check_task(preset: Preset, usual: str) -> None:
    """Raise UserError unless the preset asks for several numbers of hops, and what comes of it is written down."""
    values = preset.to_dict()
    if values["data"].get("task") != "hops" or values["data"].get("fewest_hops") is None:
        raise UserError(
            f"Preset '{preset.name}' does not train the task of this sweep.",
            where="PRESET",
            expected='[data] corpus = "synthetic", task = "hops", and fewest_hops beside hops',
            hint=f"attnres presets cp {usual} my-hops.toml",
        )
    if OBSERVER not in values["observe"]["observers"]:
        raise UserError(
            f"Preset '{preset.name}' does not write down which answers are right.",
            where="observe.observers",
            expected=f"'{OBSERVER}' among the observers",
        )
