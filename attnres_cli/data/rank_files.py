"""Rank files: one token a line, its bytes in base64 and its rank, as tiktoken writes and reads them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attnres_cli.data.tokenizers import END_OF_TEXT
from attnres_cli.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import tiktoken


class RankFileTokenizer:
    """Byte-pair encoding by a rank file, with GPT-2's pre-tokenisation; end of text comes after the last rank.

    The file is read at once, the encoder built when it is first needed.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._ranks, self._file_digest = _read_ranks(path)
        self.end_of_text = len(self._ranks)
        self.vocab_size = len(self._ranks) + 1

    @cached_property
    def digest(self) -> str:
        from attnres_cli.data.byte_pairs import PATTERN

        return hashlib.sha256(f"{PATTERN} {END_OF_TEXT} {self._file_digest}".encode()).hexdigest()

    @cached_property
    def bytes_per_id(self) -> npt.NDArray[np.uint16]:
        from attnres_cli.data.byte_pairs import bytes_per_id

        return bytes_per_id(self._encoding, self.vocab_size)

    @cached_property
    def _encoding(self) -> tiktoken.Encoding:
        import tiktoken

        from attnres_cli.data.byte_pairs import PATTERN

        return tiktoken.Encoding(
            self.name, pat_str=PATTERN, mergeable_ranks=self._ranks, special_tokens={END_OF_TEXT: self.end_of_text}
        )

    def encode_documents(self, texts: Sequence[bytes]) -> list[npt.NDArray[np.uint32]]:
        from attnres_cli.data.byte_pairs import encode_on_all_cores

        return encode_on_all_cores(self._encoding, texts)

    def token_bytes(self, token: int) -> bytes:
        from attnres_cli.data.byte_pairs import token_bytes

        return token_bytes(self._encoding, token)

    def decode(self, ids: Sequence[int]) -> str:
        from attnres_cli.data.byte_pairs import decode

        return decode(self._encoding, ids)


def rank_file_vocabulary_size(path: Path) -> int:
    """Ranks in the file, and one for end of text. Raises UserError when it is missing or is no rank file."""
    return len(_read_ranks(path)[0]) + 1


def rank_file_text(ranks: Mapping[bytes, int]) -> str:
    """The content of a rank file, by rank."""
    in_order = sorted(ranks.items(), key=lambda item: item[1])
    return "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in in_order)


def _read_ranks(path: Path) -> tuple[dict[bytes, int], str]:
    """Ranks by token, and the file's SHA-256."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"The tokenizer's rank file {path.name} can't be read: {error.strerror}.",
            where=str(path),
            expected="a rank file, as `attnres data train-tokenizer` writes it",
        ) from error
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise UserError(
                f"This line of the rank file {path.name} is not a token in base64 and its rank.",
                where=f"{path}:{number}",
                expected="for example: aGVsbG8= 300",
            ) from error
    if sorted(ranks.values()) != list(range(len(ranks))) or any(bytes([byte]) not in ranks for byte in range(256)):
        raise UserError(
            f"The rank file {path.name} is incomplete.",
            where=str(path),
            expected="ranks 0, 1, 2, … without gaps, and a token for each of the 256 bytes",
        )
    return ranks, hashlib.sha256(content).hexdigest()
