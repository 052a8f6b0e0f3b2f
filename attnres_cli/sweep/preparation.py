"""From a request to a sweep that can run: where its trainings go, what they cost here, and its plan."""

from __future__ import annotations

from attnres_cli.sweep.axes import grid
from attnres_cli.sweep.calibration import step_seconds
from attnres_cli.sweep.depth_width import plan
from attnres_cli.sweep.execution import Slot
from attnres_cli.sweep.request import Continued, carried_over
from attnres_cli.sweep.results import SETTLED, Sweep
from attnres_cli.sweep.slots import choose_slots


def planned(found: Continued, jobs: int | None, *, command: str) -> tuple[Sweep, list[Slot]]:
    """The sweep with all its cells and runs, and where they will train.

    jobs: trainings side by side, None for a choice.
    """
    from attnres_cli.data.sources import vocabulary_size_of

    request, earlier = found.request, found.earlier
    train = request.preset.train
    most_runs = len(grid(request.ratios, request.head_ratios)) * len(request.arms)
    slots = choose_slots(train.device, train.threads, most_runs, jobs)
    vocab_size = vocabulary_size_of(request.preset.data, request.preset.source_folder)
    sweep = plan(
        request,
        name=found.directory.path.name,
        command=command,
        vocab_size=vocab_size,
        parallel_runs=len(slots),
        calibrate=lambda presets: step_seconds(presets, vocab_size, slots[0]),
        tokens=None if earlier is None else earlier.tokens,
    )
    return sweep if earlier is None else carried_over(sweep, earlier), slots


def slots_for(sweep: Sweep, jobs: int | None) -> list[Slot]:
    """Where the runs that a sweep still has to do will train."""
    train = sweep.preset["values"]["train"]
    left = sum(run.status not in SETTLED for run in sweep.runs)
    return choose_slots(train.get("device", "auto"), train.get("threads", 0), left, jobs)
