"""What the loop says while it runs. Displays and sweeps listen; nothing they do reaches back into the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attnres_cli.train.evaluation import Evaluation
from attnres_cli.train.step import StepFigures


@dataclass(frozen=True)
class Preparing:
    """Before the first step. phase: what is being done; done of total units (0 of 0 where there is nothing to
    count)."""

    phase: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class Started:
    """The first step comes next. first_step: 0, or where a resumed run goes on. facts: lines for the banner."""

    run: str
    first_step: int
    steps: int
    tokens_per_step: int
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Stepped:
    """An optimiser step is done. step: finished steps. seconds: of this step alone, without evaluation and the like."""

    step: int
    figures: StepFigures
    seconds: float


@dataclass(frozen=True)
class Evaluated:
    step: int
    evaluation: Evaluation


@dataclass(frozen=True)
class Checkpointed:
    step: int
    folder: Path


@dataclass(frozen=True)
class Noted:
    """One sentence the user should see and that log.txt keeps."""

    text: str


@dataclass(frozen=True)
class Ended:
    """status: finished or interrupted. resume: the command that goes on, where there is something left to do."""

    status: str
    step: int
    train_seconds: float
    resume: str | None


Event = Preparing | Started | Stepped | Evaluated | Checkpointed | Noted | Ended
Listener = Callable[[Event], None]
