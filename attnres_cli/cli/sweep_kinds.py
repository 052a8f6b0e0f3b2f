"""The commands that start a sweep: one per kind. Each turns its options into a request; `sweep_running.start` does the
rest."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    JsonOption,
    OverlayOption,
    RunsRootOption,
    SetOption,
    complete_overlay,
)
from attnres_cli.cli.sweep_hops import hops
from attnres_cli.cli.sweep_horizon import horizon
from attnres_cli.cli.sweep_options import (
    BudgetFlopsOption,
    BudgetMinutesOption,
    DryRunOption,
    JobsOption,
    ResidualsOption,
    SeedsOption,
    SweepNameOption,
    SweepPresetArgument,
    TuneRatesOption,
    chosen_budget,
    usage,
    whole_numbers,
)


class MatchOption(StrEnum):
    """What `--match` accepts."""

    parameters = "parameters"
    flops = "flops"


def depth_width(
    preset: SweepPresetArgument = None,
    budget_flops: BudgetFlopsOption = None,
    budget_minutes: BudgetMinutesOption = None,
    ratios: Annotated[
        str | None, typer.Option("--ratios", metavar="A,B,…", help="Values of d_model / transformer blocks.")
    ] = None,
    head_ratios: Annotated[
        str | None,
        typer.Option("--head-ratios", metavar="A,B,…", help="Values of heads / transformer blocks: a second axis."),
    ] = None,
    residuals: ResidualsOption = None,
    match: Annotated[
        MatchOption,
        typer.Option("--match", help="What all cells share: non-embedding parameters, or training FLOPs per token."),
    ] = MatchOption.parameters,
    lr_power: Annotated[
        float | None,
        typer.Option(
            "--lr-power", metavar="P", help="Learning rate = the preset's × (d_model / the preset's)^P; default -1."
        ),
    ] = None,
    tune_rates: TuneRatesOption = None,
    seeds: SeedsOption = None,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    name: SweepNameOption = None,
    jobs: JobsOption = None,
    dry_run: DryRunOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Train a grid of shapes with every scheme.

    Shows at which depth and width each residual scheme has its lowest loss. Every cell of the grid is one shape with
    the same non-embedding parameters (or FLOPs) and the same training tokens. Ctrl-C stops with checkpoints; the same
    command, or `attnres sweep resume`, goes on. Nothing finished is trained again.
    """
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.sweep.axes import parse_ratios
    from attnres_cli.sweep.kinds.depth_width import make_request

    request = make_request(
        preset,
        overlays=overlays or (),
        sets=sets or (),
        residuals=residuals or (),
        match=match.value,
        ratios=None if ratios is None else parse_ratios(ratios, "--ratios"),
        head_ratios=() if head_ratios is None else parse_ratios(head_ratios, "--head-ratios"),
        budget=chosen_budget(budget_flops, budget_minutes),
        seeds=seeds,
        tune_rates=tune_rates,
        learning_rate_power=lr_power,
    )
    start(request, name=name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)


def residuals(
    preset: SweepPresetArgument = None,
    schemes: ResidualsOption = None,
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
    """Train every residual scheme, with its defaults, against the baseline."""
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.sweep.kinds.residuals import make_request

    budget = chosen_budget(budget_flops, budget_minutes)
    request = make_request(
        preset, overlays=overlays or (), sets=sets or (), residuals=schemes or (), budget=budget, seeds=seeds
    )
    start(request, name=name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)


def ablations(
    preset: SweepPresetArgument = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--ablation",
            metavar="OVERLAY",
            help="An ablation (`attnres presets ls --ablations`); repeat it. Without it all of them.",
            autocompletion=complete_overlay,
        ),
    ] = None,
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
    """Train the paper's ablations and put its losses beside yours."""
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.sweep.kinds.ablations import make_request

    budget = chosen_budget(budget_flops, budget_minutes)
    request = make_request(
        preset, overlays=overlays or (), sets=sets or (), only=only or (), budget=budget, seeds=seeds
    )
    start(request, name=name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)


def blocks(
    preset: SweepPresetArgument = None,
    sizes: Annotated[
        str | None, typer.Option("--sizes", metavar="A,B,…", help="Sublayers per block; without it 1, 2, 4 … L.")
    ] = None,
    counts: Annotated[
        str | None, typer.Option("--counts", metavar="A,B,…", help="Numbers of blocks instead of sizes.")
    ] = None,
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
    """Train Block Attention Residuals at every block size; the paper's Fig. 6 stands beside."""
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.sweep.kinds.blocks import make_request

    if sizes is not None and counts is not None:
        raise usage("--sizes and --counts exclude each other: L / size is the number of blocks.", where="--counts")
    request = make_request(
        preset,
        overlays=overlays or (),
        sets=sets or (),
        sizes=whole_numbers(sizes, "--sizes"),
        counts=whole_numbers(counts, "--counts"),
        budget=chosen_budget(budget_flops, budget_minutes),
        seeds=seeds,
    )
    start(request, name=name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)


def depth(
    preset: SweepPresetArgument = None,
    depths: Annotated[
        str | None, typer.Option("--blocks", metavar="A,B,…", help="Numbers of transformer blocks, all of one width.")
    ] = None,
    schemes: ResidualsOption = None,
    tune_rates: TuneRatesOption = None,
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
    """Add layers at one width: does a scheme go on improving where the baseline saturates?"""
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.sweep.kinds.depth import make_request

    request = make_request(
        preset,
        overlays=overlays or (),
        sets=sets or (),
        residuals=schemes or (),
        depths=whole_numbers(depths, "--blocks"),
        budget=chosen_budget(budget_flops, budget_minutes),
        seeds=seeds,
        tune_rates=tune_rates,
    )
    start(request, name=name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)


def scaling(
    preset: SweepPresetArgument = None,
    sizes: Annotated[
        str | None,
        typer.Option("--sizes", metavar="A,B,…", help="Transformer blocks of each size; width grows with them."),
    ] = None,
    tokens_per_parameter: Annotated[
        float | None,
        typer.Option(
            "--tokens-per-parameter", metavar="R", help="Training tokens per non-embedding parameter, at every size."
        ),
    ] = None,
    schemes: ResidualsOption = None,
    tune_rates: TuneRatesOption = None,
    seeds: SeedsOption = None,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    name: SweepNameOption = None,
    jobs: JobsOption = None,
    dry_run: DryRunOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Train several sizes and fit a power law to each scheme; the paper's constants stand beside."""
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.sweep.kinds.scaling import make_request

    request = make_request(
        preset,
        overlays=overlays or (),
        sets=sets or (),
        residuals=schemes or (),
        sizes=whole_numbers(sizes, "--sizes"),
        tokens_per_parameter=tokens_per_parameter,
        seeds=seeds,
        tune_rates=tune_rates,
    )
    start(request, name=name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)


def run_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file: preset, arms, axes, seeds.")],
    seeds: SeedsOption = None,
    name: SweepNameOption = None,
    jobs: JobsOption = None,
    dry_run: DryRunOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Train any other grid, as a TOML file defines it (docs/sweep.md)."""
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.sweep.kinds.grid import make_request

    start(make_request(file, seeds=seeds), name=name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)


# In the order of the help page.
COMMANDS: tuple[Callable[..., None], ...] = (
    residuals,
    ablations,
    blocks,
    depth,
    depth_width,
    horizon,
    scaling,
    hops,
    run_,
)
