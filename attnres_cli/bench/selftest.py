"""A self-test of a few seconds: do the baseline and depth attention train here, and do they agree where they must?

It proves the installation, not the method: tiny models on a page of text. Two questions per scheme:
- do a few optimiser steps on this device leave the loss finite and lower?
- a scheme that declares which one it equals at initialisation: are the logits equal, in float64 at norm epsilon 0?
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnres_cli.model.build import build_model
from attnres_cli.preset import schema
from attnres_cli.preset.reading import Preset, preset_from_dict
from attnres_cli.residual.arms import default_arms

VOCAB_SIZE = 256
TRANSFORMER_BLOCKS = 5  # ten sublayers in the default eight blocks: the last block sums several
CONTEXT_TOKENS = 64
SEQUENCES = 4
STEPS = 12
LEARNING_RATE = 1e-2
# Float64 rounding over a dozen sublayers stays near 1e-14; a wrong source or a missing norm shows at 1e-2.
LARGEST_DEVIATION = 1e-10


@dataclass(frozen=True)
class SchemeResult:
    """What one scheme did. Losses in nats per token; deviation: the largest difference of logits over the largest one.

    equals, deviation: None for a scheme that equals no other at initialisation.
    """

    scheme: str
    first_loss: float
    last_loss: float
    step_milliseconds: float
    equals: str | None
    deviation: float | None

    @property
    def fault(self) -> str | None:
        """What is wrong, in a few words, or None."""
        if not math.isfinite(self.last_loss):
            return f"the loss is {self.last_loss} after {STEPS} steps"
        if self.last_loss >= self.first_loss:
            return f"the loss did not fall in {STEPS} steps ({self.first_loss:.2f} → {self.last_loss:.2f})"
        if self.deviation is not None and not self.deviation <= LARGEST_DEVIATION:
            return f"its initial logits differ from those of {self.equals} by {self.deviation:.1e}"
        return None


def self_test(device: str) -> Iterator[SchemeResult]:
    """Test the schemes of `arms.toml` on `device` ("cpu", "cuda", …), one result after the other. `attnres verify`
    looks closer, and at any."""
    batches = _batches()
    for scheme in default_arms("doctor"):
        equals = build_model(_preset(scheme), VOCAB_SIZE, device="meta").residual.equals_at_initialisation
        deviation = None if equals is None else _deviation(scheme, equals, batches[0])
        yield _train(scheme, batches.to(device), device, equals, deviation)


def _train(scheme: str, batches: Tensor, device: str, equals: str | None, deviation: float | None) -> SchemeResult:
    """A few steps of AdamW on batches [batches, sequences, context + 1]; first and last loss are of the same batch."""
    model = build_model(_preset(scheme), VOCAB_SIZE, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    counted = SEQUENCES * CONTEXT_TOKENS
    losses = []
    started = time.perf_counter()
    for step in range(STEPS + 1):
        tokens = batches[0] if step in (0, STEPS) else batches[step % len(batches)]
        loss = model.loss(tokens[:, :-1], tokens[:, 1:]) / counted
        losses.append(loss.item())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    milliseconds = 1000 * (time.perf_counter() - started) / (STEPS + 1)
    return SchemeResult(scheme, losses[0], losses[-1], milliseconds, equals, deviation)


@torch.no_grad()
def _deviation(scheme: str, equals: str, tokens: Tensor) -> float:
    """Largest difference of the two schemes' logits at initialisation, relative to the largest logit; on the CPU."""
    logits = [
        build_model(_preset(name, norm_epsilon=0.0), VOCAB_SIZE, dtype=torch.float64)(tokens[:, :-1])
        for name in (scheme, equals)
    ]
    return float((logits[0] - logits[1]).abs().max() / logits[1].abs().max())


def _preset(scheme: str, *, norm_epsilon: float = 1e-12) -> Preset:
    return preset_from_dict(
        {
            "model": {
                "transformer_blocks": TRANSFORMER_BLOCKS,
                "d_model": 64,
                "num_heads": 2,
                "context_tokens": CONTEXT_TOKENS,
                "norm_epsilon": norm_epsilon,
            },
            "residual": {"scheme": scheme},
            "data": {"corpus": "stdlib"},
            "train": {
                "horizon_tokens": STEPS * SEQUENCES * CONTEXT_TOKENS,
                "tokens_per_step": SEQUENCES * CONTEXT_TOKENS,
                "micro_batch_sequences": SEQUENCES,
                "learning_rate": LEARNING_RATE,
            },
            "eval": {"tokens": CONTEXT_TOKENS},
        },
        name=f"self-test-{scheme}",
    )


def _batches() -> Tensor:
    """Bytes of a source file of this program, as [batches, sequences, context + 1]: real text that is always there."""
    text = Path(schema.__file__).read_bytes()
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).to(torch.int64)
    per_batch = SEQUENCES * (CONTEXT_TOKENS + 1)
    batches = len(tokens) // per_batch
    return tokens[: batches * per_batch].view(batches, SEQUENCES, CONTEXT_TOKENS + 1)
