"""Memory that a scheme's sources take while a prompt is processed (the paper's §4.2): N · T · d elements.

A prompt of T tokens keeps N block representations per token until its last sublayer is done (they are not kept for
decoding). Sharded over the sequence by K tensor-parallel devices each holds T / K tokens; a prompt that is processed in
chunks never holds more than one chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Prefill:
    """Bytes of the kept representations: whole on one device, per device when sharded, and per device in chunks.

    chunked_bytes_per_device is None where the prompt fits one chunk, so that chunks change nothing.
    """

    representations: int
    tokens: int
    tensor_parallel: int
    chunk_tokens: int
    total_bytes: int
    bytes_per_device: Fraction
    chunked_bytes_per_device: Fraction | None


def prefill_memory(
    *,
    representations: int,
    tokens: int,
    d_model: int,
    bytes_per_element: int,
    tensor_parallel: int = 1,
    chunk_tokens: int = 16_384,
) -> Prefill:
    """N = `representations` (blocks, or sublayer outputs for Full) of `d_model` channels for a prompt of `tokens`.

    The embedding is not counted, as the paper does not. All arguments but `representations` (≥ 0) are positive.
    """
    assert representations >= 0
    assert min(tokens, d_model, bytes_per_element, tensor_parallel, chunk_tokens) > 0
    bytes_per_token = representations * d_model * bytes_per_element
    chunked = Fraction(chunk_tokens * bytes_per_token, tensor_parallel)
    return Prefill(
        representations=representations,
        tokens=tokens,
        tensor_parallel=tensor_parallel,
        chunk_tokens=chunk_tokens,
        total_bytes=tokens * bytes_per_token,
        bytes_per_device=Fraction(tokens * bytes_per_token, tensor_parallel),
        chunked_bytes_per_device=chunked if chunk_tokens < tokens else None,
    )
