"""Reading a corpus through once: what is in it, and how it is split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnres_cli.data.sources import Source
from attnres_cli.data.split import SHORTEST_PIECE_BYTES, Split, choose, content_digest, cut, score
from attnres_cli.data.store import Progress
from attnres_cli.errors import UserError, plural

_PROGRESS_BYTES = 2**20


@dataclass(frozen=True)
class Survey:
    """What reading the documents through told. Empty ones are only counted.

    digests: 32 bytes per document, one after another. sizes: bytes of content, int64 [documents].
    """

    digests: bytes
    sizes: npt.NDArray[np.int64]
    empty: int
    replaced_bytes: int
    replaced_documents: int


def survey_documents(source: Source, progress: Progress | None) -> Survey:
    """Read all documents once. Raises UserError as the corpus does, and for bytes that its policy refuses."""
    digests, sizes = bytearray(), []
    empty = replaced_bytes = replaced_documents = 0
    done = reported = 0
    for document in source.contents():
        if not document.content:
            empty += 1
            continue
        digests += content_digest(document.content)
        sizes.append(len(document.content))
        replaced_bytes += document.replaced_bytes
        replaced_documents += document.replaced_bytes > 0
        done += len(document.content)
        if progress and done - reported >= _PROGRESS_BYTES:
            reported = done
            progress("reading", done, 0)
    return Survey(bytes(digests), np.array(sizes, dtype=np.int64), empty, replaced_bytes, replaced_documents)


def choose_split(source: Source, survey: Survey, validation_fraction: float) -> Split:
    """The split of these documents; reads long ones again, because their pieces are units of their own.

    Raises UserError when nothing would be left on one of the sides.
    """
    split = _chosen(source, survey, validation_fraction)
    if split is None:
        raise _too_alike(source, survey)
    return split


def _chosen(source: Source, survey: Survey, validation_fraction: float) -> Split | None:
    piece_bytes = source.longest_piece_bytes(int(survey.sizes.sum()), validation_fraction)
    scores = np.frombuffer(survey.digests, dtype=">u8")[::4].astype(np.uint64)
    if piece_bytes is None or survey.sizes.max() <= piece_bytes:
        return choose(scores, survey.sizes, validation_fraction, piece_bytes)
    whole = survey.sizes <= piece_bytes
    pieces = [
        (score(content_digest(piece)), len(piece))
        for document in source.contents()
        if len(document.content) > piece_bytes
        for piece in cut(document.content, piece_bytes)
    ]
    return choose(
        np.concatenate([scores[whole], np.array([digest for digest, _ in pieces], dtype=np.uint64)]),
        np.concatenate([survey.sizes[whole], np.array([size for _, size in pieces], dtype=np.int64)]),
        validation_fraction,
        piece_bytes,
    )


def _too_alike(source: Source, survey: Survey) -> UserError:
    documents, text_bytes = len(survey.sizes), int(survey.sizes.sum())
    found = f"{documents:,} {plural(documents, 'document')}"
    if not source.has_text:
        return UserError(
            f"The corpus has {found}, all alike, and can't be split into training and validation.",
            where=source.size_key,
            expected="at least two different documents",
        )
    return UserError(
        f"The corpus has {text_bytes:,} {plural(text_bytes, 'byte')} in {found} and can't be split into training and "
        "validation: it is one short text, or one text repeated.",
        where=source.size_key,
        expected=f"at least two different documents, or one of more than {SHORTEST_PIECE_BYTES} bytes",
        hint="more text, such as the standard library's: --set 'data.corpus=\"stdlib\"'",
    )
