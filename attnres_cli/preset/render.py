"""A preset as text: every key with the comment that the schema gives it.

The shipped presets carry the same comments. After a description in the schema has changed,

    python -m attnres_cli.preset.render presets/*.toml presets/overlays/*.toml presets/ablations/*.toml

writes the new ones into the files; nothing else in them is touched.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnres_cli.preset.fields import comment, is_read, value_in_effect
from attnres_cli.preset.positions import key_lines
from attnres_cli.preset.schema import SECTIONS, Section
from attnres_cli.preset.toml import format_value, parse
from attnres_cli.preset.variants import PROGRAM, VARIANTS, Members, all_models

# "# … (TYPE, required|optional|default …)": the form of a comment that the schema gives.
_SCHEMA_COMMENT = re.compile(r"^# .*\(.*\b(required|optional|default\b.*)(, only with .*)?\)$")


def plain_values(section: Section) -> dict[str, Any]:
    """The section as TOML can hold it: every key that is set or has a default and does something."""
    dumped = section.model_dump(mode="json")
    return {key: value for key, value in dumped.items() if value is not None and is_read(section, key)}


def render(sections: Mapping[str, Section]) -> str:
    """The sections as a commented TOML document; a key that is left out stands there as a comment."""
    return "\n".join(
        "\n".join([f"[{name}]", *(line for key in type(section).model_fields for line in _key(name, section, key))])
        + "\n"
        for name, section in sections.items()
    )


@functools.cache
def key_comment(section: str, key: str, model: type[Section]) -> str:
    """The comment line of `section.key`. The key that names the variant has the same one with every variant."""
    variant = VARIANTS.get(section)
    described_by = SECTIONS[section] if variant is not None and key == variant.key else model
    return comment(described_by.model_fields[key])


def _key(name: str, section: Section, key: str) -> list[str]:
    if key in section.ignored_keys:
        return []
    value = value_in_effect(section, key)
    said = getattr(section, key) is not None and is_read(section, key)
    line = f"{key} = {'' if value is None else format_value(value)}".rstrip()
    return [key_comment(name, key, type(section)), line if said else f"# {line}"]


def refresh_comments(text: str, members: Members = PROGRAM) -> str:
    """`text`, a preset file, with the schema's comment above every key; other comments stay as they are."""
    document = parse(text, "preset")
    lines = text.split("\n")
    for path, number in sorted(key_lines(text).items(), key=lambda item: -item[1]):  # from below: lines above stay put
        if len(path) != 2 or path[0] not in SECTIONS:
            continue
        section, key = str(path[0]), str(path[1])
        model = _model_with(section, key, document[section], members)
        if model is not None:
            above = number - 2
            replaced = 1 if above >= 0 and _SCHEMA_COMMENT.match(lines[above].rstrip()) else 0
            lines[number - 1 - replaced : number - 1] = [key_comment(section, key, model)]
    return "\n".join(lines)


def _model_with(section: str, key: str, values: Mapping[str, Any], members: Members) -> type[Section] | None:
    """A model of the section that has the key; an overlay need not say of which variant it is."""
    models = all_models(section, members)
    variant = VARIANTS.get(section)
    named = models.get(values.get(variant.key, "")) if variant is not None else None
    return next((model for model in [named, *models.values()] if model is not None and key in model.model_fields), None)


def main() -> None:
    """Refresh the comments of the preset files named on the command line."""
    for name in sys.argv[1:]:
        path = Path(name)
        text = path.read_text(encoding="utf-8")
        refreshed = refresh_comments(text)
        if refreshed != text:
            path.write_text(refreshed, encoding="utf-8")
            print(f"{name}: comments refreshed")


if __name__ == "__main__":
    main()
