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
    """Lone surrogates cannot be written: Python keeps bytes of a file name that are no UTF-8 so; JSON may hold any."""
    return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
