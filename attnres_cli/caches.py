"""Where everything that can be made again is kept."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache_folder() -> Path:
    """$ATTNRES_CACHE, else attnres below $XDG_CACHE_HOME, else ~/.cache/attnres; need not exist yet."""
    if os.environ.get("ATTNRES_CACHE"):
        return Path(os.environ["ATTNRES_CACHE"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnres"
