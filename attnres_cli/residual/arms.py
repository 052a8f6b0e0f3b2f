"""Which schemes a command compares by default: data (arms.toml), so that no code outside this room names a scheme."""

from __future__ import annotations

import tomllib
from pathlib import Path

ARMS_FILE = Path(__file__).with_name("arms.toml")
# What the others are measured against, and what many of them equal before the first step.
BASELINE: str = tomllib.loads(ARMS_FILE.read_text(encoding="utf-8"))["baseline"]


def default_arms(command: str) -> tuple[str, ...]:
    """Scheme names that `command` ("demo", "sweep", "verify", …) puts side by side, the baseline first."""
    arms: list[str] = tomllib.loads(ARMS_FILE.read_text(encoding="utf-8"))[command]
    return tuple(arms)
