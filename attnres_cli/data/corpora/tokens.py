"""Corpus `tokens`: files of token ids made elsewhere, read where they lie.

Two forms, told apart by their first bytes: bare uint16 or uint32 ids, as nanoGPT's scripts write them, and ids after a
header of 256 int32 (20240520, version 1, number of tokens, …), as llm.c and modded-nanogpt write them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from attnres_cli.data.documents import TokenFile
from attnres_cli.data.file_patterns import find_files, missing_files
from attnres_cli.errors import Fault, UserError, plural
from attnres_cli.preset.schema import TOKENIZER, DataConfig, FilePath, PositiveInt

HEADER_BYTES = 256 * 4
HEADER_MAGIC = 20240520
HEADER_VERSION = 1


GIVES = TokenFile


class Config(DataConfig):
    """[data] with corpus = "tokens"."""

    ignored_keys: ClassVar[tuple[str, ...]] = ("undecodable",)

    corpus: Literal["tokens"] = Field(description="tokens: files of token ids (.bin), made elsewhere")
    tokenizer: Annotated[str, FilePath(if_exists=True), replace(TOKENIZER, also=("none",))] = Field(
        "none", description="tokenizer that made the ids, to show text and bits per byte; none: ids only"
    )
    files: Annotated[tuple[str, ...], Field(min_length=1), FilePath()] = Field(
        description="paths and globs (`**` for any depth) of training files, relative to the preset's folder, in order"
    )
    validation_files: Annotated[tuple[str, ...], FilePath()] = Field(
        (), description="the same for validation; none: the last validation_fraction of `files`"
    )
    vocab_size: Annotated[PositiveInt, Field(le=2**32)] = Field(description="token ids are below this")
    dtype: Literal["uint16", "uint32"] = Field("uint16", description="type of one id in the files")


def missing(config: Config, base_folder: Path) -> Iterator[tuple[str, Fault]]:
    """(key, fault) of every path and glob that leads nowhere."""
    for key, patterns in (("files", config.files), ("validation_files", config.validation_files)):
        yield from ((key, fault) for fault in missing_files(patterns, base_folder, key=f"data.{key}"))


def documents(config: Config, base_folder: Path) -> Iterator[TokenFile]:
    """The files, in order, training before validation; ids are not read yet.

    Raises UserError naming a file that is missing, empty, cut short, or of another header version.
    """
    for name, path in find_files(config.files, base_folder, key="data.files"):
        yield _open(name, path, config.dtype, "train")
    if config.validation_files:
        for name, path in find_files(config.validation_files, base_folder, key="data.validation_files"):
            yield _open(name, path, config.dtype, "validation")


def vocabulary_size(config: Config) -> int:
    """Number of token ids."""
    return config.vocab_size


def _open(name: str, path: Path, dtype: Literal["uint16", "uint32"], part: Literal["train", "validation"]) -> TokenFile:
    try:
        file_bytes = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(HEADER_BYTES)
    except OSError as error:
        raise UserError(f"The file {name} can't be read: {error.strerror}.", where=str(path)) from error
    bytes_per_token = 2 if dtype == "uint16" else 4
    # 20240520 as two bare uint16 ids would be 55432 and 308: no GPT-2 file starts so, its ids end at 50256.
    if len(start) >= 12 and start[:4] == struct.pack("<i", HEADER_MAGIC):
        num_tokens = _tokens_by_header(name, path, start, file_bytes, bytes_per_token)
        return TokenFile(name, path, HEADER_BYTES, num_tokens, dtype, part)
    if file_bytes % bytes_per_token:
        raise UserError(
            f"{name} has {file_bytes:,} {plural(file_bytes, 'byte')}, which is no whole number of {dtype} ids.",
            where=str(path),
            expected=f"a file of {dtype} ids, {bytes_per_token} bytes each",
        )
    if not file_bytes:
        raise UserError(f"The file {name} is empty.", where=str(path), expected=f"a file of {dtype} ids")
    return TokenFile(name, path, 0, file_bytes // bytes_per_token, dtype, part)


def _tokens_by_header(name: str, path: Path, start: bytes, file_bytes: int, bytes_per_token: int) -> int:
    _, version, num_tokens = struct.unpack_from("<3i", start)
    if version != HEADER_VERSION:
        raise UserError(f"{name} has header version {version}.", where=str(path), expected=f"version {HEADER_VERSION}")
    expected_bytes = HEADER_BYTES + num_tokens * bytes_per_token
    if num_tokens < 1 or file_bytes != expected_bytes:
        raise UserError(
            f"The header of {name} promises {num_tokens:,} {plural(num_tokens, 'token')}, {expected_bytes:,} bytes; "
            f"it has {file_bytes:,}.",
            where=str(path),
            expected="a whole file, and data.dtype as it was written",
        )
    return int(num_tokens)
