"""`attnres watch`: follow runs that are trained elsewhere, from their files alone. Loads no torch."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.options import DEFAULT_RUNS_DIR, JsonOption, RunsRootOption, complete_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from attnres_cli.report.watching_runs import Watch, WatchedRun

    Show = Callable[[], None]

PLAIN_EVERY_SECONDS = 5.0
SHORTEST_INTERVAL_SECONDS, LONGEST_INTERVAL_SECONDS = 0.1, 3600.0
# Lines of the terminal that the live picture leaves free: the prompt's, and the one the cursor stands on.
LINES_LEFT_FREE = 2

app = typer.Typer()


@app.command()
def watch(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Runs, groups, sweeps or patterns; without them whatever trains in the runs folder.",
            autocompletion=complete_run,
            show_default=False,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print how they stand now, and end.")] = False,
    interval_seconds: Annotated[
        float, typer.Option("--interval-seconds", metavar="S", help="Seconds between two looks at the files.")
    ] = 2.0,
    json: JsonOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
) -> None:
    """Follow runs that are training in other terminals, side by side, until all of them have ended.

    Reads their files only. On a terminal the picture is live; elsewhere every run has a line when its figures have
    changed, at most one every five seconds. The last table is the result (--json: one object). Ctrl-C ends the watch,
    not the runs.
    """
    from attnres_cli.errors import Interrupted
    from attnres_cli.report.watching_runs import Watch

    _check_interval(interval_seconds)
    watched = Watch(runs_dir, tuple(runs or ()))
    watched.look()
    if not once:
        try:
            _follow(watched, interval_seconds, json)
        except KeyboardInterrupt:
            if not json:
                _print(watched, json)
            raise Interrupted("Stopped watching; the runs go on.") from None
    elif not watched.runs and not json:
        typer.echo(_nothing(watched), err=True)
        return
    _print(watched, json)


def _print(watched: Watch, json: bool) -> None:
    from attnres_cli.cli.output import print_document, terminal
    from attnres_cli.report.watching import watch_document

    width = None if json else terminal()[0]
    print_document(watch_document(watched, width_columns=width), "json" if json else "table")


def _check_interval(seconds: float) -> None:
    from attnres_cli.errors import ExitCode, UserError

    if not SHORTEST_INTERVAL_SECONDS <= seconds <= LONGEST_INTERVAL_SECONDS:  # not a number is neither
        raise UserError(
            f"--interval-seconds {seconds:g} is no time to wait between two looks.",
            where="--interval-seconds",
            expected=f"{SHORTEST_INTERVAL_SECONDS:g} to {LONGEST_INTERVAL_SECONDS:g} seconds",
            exit_code=ExitCode.USAGE,
        )


def _follow(watched: Watch, interval_seconds: float, json: bool) -> None:
    """Look again and again until everything has ended, and show what changes."""
    if not watched.runs:
        typer.echo(f"{_nothing(watched)} Waiting for one; Ctrl-C ends.", err=True)
    with _display(watched, json) as show:
        show()
        while not watched.is_over:
            time.sleep(interval_seconds)
            watched.look()
            show()


def _nothing(watched: Watch) -> str:
    from attnres_cli.report.visible import visible
    from attnres_cli.runs.lookup import is_absent

    root = visible(watched.root)
    return f"There is no folder {root}." if is_absent(watched.root) else f"No run is training in {root}."


@contextmanager
def _display(watched: Watch, json: bool) -> Iterator[Show]:
    """What shows the state of things: a live picture on a terminal, lines elsewhere (beside JSON on stderr)."""
    from attnres_cli.cli.console import is_interactive

    if json or not is_interactive(sys.stdout):
        yield _Lines(watched, on_stderr=json).show
        return
    from rich.live import Live

    from attnres_cli.cli.console import stdout

    with Live(console=stdout(), auto_refresh=False, transient=True) as live:
        yield _Picture(watched, live).show


class _Picture:
    """The table, drawn again where something has changed or the terminal has."""

    def __init__(self, watched: Watch, live: object) -> None:
        self.watched, self.live = watched, live
        self.drawn: object = None

    def show(self) -> None:
        from rich.live import Live
        from rich.text import Text

        from attnres_cli.cli.output import terminal
        from attnres_cli.report.document import render
        from attnres_cli.report.watching import watch_document

        assert isinstance(self.live, Live)
        width, colour = terminal()
        height = shutil.get_terminal_size().lines - LINES_LEFT_FREE
        document = watch_document(self.watched, width_columns=width, height_lines=height)
        text = render(document, "table", width_columns=width, colour=colour) if self.watched.runs else ""
        if (text, width, height) != self.drawn:
            self.drawn = (text, width, height)
            self.live.update(Text.from_ansi(text), refresh=True)


class _Lines:
    """A line per run, when its figures have changed and the last one is a few seconds old; at once when it ends."""

    def __init__(self, watched: Watch, *, on_stderr: bool) -> None:
        self.watched, self.on_stderr = watched, on_stderr
        self.printed: dict[str, tuple[str, str, float]] = {}

    def show(self) -> None:
        for run in self.watched.runs:
            self._show(run, time.monotonic())

    def _show(self, run: WatchedRun, now: float) -> None:
        from attnres_cli.report.watching import line

        status, text, then = self.printed.get(run.name, ("", "", float("-inf")))
        new = line(run)
        if new != text and (status != run.status or now - then >= PLAIN_EVERY_SECONDS):
            self.printed[run.name] = (run.status, new, now)
            print(new, file=sys.stderr if self.on_stderr else sys.stdout, flush=True)
