"""`attnres sweep hops`: how many pointers each scheme follows at several depths."""

from __future__ import annotations

from typing import Annotated

import typer

from attnres_cli.cli.options import DEFAULT_RUNS_DIR, JsonOption, OverlayOption, RunsRootOption, SetOption
from attnres_cli.cli.sweep_options import (
    BudgetFlopsOption,
    BudgetMinutesOption,
    DryRunOption,
    JobsOption,
    ResidualsOption,
    SeedsOption,
    SweepNameOption,
    SweepPresetArgument,
    chosen_budget,
    whole_numbers,
)


def hops(
    preset: SweepPresetArgument = None,
    depths: Annotated[
        str | None, typer.Option("--blocks", metavar="A,B,…", help="Numbers of transformer blocks, all of one width.")
    ] = None,
    residuals: ResidualsOption = None,
    seeds: SeedsOption = None,
    budget_flops: BudgetFlopsOption = None,
    budget_minutes: BudgetMinutesOption = None,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    name: SweepNameOption = None,
    jobs: JobsOption = None,
    dry_run: DryRunOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Train on pointer chasing: how many hops does each scheme follow at each depth?

    Every question names a node and a number of hops through a cycle that its document lists. Shows the deepest number
    of hops that is solved, by how many seeds, right answers and loss by number of hops.
    """
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.sweep.kinds.hops import make_request

    request = make_request(
        preset,
        overlays=overlays or (),
        sets=sets or (),
        residuals=residuals or (),
        depths=whole_numbers(depths, "--blocks"),
        budget=chosen_budget(budget_flops, budget_minutes),
        seeds=seeds,
    )
    start(request, name=name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)
