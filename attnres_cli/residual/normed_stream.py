"""What schemes share that normalise the stream itself, after each addition (post-norm).

The trunk has one norm per sublayer and a final one, a post-norm model one after each addition. Here `read` normalises
the stored sum and makes the result the stream; so the embedding passes the first sublayer's norm, the post-norm of
sublayer l is the norm that belongs to sublayer l + 1, and that of the last one is the final norm. Every norm of the
trunk is used, none is added; of the published form this differs by the norm of the embedding alone.
"""

from __future__ import annotations

from torch import Tensor

from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.protocol import Site, State, SublayerInput


class NormedStream(OneStream):
    """Between sublayers the state is the sum that the next norm takes; a subclass says how it is formed (`write`)."""

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        normalised = site.norm(state[0])
        return normalised, (normalised,)

    def stream(self, state: State) -> Tensor:
        """The sum before its norm; once a sublayer has read it, the normalised stream."""
        return state[0]
