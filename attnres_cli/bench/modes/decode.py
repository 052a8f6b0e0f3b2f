"""One token after a prompt whose keys and values are cached; forgotten again, so that every call does the same."""

from __future__ import annotations

import torch
from torch import Tensor

from attnres_cli.bench.work import Announce, Work
from attnres_cli.model.build import build_model
from attnres_cli.model.cache import KeyValueCache
from attnres_cli.model.counting import forward_flops_per_token
from attnres_cli.preset.reading import Preset
from attnres_cli.train.device import autocast

UNIT = "token"
HAS_PROMPT = True


def build(preset: Preset, vocab_size: int, device: torch.device, *, prompt_tokens: int, announce: Announce) -> Work:
    model = build_model(preset, vocab_size, device=device)
    drawn = torch.randint(vocab_size, (1, prompt_tokens + 1), generator=torch.Generator().manual_seed(0)).to(device)
    prompt, token = drawn[:, :-1], drawn[:, -1:]
    cache = KeyValueCache.for_model(model, 1, prompt_tokens + 1)

    @torch.no_grad()
    def read(tokens: Tensor) -> None:
        with autocast(preset.train.precision, device):
            model(tokens, cache)

    def call() -> None:
        read(token)
        cache.rewind(prompt_tokens)

    read(prompt)
    # The count for a context of T tokens gives a query the average of T / 2 keys; this query sees prompt and itself.
    flops = sum(forward_flops_per_token(model, 2 * (prompt_tokens + 1)).values())
    return Work(model, call, 1, flops, kept=lambda: (drawn, *_tensors(cache)))


def _tensors(cache: KeyValueCache) -> list[Tensor]:
    return [each for layer in cache.layers for each in vars(layer).values() if isinstance(each, Tensor)]
