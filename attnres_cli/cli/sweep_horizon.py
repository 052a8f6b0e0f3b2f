"""`attnres sweep horizon`: the same comparison at several training lengths, each decayed to its end."""

from __future__ import annotations

from typing import Annotated

import typer

from attnres_cli.cli.options import DEFAULT_RUNS_DIR, JsonOption, OverlayOption, RunsRootOption, SetOption
from attnres_cli.cli.sweep_options import (
    DryRunOption,
    JobsOption,
    ResidualsOption,
    SeedsOption,
    SweepNameOption,
    SweepPresetArgument,
)


def horizon(
    preset: SweepPresetArgument = None,
    horizons: Annotated[
        str | None,
        typer.Option(
            "--horizons",
            metavar="A,B,…",
            help="Training lengths as multiples of the preset's; default 0.5,0.7,1,1.4,2.",
        ),
    ] = None,
    residuals: ResidualsOption = None,
    seeds: SeedsOption = None,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    name: SweepNameOption = None,
    jobs: JobsOption = None,
    dry_run: DryRunOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Train to several horizons: does the difference last, and what is it worth in compute?

    Every point is the end of a decayed schedule; what the runs of one scheme and seed share is trained once. Shows Δ by
    horizon, and how much more compute the baseline needs for the same loss, from its own ladder.
    """
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.sweep.axes import parse_ratios
    from attnres_cli.sweep.kinds.horizon import make_request

    request = make_request(
        preset,
        overlays=overlays or (),
        sets=sets or (),
        residuals=residuals or (),
        horizons=None if horizons is None else parse_ratios(horizons, "--horizons"),
        seeds=seeds,
    )
    start(request, name=name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)
