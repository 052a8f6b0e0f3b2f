"""Two-phase against direct (the paper's Algorithm 1), and the whole fused pass against the loop taken step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel, Watcher
from attnres_cli.residual.backends import backend_names, load_backend
from attnres_cli.verify.depth import deviation
from attnres_cli.verify.finding import Finding, skipped, within
from attnres_cli.verify.sites import by_definition, by_kernels, drawn, largest_deviations, rounding
from attnres_cli.verify.subjects import Subject, Unmoved, random_tokens

ORDER = 90
TITLE = "two phases"

MERGE = "two-phase against direct"
AGREEMENT = 1e-12
# (sources, tokens, width) and how many of the sources are looked ahead at; the rest is met when the site is read.
SHAPES = ((2, 5, 7, 1), (3, 33, 33, 2), (9, 6, 40, 4), (9, 6, 40, 8))
# Sources of so many values are worth sharing between neighbours, so that the fused pass looks ahead where it can.
BATCH = (8, 64)


def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    cpu = torch.device("cpu")
    usable = [name for name in backend_names() if load_backend(name).unusable(cpu) is None]
    for name in usable:
        yield _merge(name, cpu)
    for subject in subjects:
        yield from _fused(subject, usable)


def _merge(name: str, device: torch.device) -> Finding:
    """The online-softmax merge of what was found ahead with what comes later, forward and backward."""
    op = load_backend(name)
    kernels = op.kernels
    if kernels is None or not kernels.two_phase:
        return skipped(MERGE, "computes in one phase", subject=name)
    dtype = torch.float64 if torch.float64 in kernels.dtypes else torch.float32
    worst = (0.0, 1.0)
    for sources, tokens, width, ahead in SHAPES:
        x = drawn(sources, tokens, width, dtype, 10.0, device=device, update=True)
        exact, uncancelled = by_definition(x)
        found = by_kernels(kernels, op, x, ahead)
        apart, allowed = max(largest_deviations(found, exact, uncancelled).values()), rounding(x)
        if not apart / allowed <= worst[0] / worst[1]:
            worst = (apart, allowed)
    return within(MERGE, *worst, subject=name, detail="merging the two phases gives another mixture or gradient")


def _fused(subject: Subject, usable: Sequence[str]) -> Iterator[Finding]:
    if not hasattr(subject.preset.residual, "backend"):
        yield skipped("fused pass", "has no fused form", subject=subject.name)
        return
    if getattr(subject.preset.residual, "changes_the_mathematics", False):
        yield skipped("fused pass", "a key of [residual] takes it to plain PyTorch", subject=subject.name)
        return
    for name in usable:
        model = subject.model(stir=0.3, residual__backend=name)
        with torch.no_grad():
            if model.residual.fused_pass(torch.zeros(1, 1, model.config.d_model, dtype=torch.float64)) is None:
                yield skipped(f"fused pass by {name}", "no fused form by this back end", subject=subject.name)
                continue
        tokens, _ = random_tokens(*BATCH)
        (fused, gradients), (stepwise, expected) = (_both_ways(model, tokens, each) for each in (None, Unmoved()))
        yield within(
            f"fused pass by {name}", deviation(fused, stepwise), AGREEMENT, subject=subject.name,
            detail="the fused pass gives another output than the loop step by step",
        )  # fmt: skip
        largest = max(float(gradient.abs().max()) for gradient in expected.values())
        apart = {
            n: float((gradients[n] - g).abs().max()) / largest if n in gradients else 1.0 for n, g in expected.items()
        }
        worst = max(apart, key=lambda each: apart[each])
        yield within(
            f"its gradients by {name}", apart[worst], AGREEMENT, subject=subject.name,
            detail=f"the fused pass gives {worst} another gradient than the loop step by step",
        )  # fmt: skip


def _both_ways(model: LanguageModel, tokens: Tensor, watcher: Watcher | None) -> tuple[Tensor, dict[str, Tensor]]:
    """Output and gradients of a pass; before a watcher's eyes it is taken step by step."""
    model.zero_grad()
    output = model.walk(tokens, watcher)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(1), dtype=output.dtype)
    torch.autograd.backward((output * weights).sum())
    return output.detach(), {
        name: p.grad for name, p in model.named_parameters() if p.grad is not None and p.grad.any()
    }
