"""Block Attention Residuals (arXiv 2603.15031, Eq. 5-6) as a module of its own: an adapter for `attnres verify
--module`, and a place to start from. It needs nothing but torch.

    attnres verify --module mine.py:BlockAttnRes
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class BlockAttnRes(nn.Module):
    block_sublayers = 3  # sublayers summed up in a block (the paper's S); without it, every output is a source (Full)
    epsilon = 1e-6  # of the key norm

    def __init__(self, d_model: int, num_sublayers: int) -> None:
        super().__init__()
        sites = num_sublayers + 1  # one for each attention and each feed-forward, and the output site
        self.query = nn.ParameterList(nn.Parameter(torch.zeros(d_model)) for _ in range(sites))
        self.gain = nn.ParameterList(nn.Parameter(torch.ones(d_model)) for _ in range(sites))

    def queries(self) -> list[Tensor]:
        """One parameter of d_model numbers for every site, or views of one parameter."""
        return list(self.query)

    def key_gains(self) -> list[Tensor]:
        """Optional: the gain of every site's key norm."""
        return list(self.gain)

    def mix(self, sources: list[Tensor], ordinal: int) -> Tensor:
        """sources: list of [B, T, d], the embedding first; ordinal: sublayers from 0, the output site last.

        What the sublayer's norm gets, [B, T, d].
        """
        values = torch.stack(sources)  # [n, B, T, d]
        wide = values.to(torch.promote_types(values.dtype, torch.float32))
        keys = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        logits = (keys * self.gain[ordinal] * self.query[ordinal]).sum(-1)  # no 1/sqrt(d)
        weights = torch.softmax(logits, dim=0)
        return (weights.unsqueeze(-1) * wide).sum(0).to(values.dtype)

    def walk(self, embedding: Tensor, sublayers: list[Callable[[Tensor], Tensor]]) -> Tensor:
        """Optional: the whole depth. sublayers: functions [B, T, d] → [B, T, d], each with its norm inside.

        What the model's final norm gets, [B, T, d].
        """
        blocks: list[Tensor] = [embedding]
        partial: Tensor | None = None
        for ordinal, sublayer in enumerate(sublayers):
            if ordinal % self.block_sublayers == 0 and partial is not None:
                blocks, partial = [*blocks, partial], None
            output = sublayer(self.mix(blocks if partial is None else [*blocks, partial], ordinal))
            partial = output if partial is None else partial + output
        assert partial is not None
        return self.mix([*blocks, partial], len(sublayers))
