"""Values of presets and manifests as people read them in a list of differences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attnres_cli.report.table import ABSENT

HASH_DIGITS = 12


def spelt_out(value: Any) -> str:
    """One value in one line: TOML's spelling of truth values, digests shortened, "—" for one that is not recorded."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, str):
        return value[:HASH_DIGITS] + "…" if re.fullmatch(r"(sha256:)?[0-9a-f]{32,}", value) else value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {spelt_out(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(spelt_out, value)) + "]"
    return str(value)
