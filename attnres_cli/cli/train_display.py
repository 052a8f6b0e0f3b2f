"""What a training run shows on stderr: a live panel on a terminal, one plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attnres_cli.cli.console import is_interactive, stderr
from attnres_cli.report.numbers import duration
from attnres_cli.report.sparkline import sparkline
from attnres_cli.train.events import Checkpointed, Ended, Evaluated, Event, Listener, Noted, Preparing, Started, Stepped

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN_EVERY_SECONDS = 5.0
REFRESH_PER_SECOND = 4
SPARKLINE_POINTS = 40
# The speed shown is that of the last steps: fresh enough to notice a change, long enough not to flicker.
SPEED_WINDOW_STEPS = 20


@contextmanager
def display() -> Iterator[Listener]:
    """A listener for `train.loop.train` that shows what happens, live where somebody is watching."""
    if is_interactive(sys.stderr):
        from rich.live import Live

        progress = _Progress()
        with Live(
            console=stderr(), get_renderable=progress.panel, refresh_per_second=REFRESH_PER_SECOND, transient=False
        ) as live:
            progress.print = live.console.print
            yield progress.hear
    else:
        plain = _Progress()
        plain.print = lambda line: stderr().print(line)
        yield _PlainLines(plain).hear


class _Progress:
    """The figures of a run so far, and how they look."""

    def __init__(self) -> None:
        self.started: Started | None = None
        self.preparing: Preparing | None = None
        self.step = 0
        self.stepped: Stepped | None = None
        self.evaluated: Evaluated | None = None
        self.losses: list[float] = []
        self.recent_seconds: deque[float] = deque(maxlen=SPEED_WINDOW_STEPS)
        self.print: Callable[[str], object] = lambda line: None

    def hear(self, event: Event) -> None:
        if isinstance(event, Preparing):
            self.preparing = event
        elif isinstance(event, Started):
            self.started, self.step = event, event.first_step
            self.print("\n".join(event.facts))
        elif isinstance(event, Stepped):
            self.stepped, self.step = event, event.step
            self.losses.append(event.figures.loss)
            self.recent_seconds.append(event.seconds)
        elif isinstance(event, Evaluated):
            self.evaluated = event
        elif isinstance(event, Noted):
            self.print(f"note: {event.text}")
        elif isinstance(event, Ended):
            self.print(f"{event.status} at step {event.step} after {duration(event.train_seconds)} of training")
        else:
            assert isinstance(event, Checkpointed)

    @property
    def tokens_per_second(self) -> float:
        assert self.started is not None
        seconds = sum(self.recent_seconds)
        return self.started.tokens_per_step * len(self.recent_seconds) / seconds if seconds else 0.0

    @property
    def remaining_seconds(self) -> float:
        assert self.started is not None
        if not self.recent_seconds:
            return float("nan")
        return (self.started.steps - self.step) * sum(self.recent_seconds) / len(self.recent_seconds)

    def figures(self) -> list[tuple[str, str]]:
        """Label and value of everything that is known, in reading order."""
        assert self.started is not None
        pairs = [("step", f"{self.step}/{self.started.steps}")]
        if self.stepped is not None:
            pairs.append(("loss", f"{self.stepped.figures.loss:.4f}"))
        if self.evaluated is not None:
            pairs.append((f"val@{self.evaluated.step}", f"{self.evaluated.evaluation.loss:.4f}"))
        if self.stepped is not None:
            pairs.append(("lr", f"{self.stepped.figures.learning_rate:.2e}"))
            pairs.append(("tok/s", f"{self.tokens_per_second:,.0f}"))
            pairs.append(("ETA", duration(self.remaining_seconds)))
        return pairs

    def line(self) -> str:
        return "  ".join(f"{label} {value}" for label, value in self.figures())

    def panel(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        if self.started is None:
            preparing = self.preparing
            counted = f" {preparing.done:,} of {preparing.total:,}" if preparing is not None and preparing.total else ""
            return Spinner("dots", text=Text(f"{preparing.phase if preparing else 'starting'}{counted}"))
        grid = Table.grid(padding=(0, 2))
        figures = self.figures()
        grid.add_row(*[Text(label, style="dim") for label, _ in figures])
        grid.add_row(*[Text(value, style="bold") for _, value in figures])
        bar = Table.grid()  # a bar alone in a group does not end its line
        bar.add_row(ProgressBar(total=self.started.steps, completed=self.step, width=60))
        parts: list[RenderableType] = [bar, grid]
        if len(self.losses) > 1:
            parts.append(Text.assemble(("loss  ", "dim"), sparkline(self.losses, SPARKLINE_POINTS)))
        return Group(*parts)


class _PlainLines:
    """The same figures for a log file: a line every few seconds, at evaluations and at the end, nothing else."""

    def __init__(self, progress: _Progress) -> None:
        self.progress = progress
        self.printed_at = time.monotonic()
        self.preparing: str | None = None

    def hear(self, event: Event) -> None:
        self.progress.hear(event)
        if isinstance(event, Preparing) and event.phase != self.preparing:
            self.preparing = event.phase
            self.progress.print(f"{event.phase} …")
        due = time.monotonic() - self.printed_at >= PLAIN_EVERY_SECONDS
        if isinstance(event, Evaluated) or (isinstance(event, Stepped) and due):
            self.printed_at = time.monotonic()
            self.progress.print(self.progress.line())
