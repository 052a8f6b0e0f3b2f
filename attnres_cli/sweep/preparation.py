"""From a request to a sweep that can run: where its trainings go, what they cost here, and its plan."""

from __future__ import annotations

from typing import Any

from attnres_cli import discovery
from attnres_cli.errors import UserError
from attnres_cli.sweep.calibration import step_seconds
from attnres_cli.sweep.execution import Slot
from attnres_cli.sweep.layout import Context
from attnres_cli.sweep.request import Continued, carried_over
from attnres_cli.sweep.resolve import base_preset
from attnres_cli.sweep.results import Sweep
from attnres_cli.sweep.slots import choose_slots


def kind_of(name: str) -> Any:
    """The file of sweep/kinds/ of this name."""
    return discovery.load("sweep.kinds", name, what="kind of sweep")


def planned(found: Continued, jobs: int | None, *, command: str, dry_run: bool = False) -> tuple[Sweep, list[Slot]]:
    """The sweep with all its cells and runs, and where they will train. Training steps are timed here for its price.

    jobs: trainings side by side, None for a choice. dry_run: nothing will train, so that a plan for a device that is
    not here has no minutes instead of an end with UserError.
    """
    from attnres_cli.data.sources import vocabulary_size_of

    request, earlier = found.request, found.earlier
    kind = kind_of(request.kind)
    train = request.preset.train
    # At least as many as the sweep may have runs: how many cells it has is known only when it is planned.
    most_runs = kind.most_cells(request) * len(request.arms) * request.seeds
    slots = choose_slots(train.device, train.threads, most_runs, jobs)
    vocab_size = vocabulary_size_of(request.preset.data, request.preset.source_folder)
    times_steps = not dry_run or _is_here(train.device)
    context = Context(
        name=found.directory.path.name,
        command=command,
        vocab_size=vocab_size,
        parallel_runs=len(slots),
        calibrate=(lambda presets: step_seconds(presets, vocab_size, slots[0])) if times_steps else None,
        tokens=None if earlier is None else earlier.tokens,
    )
    sweep: Sweep = kind.plan(request, context)
    return sweep if earlier is None else carried_over(sweep, earlier), slots


def _is_here(device: str) -> bool:
    from attnres_cli.train.device import choose_device

    try:
        choose_device(device)
    except UserError:
        return False
    return True


def slots_for(sweep: Sweep, jobs: int | None) -> list[Slot]:
    """Where the runs that a sweep still has to do will train."""
    train = base_preset(sweep).train
    return choose_slots(train.device, train.threads, sweep.left, jobs)
