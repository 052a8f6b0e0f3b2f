"""Observers: what to record about the inside of a model, on a fixed probe batch and off the training clock.

One file each. A file defines `observe(model, probe) -> Observation | None` (None: this scheme has nothing of the kind).
An observer leaves weights and gradients as they were.
"""
