"""Bytes that are not UTF-8: replaced and counted, or refused, before anything else sees the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from attnres_cli.data.documents import Document
from attnres_cli.errors import UserError

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_REPLACEMENT_BYTES = _REPLACEMENT.encode()


@dataclass(frozen=True)
class CleanText:
    """A document's text as valid UTF-8. replaced_bytes: how many bytes of the original were not."""

    name: str
    content: bytes
    replaced_bytes: int


def clean(documents: Iterable[Document], policy: Literal["replace", "strict"]) -> Iterator[CleanText]:
    """The documents' texts as valid UTF-8; line ends and everything else stay as they are.

    Raises UserError naming the file and the byte offset under the policy "strict".
    """
    for document in documents:
        try:
            if not document.text.isascii():
                document.text.decode("utf-8")
            yield CleanText(document.name, document.text, 0)
        except UnicodeDecodeError as error:
            if policy == "strict":
                raise _refusal(document, error) from error
            yield _replace(document)


def _replace(document: Document) -> CleanText:
    text = document.text.decode("utf-8", errors="replace")
    utf8 = text.encode("utf-8")
    # Each undecodable run became one replacement character of three bytes; those that were in the original don't count.
    inserted = text.count(_REPLACEMENT) - document.text.count(_REPLACEMENT_BYTES)
    kept_bytes = len(utf8) - len(_REPLACEMENT_BYTES) * inserted
    return CleanText(document.name, utf8, len(document.text) - kept_bytes)


def _refusal(document: Document, error: UnicodeDecodeError) -> UserError:
    shown = " ".join(f"{byte:02x}" for byte in document.text[error.start : error.end])
    return UserError(
        f"{document.name} is not UTF-8: byte {shown} at offset {error.start}.",
        where=document.name,
        expected='UTF-8 text, because data.undecodable = "strict"',
        hint="--set data.undecodable='\"replace\"'",
    )
