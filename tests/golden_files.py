"""Expected outputs as text files in tests/golden/: readable in review, rewritten on purpose only.

`UPDATE_GOLDEN=1 pytest …` writes what the program prints now; look at the difference before keeping it.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Assert that `text` is exactly what tests/golden/<name> holds."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"there is no {path}; UPDATE_GOLDEN=1 writes it"
    assert text == path.read_text(encoding="utf-8")
