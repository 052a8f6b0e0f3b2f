"""Reading a prompt of one sequence into a fresh key/value cache, down to the logits of its last token."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from attnres_cli.bench.work import Announce, Work
from attnres_cli.model.build import build_model
from attnres_cli.model.cache import KeyValueCache
from attnres_cli.model.counting import forward_flops_per_token
from attnres_cli.preset.reading import Preset
from attnres_cli.train.device import autocast

UNIT = "prefill"
HAS_PROMPT = True


def build(preset: Preset, vocab_size: int, device: torch.device, *, prompt_tokens: int, announce: Announce) -> Work:
    model = build_model(preset, vocab_size, device=device)
    prompt = torch.randint(vocab_size, (1, prompt_tokens), generator=torch.Generator().manual_seed(0)).to(device)

    @torch.no_grad()
    def call() -> None:
        cache = KeyValueCache.for_model(model, 1, prompt_tokens)
        with autocast(preset.train.precision, device):
            F.linear(model.walk(prompt, cache=cache)[:, -1:], model.head_weight)

    parts = forward_flops_per_token(model, prompt_tokens)
    head = parts.pop("head")  # of the last token alone
    return Work(model, call, prompt_tokens, prompt_tokens * sum(parts.values()) + head, kept=lambda: (prompt,))
