"""What differs between two presets, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnres_cli.preset.fields import is_read, value_in_effect
from attnres_cli.preset.preset import Preset


@dataclass(frozen=True)
class Difference:
    """One key, "section.key", with its value in either preset: the one in effect, None where the key does nothing."""

    key: str
    first: Any
    second: Any


def differences(first: Preset, second: Preset) -> list[Difference]:
    """The keys whose resolved values differ, in the order of the file."""
    one, other = _by_key(first), _by_key(second)
    sections = list(first.sections)
    in_order = sorted(
        {**one, **other}, key=lambda key: sections.index(key.partition(".")[0])
    )  # stable: keys keep theirs
    differing = [key for key in in_order if one.get(key) != other.get(key)]
    return [Difference(key, _in_effect(first, key, one), _in_effect(second, key, other)) for key in differing]


def _in_effect(preset: Preset, name: str, values: dict[str, Any]) -> Any:
    """The value of a key; what it is derived to be where it was left out."""
    section_name, _, key = name.partition(".")
    section = preset.sections[section_name]
    if name in values or key not in type(section).model_fields or not is_read(section, key):
        return values.get(name)
    return value_in_effect(section, key)


def _by_key(preset: Preset) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, values in preset.to_dict().items() for key, value in values.items()}
