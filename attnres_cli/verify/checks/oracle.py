"""The oracle: with zero queries every depth softmax is a mean, the next norm removes its scale, and what is left is the
plain residual. Exact at norm epsilon 0, in logits, in gradients and along a training trajectory with frozen queries.

Every scheme that declares which one it equals at initialisation is held to it. The trajectory is for depth attention,
where equality does not depend on the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from attnres_cli.residual.depth_attention import DepthAttention
from attnres_cli.train.optimisers import Optimiser
from attnres_cli.train.step import take_step
from attnres_cli.verify.depth import deviation
from attnres_cli.verify.finding import Finding, shown, skipped, within
from attnres_cli.verify.subjects import VOCAB_SIZE, Subject, random_tokens

ORDER = 10
TITLE = "oracle"

# Two orders of summing ten float64 numbers differ by some 1e-15; a wrong source shows at 1e-2.
DEPTH_AGREEMENT = 1e-12
# Schemes with matrices of their own compute more on the way to the same number.
AGREEMENT = 1e-10
# AdamW divides a gradient by its own size: where one is almost nothing, its rounding moves a weight, and 60 steps add.
# (The learning rate, in verify/subjects.py, is one at which training does not itself amplify rounding.)
WEIGHT_AGREEMENT = 1e-11
STEPS = 60
# Four sequences of twelve tokens: a step takes milliseconds.
BATCH = (4, 12)
EPSILONS = (0.0, 1e-12, 1e-6)

Trajectory = tuple[list[float], dict[str, Tensor]]


def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    trajectories: dict[str, Trajectory] = {}
    for subject in subjects:
        residual = subject.residual
        equals = residual.equals_at_initialisation
        if equals is None:
            yield skipped("logits at step 0", "claims to equal no other scheme", subject=subject.name)
            continue
        baseline = subject.with_scheme(equals)
        over_depth = isinstance(residual, DepthAttention)
        yield _logits(subject, baseline, DEPTH_AGREEMENT if over_depth else AGREEMENT)
        if over_depth:
            yield from _gradients(subject, baseline)
            if equals not in trajectories:
                trajectories[equals] = trajectory(baseline)
            yield from _trajectory(subject, trajectories[equals])
        else:
            yield skipped("60 steps, queries frozen", "not a softmax over depth", subject=subject.name)
        for epsilon in EPSILONS[1:]:
            yield shown(f"logits, norm epsilon {epsilon:g}", _apart(subject, baseline, epsilon), subject=subject.name)


def _logits(subject: Subject, baseline: Subject, allowed: float) -> Finding:
    return within(
        "logits at step 0", _apart(subject, baseline, 0.0), allowed, subject=subject.name,
        detail=f"at initialisation it does not equal {baseline.name}: queries that are not zero, a lost or doubled "
        "source, or no mix at the output",
    )  # fmt: skip


@torch.no_grad()
def _apart(subject: Subject, baseline: Subject, epsilon: float) -> float:
    """How far logits are apart at initialisation, in units of the largest."""
    tokens, _ = random_tokens(*BATCH)
    return deviation(
        subject.model(model__norm_epsilon=epsilon)(tokens), baseline.model(model__norm_epsilon=epsilon)(tokens)
    )


def _gradients(subject: Subject, baseline: Subject) -> Iterator[Finding]:
    found, expected = (_common_gradients(each) for each in (subject, baseline))
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    apart = {
        name: float((found[name] - gradient).abs().max()) / largest if name in found else float("inf")
        for name, gradient in expected.items()
    }
    worst = max(apart, key=lambda name: apart[name])
    yield within(
        "gradients at step 0", apart[worst], DEPTH_AGREEMENT, subject=subject.name,
        detail=f"the gradient of {worst} is another: something is detached on its way",
    )  # fmt: skip


def _common_gradients(subject: Subject) -> dict[str, Tensor]:
    model = subject.model(model__norm_epsilon=0.0)
    torch.autograd.backward(model.loss(*random_tokens(*BATCH)))
    named = model.named_parameters()
    return {name: p.grad for name, p in named if p.grad is not None and not name.startswith("residual.")}


def _trajectory(subject: Subject, expected: Trajectory) -> Iterator[Finding]:
    losses, weights = trajectory(subject)
    apart = max(abs(a - b) / abs(b) for a, b in zip(losses, expected[0], strict=True))
    told = "training leaves the baseline's trajectory although the queries stay zero"
    yield within(f"losses of {STEPS} steps, queries frozen", apart, DEPTH_AGREEMENT, subject=subject.name, detail=told)
    apart = max(deviation(weights[name], weight) for name, weight in expected[1].items())
    yield within(f"weights after {STEPS} steps", apart, WEIGHT_AGREEMENT, subject=subject.name, detail=told)


def trajectory(subject: Subject) -> Trajectory:
    """Losses of every step of training with the scheme's own parameters frozen, and the trunk's weights at its end."""
    model = subject.model(model__norm_epsilon=0.0)
    model.residual.requires_grad_(False)
    preset = subject.preset
    optimiser = Optimiser(model, preset)
    random = np.random.default_rng(5)
    losses = []
    for step in range(STEPS):
        inputs, targets = random.integers(0, VOCAB_SIZE, (2, *BATCH))
        losses.append(take_step(model, model.loss, optimiser, preset, step, inputs, targets).loss)
    named = model.named_parameters()
    return losses, {name: p.detach() for name, p in named if not name.startswith("residual.")}
