"""What `attnres doctor` says of one thing that it looks at.

A finding is "broken" only where training or comparing cannot work; whatever merely costs time or a choice is a "note".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "broken"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. advice: what to do about it, None where there is nothing to do."""

    name: str
    status: Status
    text: str
    advice: str | None = None
