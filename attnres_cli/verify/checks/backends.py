"""Every back end of the operator against the definition in float64, or why it cannot work here: outputs, weights, and
gradients of sources, queries and gains, over awkward shapes, in float64, float32 and bfloat16."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from attnres_cli.residual.backends import backend_names, load_backend
from attnres_cli.residual.operator import DepthAttentionOp
from attnres_cli.verify.finding import Finding, skipped, within
from attnres_cli.verify.sites import (
    Inputs,
    Results,
    by_definition,
    by_functions,
    by_kernels,
    drawn,
    largest_deviations,
    rounding,
)  # fmt: skip
from attnres_cli.verify.subjects import Subject

ORDER = 100
TITLE = "back ends"

# (sources, tokens, width): one source, one token, widths that no vector divides, more sources than a group.
SHAPES = ((1, 1, 8), (2, 5, 7), (3, 33, 33), (9, 6, 40), (33, 5, 7))
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
# Of float32's logits nothing is left beyond this size of a query, and float64's are as good as exact.
QUERY_SIZES = (1.0, 30.0)


def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    devices = [torch.device("cpu")] + ([torch.device("cuda")] if torch.cuda.is_available() else [])
    for name in backend_names():
        op = load_backend(name)
        for device in devices:
            subject = name if len(devices) == 1 else f"{name} on {device.type}"
            reason = op.unusable(device)
            if reason is not None:
                yield skipped("against the definition", reason, subject=subject)
            else:
                yield from _held_against_the_definition(subject, op, device)


def _held_against_the_definition(subject: str, op: DepthAttentionOp, device: torch.device) -> Iterator[Finding]:
    for dtype in DTYPES:
        worst: dict[str, tuple[float, float, str]] = {}
        for shape in SHAPES:
            for size in QUERY_SIZES:
                x = drawn(*shape, dtype, size, device=device, update=shape[0] % 2 == 1)
                exact, uncancelled = by_definition(x)
                allowed = rounding(x)
                for form, found in _forms(op, x):
                    for kind, apart in largest_deviations(found, exact, uncancelled).items():
                        place = f"{kind} by its {form}: {shape[0]} sources, {shape[1]} tokens of width {shape[2]}"
                        group = "gradients" if kind.startswith("gradients") else "outputs and weights"
                        if group not in worst or not apart / allowed <= worst[group][0] / worst[group][1]:
                            worst[group] = (apart, allowed, place)
        for group, (apart, allowed, place) in worst.items():
            aspect = f"{group}, {str(dtype).removeprefix('torch.')}"
            yield within(aspect, apart, allowed, subject=subject, detail=f"more than rounding ({place})")


def _forms(op: DepthAttentionOp, x: Inputs) -> Iterator[tuple[str, Results]]:
    yield "functional form", by_functions(op, x)
    if op.kernels is not None and x.gain.dtype in op.kernels.dtypes:
        yield "kernels", by_kernels(op.kernels, op, x)
