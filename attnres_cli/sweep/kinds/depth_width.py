"""The depth-width sweep: a grid of shapes at one size, every cell with every scheme.

request (preset, schemes, ratios, what is pinned) → points with integer shapes → runs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from attnres_cli.errors import Fault, UserError
from attnres_cli.residual.arms import default_arms
from attnres_cli.sweep.arms import Source, chosen_arms
from attnres_cli.sweep.axes import Coordinates, grid
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.counting import counts_of
from attnres_cli.sweep.definition import Definition, Positive, read_definition
from attnres_cli.sweep.layout import Context, Point, lay_out, refusal
from attnres_cli.sweep.matching import Match, match_cells
from attnres_cli.sweep.rates import SETTING, asked_rates, candidates, with_trials
from attnres_cli.sweep.request import Request, checked_seeds
from attnres_cli.sweep.resolve import with_arm
from attnres_cli.sweep.results import Arm, Sweep
from attnres_cli.sweep.shapes import Counts, Family, Shape

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

KIND = "depth-width"
GROWING = ("ratios", "head_ratios", SETTING)
MatchKind = Literal["parameters", "flops"]

# What each kind of matching holds equal: the field of Counts.
PINNED = {"parameters": "non_embedding_parameters", "flops": "training_flops_per_token"}


class DepthWidth(Definition):
    """The keys of presets/sweeps/depth-width.toml."""

    arms: tuple[str, ...] = Field(
        (),
        description="residual schemes with their own defaults, the reference first; default: residual/arms.toml",
    )
    ratios: tuple[Positive, ...] = Field(min_length=1, description="values of d_model / L_b")
    learning_rate_power: float = Field(
        description="peak learning rate = the preset's × (d_model / the preset's d_model) ^ this"
    )


def make_request(
    ref: str | None,
    *,
    overlays: Sequence[str] = (),
    sets: Sequence[str] = (),
    residuals: Sequence[str] = (),
    match: MatchKind = "parameters",
    ratios: tuple[float, ...] | None = None,
    head_ratios: tuple[float, ...] = (),
    budget: Budget | None = None,
    seeds: int | None = None,
    learning_rate_power: float | None = None,
    tune_rates: int | None = None,
) -> Request:
    """The request that these options make. None and empty: what presets/sweeps/depth-width.toml says.

    tune_rates: learning rates that every cell and arm tries around the rule's; None: the rule's.

    Without a budget, a named preset trains for its own horizon; without a preset, the definition's minutes hold.
    Raises UserError for anything the preset room refuses, and for contradictory schemes.
    """
    definition = read_definition(KIND, DepthWidth)
    source = Source(ref or definition.preset, overlays, sets)
    preset = source.load()
    return Request(
        kind=KIND,
        preset=preset,
        arms=chosen_arms(source, preset, residuals, definition.arms or default_arms("sweep")),
        seeds=checked_seeds(definition.seeds if seeds is None else seeds),
        budget=definition.budget(ref, budget),
        settings={
            "match": match,
            "ratios": list(ratios or sorted(definition.ratios)),
            "head_ratios": list(head_ratios),
            "learning_rate_power": definition.learning_rate_power
            if learning_rate_power is None
            else learning_rate_power,
            **asked_rates(tune_rates),
        },
    )


def most_cells(request: Request) -> int:
    return len(_grid(request))


def plan(request: Request, context: Context) -> Sweep:
    """Every cell with shape and counts, every impossible cell with its reason.

    Raises UserError when the preset is too small for its schemes, or the budget for the sweep.
    """
    preset = request.preset
    count = _Counter(preset, context.vocab_size)
    reference = Shape.of(preset.model)
    points, impossible = _points(request, count, reference)
    if not points:
        raise UserError([_impossible_fault(each) for each in impossible])
    sweep = lay_out(
        request,
        context,
        points,
        report=KIND,
        trials=candidates(request),
        facts={
            "reference": {
                "shape": asdict(reference),
                "counts": asdict(count(reference, request.arms[0])),
                "learning_rate": preset.train.learning_rate,
            },
            "learning_rate_rule": learning_rate_rule(request),
        },
        impossible=impossible,
    )
    return with_trials(request, sweep)


def learning_rate_rule(request: Request) -> str:
    """The rule as a sentence with its numbers."""
    train, width = request.preset.train, request.preset.model.d_model
    rate = f"{train.learning_rate:g} × (d_model / {width})^{request.settings['learning_rate_power']:g}"
    if candidates(request):
        return f"Peak learning rate by the rule = {rate}; every cell and scheme has its own, chosen around it."
    return f"Peak learning rate = {rate}, the same for every scheme."


class _Counter:
    """Counts real models on the meta device; each shape and scheme once."""

    def __init__(self, preset: Preset, vocab_size: int) -> None:
        self.preset, self.vocab_size = preset, vocab_size
        self._known: dict[tuple[Shape, str], Counts] = {}

    def __call__(self, shape: Shape, arm: Arm) -> Counts:
        """Raises UserError when the scheme does not fit the shape."""
        key = (shape, arm.label)
        if key not in self._known:
            self._known[key] = counts_of(with_arm(self.preset, arm, shape.settings()), self.vocab_size)
        return self._known[key]


def _grid(request: Request) -> tuple[Coordinates, ...]:
    return grid(request.settings["ratios"], request.settings["head_ratios"])


def _points(request: Request, count: _Counter, reference: Shape) -> tuple[list[Point], list[dict[str, Any]]]:
    pinned, first, cells = PINNED[request.settings["match"]], request.arms[0], _grid(request)
    target = count(reference, first)
    matches, failures = match_cells(
        cells,
        family=Family.of(reference),
        reference=reference,
        measure=lambda shape: getattr(count(shape, first), pinned),
        target=getattr(target, pinned),
    )
    impossible = [refusal(_bare(each.coordinates), None, each.reason) for each in failures]
    points = []
    for match in matches:
        try:
            points.append(_point(match, request, count, target))
        except UserError as error:  # a scheme that does not fit this depth: without it the cell has nothing to compare
            impossible.append(refusal(_bare(match.coordinates), None, f"{match.shape}: {error}"))
    order = {coordinates.key: position for position, coordinates in enumerate(cells)}
    return points, sorted(impossible, key=lambda cell: order[cell["key"]])


def _bare(coordinates: Coordinates) -> Point:
    return Point(coordinates.key, _coordinates(coordinates), {})


def _coordinates(coordinates: Coordinates) -> dict[str, float | None]:
    return {"head_ratio": coordinates.head_ratio, "ratio": coordinates.ratio}


def _impossible_fault(cell: Mapping[str, Any]) -> Fault:
    return Fault(f"Cell {cell['key']} is impossible: {cell['reason']}.", hint="other --ratios, or another preset")


def _point(match: Match, request: Request, count: _Counter, target: Counts) -> Point:
    shape, rates = match.shape, learning_rates(request, match.shape)
    counts = {arm.label: count(shape, arm) for arm in request.arms}
    ours = counts[request.arms[0].label]
    return Point(
        key=match.coordinates.key,
        coordinates=_coordinates(match.coordinates),
        changes={**shape.settings(), **{f"train.{key}": rate for key, rate in rates.items()}},
        facts={
            "shape": asdict(shape),
            "realised_ratio": shape.ratio,
            "realised_head_ratio": shape.head_ratio,
            **rates,
            "mismatch": {name: getattr(ours, name) / getattr(target, name) - 1 for name in PINNED.values()},
        },
        # Shapes of one size cost about the same arithmetic; what makes one slower is the number of its operations.
        size=shape.transformer_blocks,
    )


def learning_rates(request: Request, shape: Shape) -> dict[str, float]:
    """Peak learning rates of [train] at this shape's width, by the request's `learning_rate_power`."""
    train = request.preset.train
    scale = (shape.d_model / request.preset.model.d_model) ** request.settings["learning_rate_power"]
    rates = {"learning_rate": rounded(train.learning_rate * scale)}
    if train.optimizer == "muon" and train.muon_learning_rate is not None:  # without one Muon takes learning_rate
        rates["muon_learning_rate"] = rounded(train.muon_learning_rate * scale)
    return rates


def rounded(rate: float) -> float:
    """A learning rate in four significant digits, so that presets stay readable."""
    return float(f"{rate:.4g}")
