"""The paper's ablations: one cell, one arm per overlay of presets/ablations, with the paper's losses beside yours."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from attnres_cli.errors import UserError, nearest_name
from attnres_cli.preset.catalogue import Entry, entries
from attnres_cli.sweep.arms import Source, overlay_arm, overlay_facts, refuse_twice
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.definition import Definition, read_definition
from attnres_cli.sweep.layout import Context, Point, lay_out, refusal
from attnres_cli.sweep.request import Request, checked_seeds
from attnres_cli.sweep.results import Arm, Sweep

KIND = "ablations"
GROWING = ()


class Ablations(Definition):
    """The keys of presets/sweeps/ablations.toml."""

    reference: str = Field(description="the ablation that the others are compared with")


def make_request(
    ref: str | None,
    *,
    overlays: Sequence[str] = (),
    sets: Sequence[str] = (),
    only: Sequence[str] = (),
    budget: Budget | None = None,
    seeds: int | None = None,
) -> Request:
    """The request that these options make. only: ablations, beside the reference; empty: all of them.

    One that does not fit the preset becomes a row with its reason. Raises UserError for anything else.
    """
    definition = read_definition(KIND, Ablations)
    source = Source(ref or definition.preset, overlays, sets)
    preset = source.load()
    known = {entry.name: entry for entry in entries("overlay") if entry.is_ablation}
    refuse_twice(only, "--ablation", "ablation")
    names = [definition.reference, *(name for name in only or known if name != definition.reference)]
    chosen = [_ablation(name, known) for name in names]
    arms: list[Arm] = [overlay_arm(source, preset, chosen[0])]
    unfit = []
    for entry in chosen[1:]:
        try:
            arms.append(overlay_arm(source, preset, entry))
        except UserError as error:
            unfit.append({"arm": entry.name, "reason": str(error).rstrip("."), "facts": dict(overlay_facts(entry))})
    return Request(
        kind=KIND,
        preset=preset,
        arms=tuple(arms),
        seeds=checked_seeds(definition.seeds if seeds is None else seeds),
        budget=definition.budget(ref, budget),
        settings={"unfit": unfit},
    )


def most_cells(request: Request) -> int:
    return 1


def plan(request: Request, context: Context) -> Sweep:
    """One cell; an ablation that does not fit the preset is a row with its reason and the paper's loss."""
    point = Point("", {}, {})
    unfit = [
        {**refusal(point, None, each["reason"]), "arm": each["arm"], "facts": each["facts"]}
        for each in request.settings["unfit"]
    ]
    return lay_out(request, context, [point], report="ablations", impossible=unfit)


def _ablation(name: str, known: dict[str, Entry]) -> Entry:
    if name not in known:
        raise UserError(
            f"There is no ablation '{name}'.",
            where="--ablation",
            expected=", ".join(known) or "overlays in presets/ablations",
            nearest=nearest_name(name, known),
            hint="attnres presets ls --ablations",
        )
    return known[name]
