"""tiktoken's own vocabularies (gpt2, cl100k_base, …), when their files are in its cache.

tiktoken downloads a file that is missing, and deletes and downloads one whose hash is wrong. So both are looked at here
before tiktoken is asked, and it never reaches for the network.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attnres_cli.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import tiktoken


@dataclass(frozen=True)
class VocabularyFile:
    """A file that tiktoken reads: its address, under whose SHA-1 it is cached, and the SHA-256 it must have."""

    url: str
    sha256: str

    @property
    def cached_name(self) -> str:
        return hashlib.sha1(self.url.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Vocabulary:
    """vocab_size: largest id + 1, specials included."""

    vocab_size: int
    files: tuple[VocabularyFile, ...]


_SITE = "https://openaipublic.blob.core.windows.net"
_GPT2 = (
    VocabularyFile(
        f"{_SITE}/gpt-2/encodings/main/vocab.bpe", "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
    ),
    VocabularyFile(
        f"{_SITE}/gpt-2/encodings/main/encoder.json", "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
    ),
)
_R50K = VocabularyFile(
    f"{_SITE}/encodings/r50k_base.tiktoken", "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
)
_P50K = VocabularyFile(
    f"{_SITE}/encodings/p50k_base.tiktoken", "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"
)
_CL100K = VocabularyFile(
    f"{_SITE}/encodings/cl100k_base.tiktoken", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
)
_O200K = VocabularyFile(
    f"{_SITE}/encodings/o200k_base.tiktoken", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
)
VOCABULARIES = {
    "gpt2": Vocabulary(50257, _GPT2),
    "r50k_base": Vocabulary(50257, (_R50K,)),
    "p50k_base": Vocabulary(50281, (_P50K,)),
    "p50k_edit": Vocabulary(50284, (_P50K,)),
    "cl100k_base": Vocabulary(100277, (_CL100K,)),
    "o200k_base": Vocabulary(200019, (_O200K,)),
    "o200k_harmony": Vocabulary(201088, (_O200K,)),
}


def names() -> tuple[str, ...]:
    return tuple(VOCABULARIES)


def accepts(name: str) -> bool:
    return name in VOCABULARIES


def vocabulary_size(name: str, base_folder: Path) -> int:
    return VOCABULARIES[name].vocab_size


def load(name: str, base_folder: Path) -> TiktokenTokenizer:
    """Raises UserError when a file is not cached or is damaged; nothing is downloaded or deleted."""
    for file in VOCABULARIES[name].files:
        _require_cached(name, file)
    return TiktokenTokenizer(name)


def is_cached(name: str) -> bool:
    """Whether the files of this vocabulary lie in tiktoken's cache (their content is checked by `load`)."""
    folder = cache_folder()
    return folder is not None and all((folder / file.cached_name).is_file() for file in VOCABULARIES[name].files)


def cache_folder() -> Path | None:
    """The folder in which tiktoken looks; None when the user has switched its cache off (an empty variable)."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            return Path(os.environ[variable]) if os.environ[variable] else None
    return Path(tempfile.gettempdir(), "data-gym-cache")


class TiktokenTokenizer:
    """One of tiktoken's own encodings, whose files have been found in its cache."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.vocab_size = VOCABULARIES[name].vocab_size

    @cached_property
    def digest(self) -> str:
        hashes = "".join(file.sha256 for file in VOCABULARIES[self.name].files)
        return hashlib.sha256(f"{self.name} {self._encoding._pat_str} {hashes}".encode()).hexdigest()

    @cached_property
    def end_of_text(self) -> int:
        return self._encoding.eot_token

    @cached_property
    def bytes_per_id(self) -> npt.NDArray[np.uint16]:
        from attnres_cli.data.byte_pairs import bytes_per_id

        return bytes_per_id(self._encoding, self.vocab_size)

    @cached_property
    def _encoding(self) -> tiktoken.Encoding:
        import tiktoken

        return tiktoken.get_encoding(self.name)

    def encode_documents(self, texts: Sequence[bytes]) -> list[npt.NDArray[np.uint32]]:
        from attnres_cli.data.byte_pairs import encode_on_all_cores

        return encode_on_all_cores(self._encoding, texts)

    def token_bytes(self, token: int) -> bytes:
        from attnres_cli.data.byte_pairs import token_bytes

        return token_bytes(self._encoding, token)

    def decode(self, ids: Sequence[int]) -> str:
        from attnres_cli.data.byte_pairs import decode

        return decode(self._encoding, ids)


def _require_cached(name: str, file: VocabularyFile) -> None:
    folder = cache_folder()
    wanted = file.url.rsplit("/", 1)[1]
    choices = 'offline choices: tokenizer = "bytes", tokenizer = "bpe-4096", or the path of a rank file'
    if folder is None:
        raise UserError(
            f"The vocabulary of '{name}' can't be read: tiktoken's cache is switched off.",
            where="TIKTOKEN_CACHE_DIR (or DATA_GYM_CACHE_DIR) is set and empty",
            expected=f"a folder that holds {wanted} under the name {file.cached_name}",
            hint=choices,
        )
    path = folder / file.cached_name
    if not path.is_file():
        raise UserError(
            f"The vocabulary of '{name}' is not on this machine, and attnres does not download.",
            where=f"TIKTOKEN_CACHE_DIR ({os.environ.get('TIKTOKEN_CACHE_DIR', 'not set')}): no file {path}",
            expected=f"{file.url} there, under that name",
            hint=choices,
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
        raise UserError(
            f"The cached vocabulary of '{name}' is damaged: it is not the published {wanted}.",
            where=str(path),
            expected=f"SHA-256 {file.sha256}",
            hint=choices,
        )
