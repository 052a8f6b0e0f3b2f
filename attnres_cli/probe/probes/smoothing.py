"""Over-smoothing: do the tokens' states grow alike with depth, and do neighbouring sublayers read the same thing?"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.probe.spectrum import effective_rank
from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.residual.protocol import Residual, Site, State, SublayerInput
from attnres_cli.train.device import autocast
from attnres_cli.train.observers.magnitudes import norm_inputs

TITLE = "Over-smoothing"


@torch.no_grad()
def measure(subject: Subject) -> Findings:
    """Arrays token_cosine and effective_rank [L_b + 1] of the stream (0: the embedding), means over sequences, and
    input_cosine [L - 1] of what neighbouring sublayers read before their norms, mean over tokens."""
    sums: list[Tensor] = []
    for tokens, _ in subject.batches:
        watcher = _States(subject.model)
        with norm_inputs(subject.model, watcher.norm_input), autocast(subject.precision, tokens.device):
            subject.model.walk(tokens, watcher)
        sums.append(len(tokens) * torch.cat([torch.stack(each).mean(-1) for each in watcher.by_depth()]).cpu())
    means = torch.stack(sums).sum(0) / subject.sequences
    stops = subject.model.config.transformer_blocks + 1
    cosine, rank, inputs = torch.split(means, [stops, stops, means.numel() - 2 * stops])
    return Findings(
        {"tokens_per_sequence": subject.batches[0][0].shape[1]},
        {"token_cosine": cosine.numpy(), "effective_rank": rank.numpy(), "input_cosine": inputs.numpy()},
    )


class _States:
    """One number per sequence and depth; of the inputs only the newest is kept."""

    def __init__(self, model: LanguageModel) -> None:
        self.residual: Residual = model.residual
        self.incoming: dict[int, Tensor] = {}
        self.previous: Tensor | None = None
        self.token_cosine: list[Tensor] = []
        self.rank: list[Tensor] = []
        self.input_cosine: list[Tensor] = []

    def by_depth(self) -> Iterator[list[Tensor]]:
        yield from (each for each in (self.token_cosine, self.rank, self.input_cosine) if each)

    def norm_input(self, ordinal: int, x: Tensor) -> None:
        self.incoming[ordinal] = x

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        if site.ordinal == 0:
            self._add(self.residual.stream(before))
        if site.kind == "feed_forward":
            self._add(self.residual.stream(after))
        # A scheme that never calls this site's norm shows what it hands the sublayer itself.
        seen = self.incoming.pop(site.ordinal, x if isinstance(x, Tensor) else x["q"])
        if self.previous is not None:
            self.input_cosine.append(F.cosine_similarity(self.previous.double(), seen.double(), dim=-1).mean(-1))
        self.previous = seen

    def close(self, state: State, output: Tensor) -> None:
        pass

    def _add(self, stream: Tensor) -> None:
        self.token_cosine.append(token_cosine(stream))
        self.rank.append(effective_rank(stream))


def token_cosine(states: Tensor) -> Tensor:
    """Mean cosine of the states of two different tokens of a sequence, [B, T, d] to [B] in float64: with ŝ = s / |s|,
    (|Σ_t ŝ_t|² - T) / (T (T - 1)). nan for one token."""
    directions = F.normalize(states.double(), dim=-1)
    tokens = states.shape[-2]
    together: Tensor = directions.sum(-2).square().sum(-1)
    return (together - tokens) / (tokens * (tokens - 1)) if tokens > 1 else torch.full_like(together, torch.nan)
