"""How long a training step takes here, on the share of the machine that one training of the sweep gets.

For prices and budgets, not for comparisons: arms are timed one after the other, so that only one is in memory at a time
(`attnres bench` is the interleaved clock).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TYPE_CHECKING

from attnres_cli.errors import is_out_of_memory
from attnres_cli.sweep.execution import Slot

if TYPE_CHECKING:
    import torch

    from attnres_cli.preset.preset import Preset

# The median of this many steps, after one that compiles and fills the caches …
ROUNDS = 5
# … or of fewer, where many or slow arms would make timing a wait of its own: about so many seconds for all together.
MOST_SECONDS = 20.0
# A learning rate with which nothing moves.
STILL = 1e-12


def step_seconds(presets: Mapping[str, Preset], vocab_size: int, slot: Slot) -> dict[str, float]:
    """Median wall seconds of one full training step of each preset, with the threads of `slot`.

    A preset that cannot take a step (no memory, not finite) is left out: its run will say so.
    """
    import torch

    from attnres_cli.train.device import choose_device, set_up
    from attnres_cli.train.step import Diverged

    train = next(iter(presets.values())).train
    device = choose_device(train.device)
    before = torch.get_num_threads()
    found = {}
    try:
        set_up(train, device)
        if slot.threads:
            torch.set_num_threads(slot.threads)
        for name, preset in presets.items():
            try:
                found[name] = _timed(preset, vocab_size, device, MOST_SECONDS / len(presets))
            except (Diverged, RuntimeError, MemoryError) as error:
                if not (isinstance(error, Diverged) or is_out_of_memory(error)):
                    raise
    finally:
        torch.set_num_threads(before)
        if device.type == "cuda":
            torch.cuda.empty_cache()  # the trainings in other processes need it
    return found


def standing_still(preset: Preset) -> Preset:
    """The same steps in the same time, with rates so small that training cannot run away while it is timed."""
    rates: dict[str, float] = {"train.learning_rate": STILL}
    if preset.train.optimizer == "muon" and preset.train.muon_learning_rate is not None:
        rates["train.muon_learning_rate"] = STILL
    return preset.replace(rates)


def _timed(preset: Preset, vocab_size: int, device: torch.device, most_seconds: float) -> float:
    from attnres_cli.bench.arms import TrainingArm, synchronize

    arm = TrainingArm.build(standing_still(preset), vocab_size, device)

    def seconds(step: Callable[[], None]) -> float:
        began = time.perf_counter()
        step()
        synchronize(device)
        return time.perf_counter() - began

    first = seconds(arm.step)
    rounds = max(1, min(ROUNDS, int(most_seconds / first)))
    return median(seconds(arm.step) for _ in range(rounds))
