"""The learning rate over the steps of a run, as a factor of its peak."""

from __future__ import annotations

import math

from attnres_cli.preset.reading import Preset


def learning_rate_factor(preset: Preset, step: int) -> float:
    """Factor for the optimiser step `step` (0-based): never zero, 1 at the end of the warm-up, `min_lr_ratio` at
    the end.

    cosine: from the peak down along half a cosine. wsd: constant, then linear over the last `decay_fraction` of the
    steps.
    """
    train, steps, warmup = preset.train, preset.steps, preset.warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    floor = train.min_lr_ratio
    if train.schedule == "wsd":
        decay = preset.decay_steps
        progress = min(1.0, max(0.0, (step + 1 - (steps - decay)) / decay))
        return 1.0 - (1.0 - floor) * progress
    progress = min(1.0, (step + 1 - warmup) / max(1, steps - warmup))
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))


def constant_steps(preset: Preset) -> int | None:
    """Under wsd: the steps before the first one that decays, where runs of other horizons can branch off; else
    None."""
    return preset.steps - preset.decay_steps if preset.train.schedule == "wsd" else None
