"""Where the files that come with the program are: in the wheel beside the code, in a clone at its top."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).parent


def shipped_folder(name: Literal["presets", "data_samples"]) -> Path:
    """The folder of built-in presets or data samples, whichever way the program was installed."""
    in_wheel = _PACKAGE / "shipped_files" / name
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / name
