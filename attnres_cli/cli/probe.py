"""`attnres probe RUN…`: what trained models do inside, measured off any training and kept in the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.compare import complete_runs_and_groups
from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    FormatOption,
    JsonOption,
    OutputOption,
    RunsRootOption,
    complete_device,
)
from attnres_cli.cli.output import check_writable, chosen_format, print_document, write_document
from attnres_cli.discovery import names
from attnres_cli.errors import UserError

if TYPE_CHECKING:
    from attnres_cli.probe.asked import Asked
    from attnres_cli.report.probed_run import ProbedRun

app = typer.Typer()

# Validation tokens that are looked at: on two cores all probes of a small model stay under a minute.
DEFAULT_TOKENS = 8192


def complete_probe(incomplete: str) -> list[str]:
    """Names of probes that start with `incomplete`."""
    return [name for name in names("probe.probes") if name.startswith(incomplete)]


@app.command()
def probe(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|GROUP",
            help="Names of runs, beginnings or ends that only one has, paths; folders of runs; patterns ('group/*').",
            autocompletion=complete_runs_and_groups,
        ),
    ],
    checkpoint: Annotated[
        int | None, typer.Option("--checkpoint", metavar="STEP", help="Weights of this step instead of the last.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="NAME", help="Only this probe (magnitudes, …); repeatable.", autocompletion=complete_probe
        ),
    ] = None,
    tokens: Annotated[
        int, typer.Option("--tokens", min=1, help="Most validation tokens to look at; whole sequences, the first ones.")
    ] = DEFAULT_TOKENS,
    device: Annotated[
        str,
        typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:N.", autocompletion=complete_device),
    ] = "auto",
    again: Annotated[bool, typer.Option("--again", help="Measure again even what is in the run already.")] = False,
    format_name: FormatOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
) -> None:
    """Look inside trained models: magnitudes, gradients, depth weights, what can be left out.

    Every probe runs the weights of a checkpoint on the first tokens of the run's validation set. What it finds is kept
    in the run's folder under probed/, so that it is measured once; nothing else of the run changes.
    """
    from attnres_cli.probe.asked import ask, chosen_probes
    from attnres_cli.report.probe import probe_document
    from attnres_cli.report.references import find_runs
    from attnres_cli.runs.lookup import below_root

    chosen = chosen_format(format_name, output, json)
    if output is not None:
        check_writable(output)
    probes = chosen_probes(only or ())
    asked = []
    for reference in find_runs(runs, runs_dir):
        try:
            asked.append(ask(reference.run, probes, step=checkpoint, tokens=tokens, again=again))
        except UserError as error:
            if reference.group is None:
                raise
            _say(f"note: left out: {error.faults[0].what}")
    if not asked:
        raise UserError("None of these runs can be probed.", hint=below_root("attnres runs ls", runs_dir))
    _measure(asked, device)
    document = probe_document(_read(asked, runs_dir), probes)
    if output is None:
        print_document(document, chosen)
    else:
        write_document(document, chosen, output)


def _measure(asked: list[Asked], device: str) -> None:
    """Run what no cache could answer, and say on stderr how it goes. Torch is loaded only where there is something."""
    to_do = [each for each in asked if each.missing]
    if not to_do:
        return
    from attnres_cli.probe.running import run_probes
    from attnres_cli.report.numbers import duration
    from attnres_cli.train.device import choose_device

    place = choose_device(device, where="--device")
    for each in to_do:
        if each.run.status == "running":
            _say(f"note: run '{each.run.name}' is still training; this is its checkpoint of step {each.step}")
        phases: list[str] = []

        def hear(phase: str, done: int, total: int, phases: list[str] = phases) -> None:
            if phase not in phases:
                phases.append(phase)
                _say(f"{phase} …")

        _say(f"{each.run.name}, step {each.step}, {place}:")
        run_probes(each, place, announce=lambda name, seconds: _say(f"  {name} {duration(seconds)}"), progress=hear)


def _read(asked: list[Asked], root: Path) -> list[ProbedRun]:
    from attnres_cli.report.compared_run import letter
    from attnres_cli.report.probed_run import read_probed_run
    from attnres_cli.runs.lookup import name_below

    return [
        read_probed_run(each.run, letter(index), name_below(each.run, root), each.step, each.names)
        for index, each in enumerate(asked)
    ]


def _say(text: str) -> None:
    typer.echo(text, err=True)
