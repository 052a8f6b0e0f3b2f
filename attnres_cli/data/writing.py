"""Tokenising a corpus into the files of a cache entry, a batch of documents in memory at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attnres_cli.data.byte_pairs import usable_cores
from attnres_cli.data.sources import Source
from attnres_cli.data.split import Split, content_digest, cut
from attnres_cli.data.store import Progress
from attnres_cli.data.survey import Survey
from attnres_cli.errors import UserError

# Enough for every core to have many tasks, little enough for progress to be seen and for memory not to matter.
_BATCH_BYTES_PER_CORE = 2**22


def write_sides(
    folder: Path, source: Source, survey: Survey, split: Split, progress: Progress | None
) -> dict[str, Any]:
    """Tokenise the documents into `folder`; returns what a reader must know of the files."""
    dtype = "<u2" if source.vocab_size <= 2**16 else "<u4"
    sides = {part: _SideWriter(folder, part, dtype, source.has_loss_masks) for part in ("train", "validation")}
    total_bytes = int(survey.sizes.sum())
    done_bytes = longest_tokens = 0
    try:
        for batch in _batches(_segments(source, survey, split)):
            encoded = source.encode([content for _, content in batch])
            for (part, content), (tokens, loss_mask) in zip(batch, encoded, strict=True):
                sides[part].append(content, tokens, loss_mask)
                longest_tokens = max(longest_tokens, len(tokens))
            done_bytes += sum(len(content) for _, content in batch)
            if progress:
                progress("tokenising", done_bytes, total_bytes)
    finally:
        for side in sides.values():
            side.close()
    bytes_per_id = source.bytes_per_id()
    if bytes_per_id is not None:
        (folder / "bytes_per_id.bin").write_bytes(bytes_per_id.astype("<u2").tobytes())
    return {
        "dtype": dtype,
        "cut_bytes": 0 if split.piece_bytes is None else int(survey.sizes[survey.sizes > split.piece_bytes].sum()),
        "longest_tokens": longest_tokens,
        **{part: side.facts() for part, side in sides.items()},
    }


def _segments(source: Source, survey: Survey, split: Split) -> Iterator[tuple[str, bytes]]:
    """(part, content) in the corpus's order: whole documents, and runs of pieces of one that are on the same side.

    Raises UserError when the documents are not those of the survey any more.
    """
    digests = bytearray()
    for document in source.contents():
        if not document.content:
            continue
        digests += content_digest(document.content)
        run: list[bytes] = []
        part = ""
        for piece in cut(document.content, split.piece_bytes):
            side = "validation" if split.is_validation(piece) else "train"
            if run and side != part:
                yield part, b"".join(run)
                run = []
            run.append(piece)
            part = side
        yield part, b"".join(run)
    if bytes(digests) != survey.digests:
        raise UserError("The corpus changed while it was being read.", hint="run the command again")


def _batches(segments: Iterator[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    batch: list[tuple[str, bytes]] = []
    batch_bytes = 0
    full_bytes = _BATCH_BYTES_PER_CORE * usable_cores()
    for segment in segments:
        batch.append(segment)
        batch_bytes += len(segment[1])
        if batch_bytes >= full_bytes:
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch


class _SideWriter:
    """Writes the tokens (and loss mask) of one side, counting and hashing them."""

    def __init__(self, folder: Path, part: str, dtype: str, has_loss_masks: bool) -> None:
        self._dtype = dtype
        self._tokens = (folder / f"{part}.bin").open("wb")
        self._loss_mask = (folder / f"{part}.mask.bin").open("wb") if has_loss_masks else None
        self._digest = hashlib.sha256()
        self._num_tokens = self._num_bytes = 0

    def append(self, content: bytes, tokens: npt.NDArray[np.uint32], loss_mask: npt.NDArray[np.bool_] | None) -> None:
        ids = tokens.astype(self._dtype).tobytes()
        self._tokens.write(ids)
        self._digest.update(ids)
        if self._loss_mask is not None:
            assert loss_mask is not None
            self._loss_mask.write(loss_mask.tobytes())
            self._digest.update(loss_mask.tobytes())
        self._num_tokens += len(tokens)
        self._num_bytes += len(content)

    def facts(self) -> dict[str, Any]:
        return {"num_tokens": self._num_tokens, "num_bytes": self._num_bytes, "sha256": self._digest.hexdigest()}

    def close(self) -> None:
        self._tokens.close()
        if self._loss_mask is not None:
            self._loss_mask.close()
