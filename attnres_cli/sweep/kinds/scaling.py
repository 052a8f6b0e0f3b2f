"""Several sizes at a fixed number of tokens per parameter: one cell per size, every cell with every scheme.

Sizes keep the preset's proportions, as the paper's do: d_model / L_b, the head size and d_ff / d_model. The learning
rate follows the width by a stated rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from pydantic import BaseModel, ConfigDict, Field

from attnres_cli.errors import ExitCode, UserError, plural
from attnres_cli.residual.arms import default_arms
from attnres_cli.sweep.arms import Source, chosen_arms
from attnres_cli.sweep.budget import FEWEST_STEPS
from attnres_cli.sweep.counting import counts_of
from attnres_cli.sweep.definition import Count, Positive, read_definition
from attnres_cli.sweep.kinds.depth_width import learning_rate_rule, learning_rates
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.rates import SETTING, asked_rates, candidates, with_trials
from attnres_cli.sweep.request import Request, checked_seeds
from attnres_cli.sweep.resolve import HORIZON, with_arm
from attnres_cli.sweep.results import Sweep
from attnres_cli.sweep.shapes import Family, Shape

KIND = "scaling"
GROWING = ("sizes", SETTING)


class Scaling(BaseModel):
    """The keys of presets/sweeps/scaling.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str = Field(description="the preset whose proportions are kept when none is named")
    arms: tuple[str, ...] = Field((), description="residual schemes, the reference first; default: residual/arms.toml")
    seeds: Count = Field(1, description="runs of every scheme at every size, each with a seed of its own")
    sizes: tuple[Count, ...] = Field(min_length=1, description="transformer blocks of each size")
    tokens_per_parameter: Positive = Field(description="training tokens per non-embedding parameter")
    learning_rate_power: float = Field(
        description="peak learning rate = the preset's × (d_model / the preset's d_model) ^ this"
    )


def make_request(
    ref: str | None,
    *,
    overlays: Sequence[str] = (),
    sets: Sequence[str] = (),
    residuals: Sequence[str] = (),
    sizes: tuple[int, ...] | None = None,
    tokens_per_parameter: float | None = None,
    seeds: int | None = None,
    tune_rates: int | None = None,
) -> Request:
    """The request that these options make. None and empty: what presets/sweeps/scaling.toml says. tune_rates: learning
    rates that every size and arm tries around the rule's; None: the rule's. Raises UserError."""
    definition = read_definition(KIND, Scaling)
    source = Source(ref or definition.preset, overlays, sets)
    preset = source.load()
    ratio = definition.tokens_per_parameter if tokens_per_parameter is None else tokens_per_parameter
    if not 0 < ratio < math.inf:
        raise UserError(
            f"--tokens-per-parameter {ratio:g}: the ratio has to be positive and finite.",
            where="--tokens-per-parameter",
            exit_code=ExitCode.USAGE,
        )
    return Request(
        kind=KIND,
        preset=preset,
        arms=chosen_arms(source, preset, residuals, definition.arms or default_arms("sweep")),
        seeds=checked_seeds(definition.seeds if seeds is None else seeds),
        settings={
            "sizes": sorted(set(sizes or definition.sizes)),
            "tokens_per_parameter": ratio,
            "learning_rate_power": definition.learning_rate_power,
            **asked_rates(tune_rates),
        },
    )


def most_cells(request: Request) -> int:
    return len(request.settings["sizes"])


def plan(request: Request, context: Context) -> Sweep:
    """A cell per size, with its own shape, tokens and learning rate; the tokens are those of the first scheme's
    parameters, the same for every scheme. Raises UserError for a size that would hardly train."""
    points = [_point(request, context, blocks) for blocks in request.settings["sizes"]]
    facts = {
        "tokens_per_parameter": request.settings["tokens_per_parameter"],
        "learning_rate_rule": learning_rate_rule(request),
    }
    sweep = lay_out(request, context, points, report=KIND, facts=facts, trials=candidates(request))
    return with_trials(request, sweep)


def _point(request: Request, context: Context, blocks: int) -> Point:
    preset = request.preset
    own = Shape.of(preset.model)
    shape = Family.of(own).scaled(own, blocks)
    rates = learning_rates(request, shape)
    changes = {**shape.settings(), **{f"train.{key}": rate for key, rate in rates.items()}}
    counts = counts_of(with_arm(preset, request.arms[0], changes), context.vocab_size)
    per_step = preset.train.tokens_per_step
    steps = math.ceil(request.settings["tokens_per_parameter"] * counts.non_embedding_parameters / per_step)
    if steps < FEWEST_STEPS:
        raise UserError(
            f"Size {blocks} ({counts.non_embedding_parameters:,} parameters) would train {steps} "
            f"{plural(steps, 'step')}.",
            where="--tokens-per-parameter",
            expected=f"at least {FEWEST_STEPS} steps of {per_step:,} tokens",
            hint="larger --sizes, or more --tokens-per-parameter",
            exit_code=ExitCode.USAGE,
        )
    return Point(
        key=f"L{blocks}",
        coordinates={"transformer_blocks": blocks},
        changes={**changes, HORIZON: steps * per_step},
        facts={"shape": asdict(shape), **rates},
    )
