"""Keys and values of the tokens that a model has read, so that the next ones need only be read themselves.

Nothing of the residual scheme is kept: its state is per token and ends with the token's walk through depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from attnres_cli.model.trunk import LanguageModel


class KeyValueCache:
    """What attention of every layer holds of `length` tokens of `batch_size` sequences; room for `capacity_tokens`.

    A walk of the model reads the next tokens at position `length`, and holds them from then on. The tensors are
    allocated whole when the first tokens come, in the dtype in which attention computes them (bfloat16 under autocast).
    """

    def __init__(self, layers: int, batch_size: int, capacity_tokens: int) -> None:
        self.batch_size = batch_size
        # Shared with the layers, which do not know the cache: a cycle would keep all keys and values until Python's
        # collector comes by.
        self._extent = _Extent(capacity_tokens)
        self.layers = tuple(LayerCache(self._extent) for _ in range(layers))

    @classmethod
    def for_model(cls, model: LanguageModel, batch_size: int, capacity_tokens: int) -> KeyValueCache:
        """An empty cache for `model`; positions end with its context, so there is no room for more tokens than that."""
        context = model.config.context_tokens
        assert 0 < capacity_tokens <= context, f"a cache of {capacity_tokens} tokens for a context of {context}"
        return cls(model.config.transformer_blocks, batch_size, capacity_tokens)

    @property
    def capacity_tokens(self) -> int:
        return self._extent.capacity_tokens

    @property
    def length(self) -> int:
        """Tokens that are held."""
        return self._extent.length

    @length.setter
    def length(self, tokens: int) -> None:
        self._extent.length = tokens

    def rewind(self, length: int) -> None:
        """Forget all tokens but the first `length`."""
        assert 0 <= length <= self.length, f"rewind to {length} of {self.length} tokens"
        self.length = length

    def require_room(self, sequences: int, tokens: int) -> None:
        """The next `tokens` tokens of `sequences` sequences can be read."""
        assert sequences == self.batch_size, f"{sequences} sequences for a cache of {self.batch_size}"
        needed = self.length + tokens
        assert needed <= self.capacity_tokens, f"{needed} tokens for a cache of {self.capacity_tokens}"


@dataclass
class _Extent:
    """How many tokens every layer holds, and how many it has room for."""

    capacity_tokens: int
    length: int = 0


class LayerCache:
    """One layer's part of a `KeyValueCache`: keys as they are after rotary embedding, and values."""

    def __init__(self, extent: _Extent) -> None:
        self._extent = extent
        self._keys: Tensor | None = None  # [B, key/value heads, capacity, head size], and so are the values
        self._values: Tensor | None = None

    @property
    def first_position(self) -> int:
        """Where the tokens stand that are being read."""
        return self._extent.length

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Take those of the t tokens being read, [B, heads, t, head size]; returns all up to and with them,
        [B, heads, length + t, head size]."""
        self._keys = self._written(self._keys, keys)
        self._values = self._written(self._values, values)
        end = self.first_position + keys.shape[2]
        return self._keys[:, :, :end], self._values[:, :, :end]

    def _written(self, held: Tensor | None, new: Tensor) -> Tensor:
        batch, heads, tokens, width = new.shape
        if held is None:
            held = new.new_empty(batch, heads, self._extent.capacity_tokens, width)
        assert held.dtype == new.dtype, f"{new.dtype} for a cache of {held.dtype}"
        held[:, :, self.first_position : self.first_position + tokens] = new
        return held
