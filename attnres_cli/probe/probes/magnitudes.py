"""How large everything is, by depth: what sublayers read and write, the stream, how the stream grows, and outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attnres_cli.probe.intervals import slope_in_logarithms
from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.train.observers.magnitudes import measured

TITLE = "Magnitudes"


@dataclass(frozen=True)
class _Size:
    """Of the vectors of all tokens seen so far. mean_square: over everything. rms_max: of the token with the largest.
    l2, kurtosis: mean over tokens. max_abs: the largest single number."""

    tokens: int
    mean_square: float
    rms_max: float
    l2: float
    max_abs: float
    kurtosis: float

    @staticmethod
    def of(x: Tensor) -> _Size:
        """x: [B, T, d]."""
        x = x.detach().double().flatten(0, -2)
        square = x.square().mean(-1)
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1)
        # A vector of equal numbers has no kurtosis; it counts as 0, below anything that varies (at least 1).
        kurtosis = centred.square().square().mean(-1) / variance.square().clamp(min=torch.finfo(x.dtype).tiny)
        largest = [square.max().sqrt(), x.abs().max()]
        means = [square.mean(), square.sqrt().mean() * x.shape[-1] ** 0.5, kurtosis.mean()]
        rms_max, max_abs, mean_square, l2, kurtosis_mean = torch.stack([*largest, *means]).tolist()
        return _Size(len(x), mean_square, rms_max, l2, max_abs, kurtosis_mean)

    def with_more(self, other: _Size) -> _Size:
        tokens = self.tokens + other.tokens

        def mean(mine: float, theirs: float) -> float:
            return (mine * self.tokens + theirs * other.tokens) / tokens

        return _Size(
            tokens,
            mean(self.mean_square, other.mean_square),
            max(self.rms_max, other.rms_max),
            mean(self.l2, other.l2),
            max(self.max_abs, other.max_abs),
            mean(self.kurtosis, other.kurtosis),
        )

    @property
    def rms(self) -> float:
        return float(self.mean_square**0.5)


@torch.no_grad()
def measure(subject: Subject) -> Findings:
    """Arrays as docs/run-directory.md lists them; growth_exponent: p of stream_rms ∝ n^p after n = 1 … L_b blocks."""
    walks = [measured(subject.model, tokens, subject.precision, _Size.of) for tokens, _ in subject.batches]
    inputs = _together([walk.inputs for walk in walks])
    outputs = _together([walk.outputs for walk in walks])
    before = _together([walk.before for walk in walks])
    stream = _together([walk.stream for walk in walks])
    arrays = {
        **_listed("input", inputs, "rms", "rms_max", "l2"),
        **_listed("output", outputs, "rms", "rms_max", "l2", "max_abs", "kurtosis"),
        **_listed("stream", stream, "rms", "rms_max", "l2", "max_abs", "kurtosis"),
    }
    with np.errstate(divide="ignore", invalid="ignore"):  # a stream of zeros has no share
        arrays["update_share"] = arrays["output_rms"] / np.array([size.rms for size in before])
    after = [size.rms for size in stream[1:]]
    growth = slope_in_logarithms(range(1, len(after) + 1), after)
    return Findings({"growth_exponent": growth}, arrays)


def _together(walks: Sequence[Sequence[_Size]]) -> list[_Size]:
    """Place by place over all batches."""
    first, *others = walks
    sizes = list(first)
    for walk in others:
        sizes = [size.with_more(more) for size, more in zip(sizes, walk, strict=True)]
    return sizes


def _listed(prefix: str, sizes: Sequence[_Size], *names: str) -> dict[str, npt.NDArray[np.float64]]:
    return {f"{prefix}_{name}": np.array([getattr(size, name) for size in sizes]) for name in names}
