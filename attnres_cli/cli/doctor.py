"""`attnres doctor`: what is here, what it means for training, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from attnres_cli.cli import installation, machine
from attnres_cli.cli.finding import Finding, Status
from attnres_cli.cli.options import DEFAULT_RUNS_DIR, JsonOption, RunsRootOption
from attnres_cli.errors import ExitCode

app = typer.Typer(add_completion=False)

STYLES: dict[Status, str] = {"ok": "green", "note": "yellow", "broken": "bold red"}
STATUS_WIDTH = 8
NAME_WIDTH = 16
NARROWEST_TEXT = 20  # columns that a finding's text needs beside its name, to be wrapped there


@app.command()
def doctor(
    self_test: Annotated[
        bool, typer.Option("--self-test/--no-self-test", help="Train tiny models of the baseline and depth attention.")
    ] = True,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    as_json: JsonOption = False,
) -> None:
    """Check this machine: versions, device, threads, compiler, caches, tokenizers, and a self-test of some seconds.

    Every finding is ok, a note (it works, but costs something or limits a choice) or broken; what to do stands below
    it. The exit code is 0 unless something is broken.
    """
    from attnres_cli.report.phrases import counted

    seen = []
    for finding in _everything(runs_dir, self_test):
        seen.append(finding)
        if not as_json:
            _show(finding)
    broken = [finding for finding in seen if finding.status == "broken"]
    notes = [finding for finding in seen if finding.status == "note"]
    if as_json:
        from attnres_cli.cli.console import print_json

        print_json("doctor", {"broken": len(broken), "notes": len(notes), "findings": seen})
    elif broken:
        typer.echo(f"\nBroken: {', '.join(finding.name for finding in broken)}.")
    else:
        besides = f"; {counted(len(notes), 'note')}" if notes else ""
        typer.echo(f"\nEverything needed works{besides}. Next: attnres train cpu-tiny")
    if broken:
        raise typer.Exit(ExitCode.UNEXPECTED)


def _everything(runs_dir: Path, with_self_test: bool) -> Iterator[Finding]:
    yield from findings(runs_dir)
    if with_self_test:
        yield from _self_test()


def findings(runs_dir: Path) -> Iterator[Finding]:
    """Everything but the self-test, in the order of a reader's questions. Loads torch."""
    checks: dict[str, Callable[[], Finding | Iterator[Finding]]] = {
        "python": installation.interpreter,
        "packages": installation.packages,
        "processor": machine.processor,
        "devices": machine.devices,
        "threads": machine.threads,
        "waiting": machine.waiting,
        "allocator": machine.allocator,
        "compiler": machine.compiler,
        "C++ operators": machine.native_operators,
        "tokenizers": installation.tokenizers,
        "presets": installation.presets,
        "caches": installation.caches,
        "disk": lambda: installation.disk(runs_dir),
    }
    for name, check in checks.items():
        try:
            found = check()
            yield from [found] if isinstance(found, Finding) else found
        except Exception as error:  # one check that fails must not hide what the others find
            yield Finding(name, "broken", f"could not be checked: {type(error).__name__}: {error}")


def _self_test() -> Iterator[Finding]:
    """One finding per residual scheme that is tested, on the device that training would choose."""
    from attnres_cli.bench.selftest import LARGEST_DEVIATION, self_test
    from attnres_cli.train.device import choose_device

    device = choose_device("auto")
    advice = "please report it with the output of `attnres doctor --json`"
    try:
        for result in self_test(str(device)):
            text = f"loss {result.first_loss:.2f} → {result.last_loss:.2f}"
            text += f", {result.step_milliseconds:.0f} ms a step on {device}"
            if result.deviation is not None:
                relation = "equal" if result.deviation <= LARGEST_DEVIATION else "DIFFERENT"
                text += f"; initial logits {relation} to those of {result.equals} ({result.deviation:.0e})"
            if result.fault is None:
                yield Finding(result.scheme, "ok", text)
            else:
                yield Finding(result.scheme, "broken", f"{result.fault}: {text}", advice)
    except Exception as error:  # whatever it is, the findings above must still be shown
        yield Finding("self-test", "broken", f"{type(error).__name__}: {error}", advice)


def _show(finding: Finding) -> None:
    from rich.text import Text

    from attnres_cli.cli.console import stdout

    console = stdout()
    room = console.width - STATUS_WIDTH - NAME_WIDTH
    said = [Text(finding.text)] + ([Text(f"→ {finding.advice}", style="dim")] if finding.advice else [])
    # Off a terminal the width is unlimited; on one too narrow for columns the terminal wraps by itself.
    wrapped = [line for text in said for line in (text.wrap(console, room) if room >= NARROWEST_TEXT else [text])]
    for number, text in enumerate(wrapped):
        line = Text()
        line.append(f"{'' if number else finding.status:<{STATUS_WIDTH}}", style=STYLES[finding.status])
        line.append(f"{'' if number else finding.name:<{NAME_WIDTH}}", style="bold")
        text.rstrip()
        line.append_text(text)
        console.print(line, soft_wrap=True)
