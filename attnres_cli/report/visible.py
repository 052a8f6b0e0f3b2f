"""Names come from users and file systems: here they become text that a terminal, a file or a page shows as it is."""

from __future__ import annotations


def visible(text: object) -> str:
    """`text` with every invisible or control character (escape sequences, newlines) written out as an escape.

    A run called "\\x1b[2J" must not clear the screen.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in _encodable(str(text))
    )


def _encodable(text: str) -> str:
    """File names may hold bytes that are no UTF-8; Python keeps them as lone surrogates, which cannot be written."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
