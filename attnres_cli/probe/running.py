"""Running probes on a checkpoint, and keeping what they find in the run."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from attnres_cli import discovery
from attnres_cli.data.prepare import Progress, prepare
from attnres_cli.errors import UserError
from attnres_cli.generate.loading import load_trained
from attnres_cli.preset.reading import Preset
from attnres_cli.probe.asked import PACKAGE, Asked, key_of
from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.runs import probed
from attnres_cli.train.device import set_up
from attnres_cli.train.evaluation import ValidationSet
from attnres_cli.train.session import fixed_validation_set
from attnres_cli.train.step import to_device


def run_probes(
    asked: Asked, device: torch.device, *, announce: Callable[[str, float], None], progress: Progress | None = None
) -> None:
    """Run the probes that are missing and write each one's findings as soon as it has them.

    announce: told each probe's name and the seconds it took. Raises UserError when the weights are damaged, or when the
    validation tokens are not those that the run was evaluated on.
    """
    if not asked.missing:
        return
    trained = load_trained(asked.run, device, step=asked.step)
    set_up(trained.preset.train, device)
    validation = _validation_set(asked, trained.preset, progress)
    per_batch = trained.preset.train.micro_batch_sequences
    inputs, targets = validation.inputs[: asked.sequences], validation.targets[: asked.sequences]
    batches = tuple(
        (to_device(inputs[first : first + per_batch], device), to_device(targets[first : first + per_batch], device))
        for first in range(0, len(inputs), per_batch)
    )
    subject = Subject(trained.model, batches, trained.preset.train.precision)
    for name in asked.missing:
        module = discovery.load(PACKAGE, name, what="probe", where="--only")
        began = time.perf_counter()
        found: Findings | None = module.measure(subject)
        seconds = time.perf_counter() - began
        facts = {
            "title": module.TITLE,
            "sequences": subject.sequences,
            "tokens": subject.tokens,
            "key": key_of(asked, name),
            "seconds": seconds,
            **({"nothing": module.NOTHING} if found is None else {}),
        }
        summary, arrays = (None, {}) if found is None else (found.summary, found.arrays)
        probed.write(asked.run, name, asked.step, facts, summary, arrays)
        announce(name, seconds)


def _validation_set(asked: Asked, preset: Preset, progress: Progress | None) -> ValidationSet:
    dataset = prepare(preset, progress=progress)
    context = preset.model.context_tokens
    validation = fixed_validation_set(dataset, context_tokens=context, tokens=preset.eval.tokens)
    recorded = asked.run.manifest().get("data", {}).get("validation_set_hash")
    if recorded is not None and recorded != validation.digest:
        raise UserError(
            f"The validation tokens on this machine are not those that run '{asked.run.name}' was evaluated on.",
            where="[data]",
            expected=f"tokens whose hash begins with {recorded[:12]}, not {validation.digest[:12]}",
            hint="probe the run where it was trained, or with the same corpus and Python version",
        )
    return validation
