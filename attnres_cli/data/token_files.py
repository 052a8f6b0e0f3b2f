"""Data sets out of token files that stay where they are: checked and hashed once, then mapped into memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attnres_cli.data.cache import NotPrepared
from attnres_cli.data.documents import TokenFile
from attnres_cli.data.sources import corpus_module
from attnres_cli.data.store import Dataset, JoinedArrays, Progress, TokenStore
from attnres_cli.data.tokenizers import Tokenizer, load_tokenizer
from attnres_cli.errors import UserError
from attnres_cli.runs.files import write_json

_BYTES_AT_ONCE = 2**26
# So many ids of the beginning tell whether a file is read with the wrong width; fewer than these tell nothing.
_IDS_LOOKED_AT, _FEWEST_IDS_TO_JUDGE = 2**16, 32
# A file written in the very second in which it was looked at may change again with the same time stamp.
_SETTLED_SECONDS = 2.0


def open_token_files(
    config: Any, base_folder: Path, cache: Path, progress: Progress | None, *, only_cached: bool = False
) -> Dataset:
    """The data set of a corpus that gives token files. `config`: the corpus's own [data] section.

    Without validation files the last `validation_fraction` of the tokens are held out: token files have no documents.
    Raises UserError when an id is not below the vocabulary size; NotPrepared with `only_cached`, when a file is new.
    """
    files: list[TokenFile] = list(corpus_module(config).documents(config, base_folder))
    tokenizer = _tokenizer(config, base_folder)
    digests, was_cached = _examine(files, config.vocab_size, cache, progress, only_cached)
    mapped = [_map(file) for file in files]
    train = [array for file, array in zip(files, mapped, strict=True) if file.part == "train"]
    validation = [array for file, array in zip(files, mapped, strict=True) if file.part == "validation"]
    notes = [_read_too_narrow(file) for file, ids in zip(files, mapped, strict=True) if _is_read_too_narrow(ids)]
    if not validation:
        train, validation = _cut_off_the_end(train, config.validation_fraction)
        notes.append(
            f"Token files have no documents: the last {len(JoinedArrays(validation)):,} tokens are held out "
            "(name data.validation_files to choose)."
        )
    bytes_per_id = _padded(tokenizer.bytes_per_id, config.vocab_size) if tokenizer else None
    held_out_lengths = [len(array) for array in validation]
    content = [(file.part, file.dtype, digest) for file, digest in zip(files, digests, strict=True)]
    return Dataset(
        corpus=config.corpus,
        train=TokenStore(_as_one(train), None, None, bytes_per_id),
        validation=TokenStore(_as_one(validation), None, None, bytes_per_id),
        vocab_size=config.vocab_size,
        tokenizer_name=tokenizer.name if tokenizer else "none",
        data_hash=_hash_of([content, held_out_lengths, config.vocab_size]),
        validation_hash=_hash_of(
            [[entry for entry in content if entry[0] == "validation"] or content, held_out_lengths]
        ),
        num_documents=len(files),
        replaced_bytes=0,
        notes=notes,
        decode=tokenizer.decode if tokenizer else lambda ids: " ".join(map(str, ids)),
        was_cached=was_cached,
        document_tokens=None,
    )


def _tokenizer(config: Any, base_folder: Path) -> Tokenizer | None:
    if config.tokenizer == "none":
        return None
    tokenizer = load_tokenizer(config.tokenizer, base_folder)
    if tokenizer.vocab_size > config.vocab_size:
        raise UserError(
            f"The tokenizer '{tokenizer.name}' has {tokenizer.vocab_size} ids, data.vocab_size is {config.vocab_size}.",
            where="data.vocab_size",
            expected=f"vocab_size of at least {tokenizer.vocab_size}, or the tokenizer that made the files",
        )
    return tokenizer


def _examine(
    files: Sequence[TokenFile], vocab_size: int, cache: Path, progress: Progress | None, only_cached: bool
) -> tuple[list[str], bool]:
    """SHA-256 of every file, and whether all were known already. Raises UserError for an id that is too large."""
    known = _Examined(cache)
    total_bytes = sum(file.path.stat().st_size for file in files)
    done_bytes = 0
    digests = []
    was_cached = True
    for file in files:
        facts = known.facts(file)
        if facts is None:
            if only_cached:
                raise NotPrepared
            was_cached = False
            facts = _read_through(file, progress, done_bytes, total_bytes)
            known.remember(file, facts)
        if facts["largest_id"] >= vocab_size:
            raise UserError(
                f"{file.name} holds the id {facts['largest_id']:,} (token {facts['largest_at']:,}); "
                f"data.vocab_size is {vocab_size:,}.",
                where=str(file.path),
                expected="ids below vocab_size; with the wrong data.dtype, ids are nonsense",
            )
        digests.append(facts["sha256"])
        done_bytes += file.path.stat().st_size
    return digests, was_cached


def _read_through(file: TokenFile, progress: Progress | None, done_bytes: int, total_bytes: int) -> dict[str, Any]:
    """SHA-256 of the ids, the largest id, and the first place where it stands."""
    ids = _map(file)
    digest = hashlib.sha256()
    largest, largest_at = -1, 0
    at_once = _BYTES_AT_ONCE // ids.itemsize
    for start in range(0, len(ids), at_once):
        part = ids[start : start + at_once]
        digest.update(part.data)
        place = int(part.argmax())
        if int(part[place]) > largest:
            largest, largest_at = int(part[place]), start + place
        if progress:
            progress("reading token files", done_bytes + (start + len(part)) * ids.itemsize, total_bytes)
    return {"sha256": digest.hexdigest(), "largest_id": largest, "largest_at": largest_at}


class _Examined:
    """What is known of files that have not changed since they were read through: same path, size and time stamp.

    Losing it, or an entry to another process, costs reading through once more.
    """

    def __init__(self, cache: Path) -> None:
        self._path = cache / "token_files.json"

    def facts(self, file: TokenFile) -> dict[str, Any] | None:
        entry = self._entries().get(self._key(file))
        return entry["facts"] if isinstance(entry, dict) and entry.get("stamp") == self._stamp(file) else None

    def remember(self, file: TokenFile, facts: dict[str, Any]) -> None:
        if time.time() - file.path.stat().st_mtime < _SETTLED_SECONDS:
            return
        entries = self._entries() | {self._key(file): {"stamp": self._stamp(file), "facts": facts}}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, entries)

    def _entries(self) -> dict[str, Any]:
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}

    @staticmethod
    def _key(file: TokenFile) -> str:
        return f"{file.path.resolve()} {file.dtype}"

    @staticmethod
    def _stamp(file: TokenFile) -> list[int]:
        status = file.path.stat()
        return [status.st_size, status.st_mtime_ns]


def _map(file: TokenFile) -> npt.NDArray[Any]:
    dtype = "<u2" if file.dtype == "uint16" else "<u4"
    return np.memmap(file.path, dtype=dtype, mode="r", offset=file.header_bytes, shape=(file.num_tokens,))


def _is_read_too_narrow(ids: npt.NDArray[Any]) -> bool:
    """Whether 2-byte ids look like the halves of 4-byte ones: every second one is 0, of the others not all."""
    seen = ids[:_IDS_LOOKED_AT]
    return ids.itemsize == 2 and len(seen) >= _FEWEST_IDS_TO_JUDGE and not seen[1::2].any() and bool(seen[::2].any())


def _read_too_narrow(file: TokenFile) -> str:
    return (
        f'Every second id of {file.name} is 0, as when a file of uint32 ids is read as uint16: data.dtype = "uint32" '
        "would read it as such."
    )


def _cut_off_the_end(
    arrays: Sequence[npt.NDArray[Any]], fraction: float
) -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[Any]]]:
    """(all but the end, the end): the last `fraction` of all tokens, at least one on each side."""
    total = sum(len(array) for array in arrays)
    if total < 2:
        raise UserError(
            "The token files hold a single token.", where="data.files", expected="enough for training and validation"
        )
    border = min(max(total - round(total * fraction), 1), total - 1)
    before, after, start = [], [], 0
    for array in arrays:
        stop = start + len(array)
        if start < border:
            before.append(array[: border - start])
        if stop > border:
            after.append(array[max(border - start, 0) :])
        start = stop
    return before, after


def _as_one(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any] | JoinedArrays:
    return arrays[0] if len(arrays) == 1 else JoinedArrays(arrays)


def _padded(bytes_per_id: npt.NDArray[np.uint16], vocab_size: int) -> npt.NDArray[np.uint16]:
    return np.pad(bytes_per_id, (0, vocab_size - len(bytes_per_id)))


def _hash_of(description: Any) -> str:
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()
