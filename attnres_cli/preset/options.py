"""The command line's part of a preset: `--residual SCHEME`, `--set section.key=value`, options that stand for a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnres_cli.errors import Fault
from attnres_cli.preset.explain import unknown_section
from attnres_cli.preset.layers import Layer, Origin
from attnres_cli.preset.other_names import elsewhere, meant_name, not_here
from attnres_cli.preset.schema import SECTIONS
from attnres_cli.preset.toml import BareWord, parse_value
from attnres_cli.preset.variants import VARIANTS


def residual_layer(scheme: str) -> Layer:
    """`--residual`: the whole [residual] section becomes this scheme's defaults."""
    origin, key = Origin(f"--residual {scheme}"), VARIANTS["residual"].key
    origins = {"residual": origin, f"residual.{key}": origin}
    return Layer({"residual": {key: scheme}}, origins, Path.cwd(), replaces=frozenset({"residual"}))


def set_layer(assignments: Sequence[str], faults: list[Fault]) -> Layer:
    """`--set`, all of them as one layer, the last one of a key wins; malformed ones are added to `faults`."""
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, Origin] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        section, dot, key = name.strip().partition(".")
        origin = Origin(f"--set {assignment}")
        if not (equals and dot and key and text.strip()):
            faults.append(_malformed(assignment, section, text, str(origin)))
        elif section not in SECTIONS:
            faults.append(unknown_section(section, str(origin)))
        elif (value := _value(text.strip())) is _INVALID:
            faults.append(Fault(f"{text.strip()} is not a TOML value.", str(origin), expected=_QUOTING))
        else:
            values.setdefault(section, {})[key] = value
            origins[f"{section}.{key}"] = origins[section] = origin
    return Layer(values, origins, Path.cwd())


@dataclass(frozen=True)
class Given:
    """An option that stands for one key, such as --seed for train.seed. option: as typed; key: "section.key"."""

    option: str
    key: str
    value: Any


def given_layer(options: Sequence[Given]) -> Layer:
    """The keys that options of their own stand for."""
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, Origin] = {}
    for each in options:
        section, _, key = each.key.partition(".")
        values.setdefault(section, {})[key] = each.value
        origins[each.key] = origins[section] = Origin(each.option)
    return Layer(values, origins, Path.cwd())


_INVALID = object()
_QUOTING = """a TOML value, in single quotes for the shell: 64, 1e-3, true, '"text"', '["a", "b"]'"""


def _value(text: str) -> Any:
    """The TOML value, the text itself where it is a plain word, _INVALID for what begins like a value and is none."""
    try:
        return parse_value(text)
    except ValueError:
        return _INVALID if text[0] in "\"'[{" or "\n" in text else BareWord(text)


def _malformed(assignment: str, section: str, text: str, where: str) -> Fault:
    name = assignment.partition("=")[0].strip()
    home = next((each for each, model in SECTIONS.items() if name in model.model_fields), None)
    right = f"--set {home or 'section'}.{name if home else 'key'}={text.strip() or 'VALUE'}"
    if section in SECTIONS and "." in name and not text.strip():
        right = f"--set {name}=VALUE"
    nearest = None
    if "." not in name and home is None:
        every_key = {key: each for each, model in SECTIONS.items() for key in model.model_fields}
        key = meant_name("", name, every_key)
        nearest = elsewhere(name) or (f"{every_key[key]}.{key}" if key else None)
        right = not_here(name) or right
    return Fault("--set takes section.key=value.", where, expected=right, nearest=nearest)
