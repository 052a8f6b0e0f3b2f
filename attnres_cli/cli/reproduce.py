"""`attnres reproduce`: the paper's claims, tested here by one fixed plan, in one table."""

from __future__ import annotations

from typing import Annotated

import typer

from attnres_cli.cli.options import DEFAULT_RUNS_DIR, JsonOption, RunsRootOption
from attnres_cli.cli.sweep_options import DryRunOption, JobsOption, SweepNameOption

app = typer.Typer()


def complete_scale(incomplete: str) -> list[str]:
    """Names of plans, from file names only."""
    from attnres_cli.sweep.reproduction import plan_names

    return [name for name in plan_names() if name.startswith(incomplete) and not name.endswith("-quick")]


@app.command()
def reproduce(
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            metavar="SCALE",
            help="cpu (one to two hours on two cores), gpu, or the path of a plan of your own.",
            autocompletion=complete_scale,
        ),
    ] = "cpu",
    quick: Annotated[
        bool, typer.Option("--quick", help="The short plan of this scale: ten minutes, fewer claims.")
    ] = False,
    name: SweepNameOption = None,
    jobs: JobsOption = None,
    dry_run: DryRunOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Test the claims of the paper on this machine, and print each with what was found.

    A claim is confirmed, contradicted or not shown, corrected over all claims of the table; one that so many runs of
    this size would miss too often needs larger scale, which is decided before the first run. Prints the plan and its
    price first. Stop it when you like: the same command goes on.
    """
    from attnres_cli.cli.sweep_running import start
    from attnres_cli.preset.catalogue import shown
    from attnres_cli.sweep.kinds.reproduce import make_request
    from attnres_cli.sweep.reproduction import read_plan

    found = read_plan(scale, quick=quick)
    request = make_request(found.plan, where=shown(found.path))
    start(request, name=name, jobs=jobs, dry_run=dry_run, runs_dir=runs_dir, json=json)
