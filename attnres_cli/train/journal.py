"""How far a run has come, and the sentences it leaves about that in its folder and tells whoever listens."""

from __future__ import annotations

from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train.checkpoint import Position
from attnres_cli.train.evaluation import Evaluation
from attnres_cli.train.events import Listener, Noted


class Journal:
    """What a run remembers between steps. evaluation: the last one, made at `evaluated_step`; None before the first."""

    def __init__(self, run: RunDirectory, tell: Listener) -> None:
        self.run, self.tell = run, tell
        self.position = Position(0, 0.0)
        self.evaluation: Evaluation | None = None
        self.evaluated_step: int | None = None

    def event(self, event: str, **facts: object) -> None:
        """Something that happens to the run as a whole: a row of metrics.jsonl and a line of log.txt."""
        step = self.position.step
        self.run.append_metric({"kind": "event", "step": step, "event": event, **facts})
        self.run.log(f"step {step}: {event}" + "".join(f", {key} {value}" for key, value in facts.items()))

    def note(self, text: str) -> None:
        """A sentence the user should see and that log.txt keeps."""
        self.run.log(text)
        self.tell(Noted(text))

    def recall_evaluation(self) -> None:
        """Take the last evaluation from the rows of an earlier part of the run, where it has any."""
        if rows := self.run.evaluations():
            self.evaluation = Evaluation(*(rows[-1][key] for key in ("loss", "perplexity", "bits_per_byte")))
            self.evaluated_step = rows[-1]["step"]
