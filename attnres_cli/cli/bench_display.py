"""How far a bench is, on stderr: a bar where somebody is watching, a line for each stage elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from attnres_cli.cli.console import is_interactive, stderr

Show = Callable[[str, int, int], None]


@contextmanager
def bench_progress() -> Iterator[Show]:
    """A function to be told (stage, done, of how many), off the clock."""
    if not is_interactive(sys.stderr):
        yield _plain_lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Refreshed by hand: a thread that draws would take time from what is being timed.
    with Progress(*columns, console=stderr(), transient=True, auto_refresh=False) as bars:
        task = bars.add_task("starting", total=None)
        stage_now = ""

        def show(stage: str, done: int, total: int) -> None:
            nonlocal stage_now
            if stage != stage_now:
                stage_now = stage
                bars.reset(task, description=stage, total=total)
            bars.update(task, completed=done, total=total)
            bars.refresh()

        yield show


def _plain_lines() -> Show:
    begun: set[str] = set()

    def show(stage: str, done: int, total: int) -> None:
        if stage not in begun:
            begun.add(stage)
            typer.echo(f"{stage} …", err=True)

    return show
