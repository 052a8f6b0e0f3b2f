"""One sentence to the user from deep inside, such as "building … (once)", while it happens."""

from __future__ import annotations

import sys


def notify(sentence: str) -> None:
    """To stderr: results on stdout stay clean."""
    print(sentence, file=sys.stderr, flush=True)
