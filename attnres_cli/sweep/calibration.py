"""How long a training step takes here, on the share of the machine that one training of the sweep gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attnres_cli.sweep.execution import Slot

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

# Medians of this many interleaved steps, after one that compiles and fills the caches.
ROUNDS = 5


def step_seconds(presets: Mapping[str, Preset], vocab_size: int, slot: Slot) -> dict[str, float]:
    """Median wall seconds of one full training step of each preset, in turn, with the threads of `slot`."""
    import torch

    from attnres_cli.bench.arms import TrainingArm
    from attnres_cli.bench.interleaved import interleave
    from attnres_cli.train.device import choose_device, set_up

    train = next(iter(presets.values())).train
    device = choose_device(train.device)
    before = torch.get_num_threads()
    try:
        set_up(train, device)
        if slot.threads:
            torch.set_num_threads(slot.threads)
        arms = {name: TrainingArm.build(preset, vocab_size, device) for name, preset in presets.items()}
        synchronize = torch.cuda.synchronize if device.type == "cuda" else None
        result = interleave(
            {name: arm.step for name, arm in arms.items()}, pairs=ROUNDS, warmup=1, synchronize=synchronize
        )
    finally:
        torch.set_num_threads(before)
    return {name: result.arm(name).median_seconds() for name in presets}
