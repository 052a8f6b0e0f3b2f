"""What a sweep shows on stderr: a live panel on a terminal, a line per event and every half minute elsewhere.

The trainings may run in other processes, so their progress is read from their run directories, like everybody else's.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attnres_cli.cli.console import is_interactive, stderr
from attnres_cli.errors import plural
from attnres_cli.report.numbers import duration
from attnres_cli.runs.directory import RunDirectory

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attnres_cli.sweep.engine import Listener
    from attnres_cli.sweep.results import Run, Sweep, SweepDirectory

PLAIN_EVERY_SECONDS = 30.0
REFRESH_PER_SECOND = 2


@contextmanager
def display(directory: SweepDirectory, sweep: Sweep) -> Iterator[Listener]:
    """A listener for `sweep.engine.run_sweep` that shows what happens, live where somebody is watching."""
    progress = _Progress(directory, sweep)
    if is_interactive(sys.stderr):
        from rich.live import Live

        with Live(
            console=stderr(), get_renderable=progress.panel, refresh_per_second=REFRESH_PER_SECOND, transient=True
        ) as live:
            progress.print = live.console.print
            yield progress
    else:
        progress.print = lambda line: print(line, file=sys.stderr, flush=True)
        with _every(PLAIN_EVERY_SECONDS, lambda: progress.print(progress.line())):
            yield progress


class _Progress:
    """Listens to the engine, and reads how far the running trainings are."""

    def __init__(self, directory: SweepDirectory, sweep: Sweep) -> None:
        self.directory, self.sweep = directory, sweep
        self.running: dict[str, Run] = {}
        self.began = time.monotonic()
        self.share_at_start: float | None = None
        self.print: Callable[[str], None] = lambda line: None

    def started(self, run: Run) -> None:
        if self.share_at_start is None:
            self.share_at_start = self._share()
        self.running[run.digest] = run

    def ended(self, run: Run) -> None:
        self.running.pop(run.digest, None)
        if run.status == "finished" and run.loss is not None:
            seconds = "" if run.train_seconds is None else f" after {duration(run.train_seconds)} of training"
            self.print(f"{run.title}: validation loss {run.loss:.4f}{seconds}")
        else:
            self.print(f"{run.title}: {run.status}: {run.error}")

    def _finished(self) -> str:
        total = len(self.sweep.runs)
        return f"{self.sweep.counted.get('finished', 0)} of {total} {plural(total, 'run')} finished"

    def line(self) -> str:
        """Everything in one line."""
        parts = [self._finished(), f"{self._share():.0%}"]
        parts += [f"{run.title} step {step}/{steps}" for run, step, steps in self._positions()]
        return ", ".join([*parts, f"ETA {self._eta()}"])

    def panel(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        counted = self.sweep.counted
        failed = counted.get("failed", 0) + counted.get("diverged", 0)
        head = self._finished() + (f", {failed} failed" if failed else "")
        grid = Table.grid(padding=(0, 2))
        for run, step, steps in self._positions():
            grid.add_row(
                Text(run.title),
                ProgressBar(total=steps or 1, completed=step, width=20),
                Text(f"{step}/{steps or '?'}"),
            )
        whole = Table.grid()  # a bar alone in a group does not end its line
        whole.add_row(ProgressBar(total=1.0, completed=self._share(), width=60))
        whole.add_row(Text(f"{head}   elapsed {duration(round(time.monotonic() - self.began))}   ETA {self._eta()}"))
        return Group(whole, grid)

    def _positions(self) -> list[tuple[Run, int, int | None]]:
        """(run, finished steps, steps in all or None) of every running training."""
        return [(run, *self._position(run)) for run in list(self.running.values())]

    def _position(self, run: Run) -> tuple[int, int | None]:
        if run.folder is None:
            return 0, None
        state = RunDirectory(self.directory.path / run.folder).read_state()
        return int(state.get("step") or 0), state.get("steps")

    def _share(self) -> float:
        """How much of the sweep's training is done, from 0 to 1, weighted by what each run costs."""
        runs = list(self.sweep.runs)
        return sum(run.cost * self._done(run) for run in runs) / sum(run.cost for run in runs)

    def _done(self, run: Run) -> float:
        """How much of one run is done, from 0 to 1; of one that waits, the steps before it was interrupted."""
        if run.digest in self.running:
            step, steps = self._position(run)
        elif run.status in ("finished", "failed", "diverged"):
            return 1.0
        else:
            step, steps = run.step, run.steps
        return step / steps if steps else 0.0

    def _eta(self) -> str:
        gained = self._share() - (self.share_at_start or 0.0)
        if gained <= 0.005:
            return "–"
        return duration((time.monotonic() - self.began) * (1 - self._share()) / gained)


@contextmanager
def _every(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Call `act` from a thread while the body runs."""
    over = threading.Event()

    def loop() -> None:
        while not over.wait(seconds):
            act()

    thread = threading.Thread(target=loop, name="attnres-sweep-lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
