"""A group of runs: the same preset with several seeds, and with several schemes, paired by seed.

Runs of one seed share every common initial weight and the order of the data, whatever their scheme.
"""

from __future__ import annotations

from collections.abc import Sequence

from attnres_cli.preset.preset import Preset
from attnres_cli.sweep.arms import Source, asked_arms, own_arm, scheme_arm
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.request import Request, checked_seeds
from attnres_cli.sweep.results import Arm, Sweep

KIND = "group"
GROWING = ()


def make_request(source: Source, preset: Preset, *, residuals: Sequence[str], seeds: int) -> Request:
    """The request for `residuals`, the first one the reference; without any, for the preset's own scheme.

    preset: what `source` loads, with the horizon that the runs will have.
    """
    if len(residuals) == 1:
        arms: tuple[Arm, ...] = (scheme_arm(source, residuals[0]),)
    else:
        arms = asked_arms(source, residuals) if residuals else (own_arm(preset),)
    return Request(kind=KIND, preset=preset, arms=arms, seeds=checked_seeds(seeds))


def most_cells(request: Request) -> int:
    return 1


def plan(request: Request, context: Context) -> Sweep:
    return lay_out(request, context, [Point("", {}, {})], report="group")
