"""The slow walk that the tests of mHC and mHC-lite share: X' = H_res X + H_postᵀ f(H_pre X), token by token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from tests.residual.trunk_pieces import Pieces


def walk(model: LanguageModel, at: Pieces, n: int, constrained: Callable[[Tensor], Tensor]) -> Tensor:
    """constrained: logits of one token, flat → H_res [n, n]. The first site reads the embedding; there and at the last
    site H_res is left out."""
    own = model.residual.get_parameter
    batch, length, width = at.embedding.shape
    streams = at.embedding.unsqueeze(2).repeat(1, 1, n, 1)

    def logits(part: str, ordinal: int, vector: Tensor) -> Tensor:
        """α x φ + b of one token; vector: its n d channels."""
        x = vector / torch.sqrt((vector * vector).mean() + at.epsilon)
        projected = (x.unsqueeze(-1) * own(f"sites.{ordinal}.projection_{part}")).sum(0)
        return own(f"sites.{ordinal}.scale_{part}") * projected + own(f"sites.{ordinal}.bias_{part}")

    for ordinal in range(8):
        seen = at.embedding.clone()
        carried = streams.clone()
        post = torch.empty(batch, length, n, dtype=streams.dtype)
        for b in range(batch):
            for t in range(length):
                vector = streams[b, t].reshape(-1)
                post[b, t] = 2 / (1 + torch.exp(-logits("post", ordinal, vector)))
                if ordinal > 0:
                    pre = 1 / (1 + torch.exp(-logits("pre", ordinal, vector)))
                    seen[b, t] = sum(pre[i] * streams[b, t, i] for i in range(n))
                if 0 < ordinal < 7:
                    matrix = constrained(logits("res", ordinal, vector))
                    for i in range(n):
                        carried[b, t, i] = sum(matrix[i, j] * streams[b, t, j] for j in range(n))
        output = at.f[ordinal](at.norm[ordinal](seen))
        streams = torch.empty(batch, length, n, width, dtype=streams.dtype)
        for i in range(n):
            streams[:, :, i] = carried[:, :, i] + post[:, :, i, None] * output
    return at.final_norm(streams.sum(2))
