"""A prompt, read once, and any number of continuations of it, token by token."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from attnres_cli.errors import UserError
from attnres_cli.generate.sampling import SamplingConfig, choose
from attnres_cli.model.cache import KeyValueCache
from attnres_cli.model.trunk import LanguageModel


class Window:
    """The part of one sequence that the model sees: as many of its last tokens as the context holds.

    Positions end with the context, and keys hold their position. So when it is full, the newer half of it is read
    again from position 0, and the older half is forgotten: per new token that costs about as much as reading one more,
    and at least half a context is always seen.
    """

    def __init__(self, model: LanguageModel, capacity_tokens: int) -> None:
        """capacity_tokens: of the longest sequence that will be read; what the context holds is enough for any."""
        self.model = model
        self.context_tokens = model.config.context_tokens
        self.cache = KeyValueCache.for_model(model, 1, min(capacity_tokens, self.context_tokens))
        self.tokens: list[int] = []

    @torch.no_grad()
    def read(self, tokens: Sequence[int]) -> Tensor:
        """Take the next tokens of the sequence, at most a context at once; logits [V], float64 on the CPU, of what
        follows the last. Raises UserError when they are not finite."""
        new = list(tokens)
        if len(self.tokens) + len(new) > self.context_tokens:
            new = (self.tokens + new)[-max(1, self.context_tokens // 2) :]
            self.rewind(0)
        device = self.model.embedding.weight.device
        seen = self.model.walk(torch.tensor([new], device=device), cache=self.cache)
        self.tokens += new
        logits = F.linear(seen[0, -1], self.model.head_weight).double().cpu()
        if not logits.isfinite().all():
            raise UserError(
                "The model's output is not finite, so no token can be chosen.",
                expected="weights of a run that did not diverge",
            )
        return logits

    def rewind(self, length: int) -> None:
        """Forget all tokens in view but the first `length`."""
        self.cache.rewind(length)
        del self.tokens[length:]


class Continuations:
    """Continuations of one prompt by at most `max_tokens` tokens each.

    The clock does not run while the caller has a token. prompt_seconds: reading the prompt for the first time;
    decode_tokens, decode_seconds: tokens that were read one by one, each for another to be chosen, and their time.
    """

    def __init__(self, model: LanguageModel, prompt: Sequence[int], max_tokens: int) -> None:
        assert 0 < len(prompt) <= model.config.context_tokens, f"a prompt of {len(prompt)} tokens"
        self.prompt, self.max_tokens = list(prompt), max_tokens
        self._window = Window(model, len(self.prompt) + max_tokens)
        began = time.perf_counter()
        self._after_prompt = self._window.read(self.prompt)
        self.prompt_seconds = time.perf_counter() - began
        self.decode_tokens, self.decode_seconds = 0, 0.0

    def draw(self, sampling: SamplingConfig, *, sample: int = 0, end: int | None = None) -> Iterator[int]:
        """The tokens of sample number `sample`, as they come; `end`: the token that ends it, not given out.

        One at a time: the samples share the window.
        """
        self._return_to_prompt()
        token = choose(self._after_prompt, sampling, sample=sample, place=0)
        for place in range(1, self.max_tokens):
            if token == end:
                return
            yield token
            began = time.perf_counter()
            token = choose(self._window.read([token]), sampling, sample=sample, place=place)
            self.decode_seconds += time.perf_counter() - began
            self.decode_tokens += 1
        if token != end:
            yield token

    def _return_to_prompt(self) -> None:
        if self._window.tokens[: len(self.prompt)] == self.prompt:
            self._window.rewind(len(self.prompt))
        else:  # forgotten by the sample before, which was longer than the context
            self._window.rewind(0)
            self._window.read(self.prompt)
