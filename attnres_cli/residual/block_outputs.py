"""What schemes share in which a transformer block starts from a mixture of all earlier blocks' outputs.

X_0 is the embedding and X_n the output of block n - 1, as the block gave it, before any mixing. Within a block the
ordinary residual additions stay. The mixture is taken when the next block (or the head) reads, so between blocks the
state is the outputs alone, and activation checkpointing keeps each of them once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from torch import Tensor

from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Norm, Residual, Site, State, SublayerInput


class BlockOutputs(Residual):
    """State: X_0 … X_n, and within a block its running sum; [B, T, d] each, in at least float32."""

    @abstractmethod
    def enter(self, outputs: Sequence[Tensor], site: Site) -> tuple[SublayerInput, Tensor]:
        """What the attention that opens a block sees, normalised, and what the block's residual additions start
        from, [B, T, d]. outputs: X_0 … X_n, n = site.layer."""

    @abstractmethod
    def leave(self, outputs: Sequence[Tensor]) -> Tensor:
        """What the final norm sees, [B, T, d]; outputs: X_0 … X_{L_b}."""

    def open(self, embedding: Tensor) -> State:
        return (widen(embedding),)

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        if site.kind == "attention":
            x, start = self.enter(state, site)
            return x, (*state, start)
        return site.norm(state[-1]), state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        """The feed-forward's addition turns the running sum into the block's output."""
        return (*state[:-1], state[-1] + output)

    def skip(self, state: State, site: Site) -> State:
        """The block goes on from what it started from; one that is removed whole gives just that as its output."""
        return (*state, self.enter(state, site)[1]) if site.kind == "attention" else state

    def close(self, state: State, final_norm: Norm) -> Tensor:
        return final_norm(self.leave(state))

    def stream(self, state: State) -> Tensor:
        """The running sum within a block; before the head, the last block's output."""
        return state[-1]

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        outputs = ("embedding", *(f"block {block}" for block in range(ordinal // 2)))
        return outputs if ordinal == self.geometry.num_sublayers else (*outputs, "running sum")
