"""Arguments and options that the commands of `attnres sweep` share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.options import DEFAULT_RUNS_DIR, complete_preset, complete_residual
from attnres_cli.errors import ExitCode, UserError

if TYPE_CHECKING:
    from attnres_cli.sweep.budget import Budget


def complete_sweep(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of sweeps that start with `incomplete`, from folder names only."""
    root = Path(ctx.params.get("runs_dir") or os.environ.get("ATTNRES_RUNS") or DEFAULT_RUNS_DIR)
    return sorted(path.parent.name for path in root.glob(f"{incomplete}*/sweep.json"))


SweepArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of a sweep, or a prefix that only it has.", autocompletion=complete_sweep
    ),
]
SweepPresetArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="PRESET",
        help="The preset it starts from; without it a small one that takes minutes.",
        autocompletion=complete_preset,
    ),
]
ResidualsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--residual",
        metavar="SCHEME",
        help="A residual scheme with its defaults; repeat it. The others are compared with the first.",
        autocompletion=complete_residual,
    ),
]
SeedsOption = Annotated[
    int | None,
    typer.Option(
        "--seeds", metavar="N", help="Runs of every arm, each with a seed of its own, paired across arms; default 1."
    ),
]
BudgetFlopsOption = Annotated[
    float | None,
    typer.Option(
        "--budget-flops",
        metavar="X",
        help="Tokens per run such that the preset's own shape costs X FLOPs, e.g. 1e15.",
    ),
]
BudgetMinutesOption = Annotated[
    float | None,
    typer.Option(
        "--budget-minutes", metavar="M", help="Tokens per run such that the whole sweep takes about M minutes here."
    ),
]
TuneRatesOption = Annotated[
    int | None,
    typer.Option(
        "--tune-rates",
        metavar="N",
        help="Every cell and arm first tries N learning rates, ×√2 apart around the rule's, with a seed of their own.",
    ),
]
SweepNameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of the sweep; the same name again continues it.")
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs", min=1, help="Trainings side by side; without it one per GPU, or as many as there are cores."
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be trained and what it costs, and train nothing.")
]


def chosen_budget(flops: float | None, minutes: float | None) -> Budget | None:
    """The budget that the options name. Raises UserError for one that is none, and for two."""
    from attnres_cli.sweep.budget import Budget

    if flops is not None and minutes is not None:
        raise usage("--budget-flops and --budget-minutes exclude each other.", where="--budget-minutes")
    for option, value in (("--budget-flops", flops), ("--budget-minutes", minutes)):
        if value is not None and not 0 < value < float("inf"):
            raise usage(f"{option} {value:g}: the budget has to be positive and finite.", where=option)
    if flops is not None:
        return Budget("flops", flops)
    return None if minutes is None else Budget("minutes", minutes)


def whole_numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Positive whole numbers separated by commas, ascending; None where nothing was said. Raises UserError."""
    from attnres_cli.sweep.axes import parse_ratios

    if text is None:
        return None
    values = parse_ratios(text, option)
    if broken := next((value for value in values if value != int(value)), None):
        raise usage(f"{option}: {broken:g} is no whole number.", where=option)
    return tuple(int(value) for value in values)


def usage(what: str, *, where: str) -> UserError:
    """An error in the command line."""
    return UserError(what, where=where, exit_code=ExitCode.USAGE)
