"""Tokenizer `bytes`: every UTF-8 byte is a token; 256 of them and end of text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnres_cli.data.tokenizers import END_OF_TEXT

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NAME = "bytes"
VOCAB_SIZE = 257
BYTES_PER_TOKEN = 1.0


class ByteTokenizer:
    """Ids 0 … 255 are the bytes, 256 is the end of text."""

    name = NAME
    vocab_size = VOCAB_SIZE
    end_of_text = 256
    digest = "bytes-1"

    @property
    def bytes_per_id(self) -> npt.NDArray[np.uint16]:
        import numpy as np

        return np.array([1] * 256 + [0], dtype=np.uint16)

    def encode_documents(self, texts: Sequence[bytes]) -> list[npt.NDArray[np.uint32]]:
        import numpy as np

        return [np.frombuffer(text, dtype=np.uint8).astype(np.uint32) for text in texts]

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else END_OF_TEXT.encode()

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")


def names() -> tuple[str, ...]:
    return (NAME,)


def accepts(name: str) -> bool:
    return name == NAME


def vocabulary_size(name: str, base_folder: Path) -> int:
    return VOCAB_SIZE


def load(name: str, base_folder: Path) -> ByteTokenizer:
    return ByteTokenizer()
