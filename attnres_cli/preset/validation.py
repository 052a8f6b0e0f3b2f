"""From layers of plain values to validated sections, with every fault of every section found in one go."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from attnres_cli.errors import Fault
from attnres_cli.preset.checks import PartlyValid, check, unknown_members
from attnres_cli.preset.explain import (
    meant_key,
    missing_key,
    missing_section,
    section_faults,
    unknown_key,
    unknown_member,
)
from attnres_cli.preset.fields import accepts, is_list, marker
from attnres_cli.preset.layers import Layer, Stack, put_together
from attnres_cli.preset.schema import SECTIONS, DataConfig, FilePath, Section
from attnres_cli.preset.variants import VARIANTS, Members, all_models, section_model

Inputs = Callable[[DataConfig, Path], Iterable[tuple[str, Fault]]]
"""A [data] section and the folder of its relative paths → (key, fault) for what it names and is not there."""


@dataclass(frozen=True)
class Validated:
    """sections: the valid ones, all six where `faults` is empty. stack: what was said, and where."""

    sections: dict[str, Section]
    stack: Stack
    faults: list[Fault]


def validate(layers: Sequence[Layer], source: str, members: Members, found: Sequence[Fault] = ()) -> Validated:
    """The sections of a whole preset.

    source: where a missing section is reported. found: faults of reading the layers; they are part of the result.
    """
    faults = list(found)
    misspelt = {fault.nearest for fault in found}
    stack = put_together(layers, members, faults)
    sections: dict[str, Section | PartlyValid] = {}
    for name, common in SECTIONS.items():
        needs_something = any(field.is_required() for field in common.model_fields.values())
        if name not in stack.values and needs_something:
            faults += [missing_section(name, source)] if name not in misspelt else []
            continue
        values = stack.values.setdefault(name, {})
        model = section_model(name, values, members)
        if model is None:
            faults += _formless(name, stack, members)
            continue
        _make_paths_whole(name, model, stack)
        sections[name] = _section(name, model, values, stack, members, faults)
    faults += check(sections, partial(_where_or_section, stack))
    valid = {name: section for name, section in sections.items() if isinstance(section, Section)}
    return Validated(valid, stack, in_reading_order(faults))


def input_faults(inputs: Inputs | None, data: Section | None, stack: Stack, folder: Path) -> list[Fault]:
    """What `inputs` finds missing, each at the line or option that names it; nothing where [data] itself is wrong.

    data: the valid section, None where it is not. folder: where relative paths start that no file said.
    """
    if inputs is None or not isinstance(data, DataConfig):
        return []
    found = [(key, _looked_for_everywhere(fault, key, stack, folder)) for key, fault in inputs(data, folder)]
    return [placed(fault, _where(stack, "data", key)) for key, fault in found]


def _looked_for_everywhere(fault: Fault, key: str, stack: Stack, folder: Path) -> Fault:
    """`fault` with every place where its file was looked for: what may be a name or a path is looked for in the folder
    of whoever said it, too (`_whole_path`)."""
    value, said_in = stack.values.get("data", {}).get(key), stack.folders.get(f"data.{key}")
    if not isinstance(value, str) or said_in is None or fault.where != str(folder / Path(value).expanduser()):
        return fault
    places = dict.fromkeys(str(each / Path(value).expanduser()) for each in (said_in, folder))
    return replace(fault, where=" and ".join(places))


def placed(fault: Fault, where: str | None) -> Fault:
    """`fault` at the place that names what is missing; where that was looked for is kept."""
    if where is None or fault.where is None:
        return replace(fault, where=where or fault.where)
    return replace(fault, where=where, expected="; ".join(filter(None, [fault.expected, f"looked in {fault.where}"])))


def overlay_faults(layers: Sequence[Layer], members: Members) -> list[Fault]:
    """What is wrong with an overlay whatever it is put on: unknown keys, wrong values; missing keys are right."""
    faults: list[Fault] = []
    stack = put_together(layers, members, faults, partial=True)
    for name, values in stack.values.items():
        model = section_model(name, values, members)
        if model is not None:
            faults += _partial_faults(name, model, values, stack, members)
        elif VARIANTS[name].key in values:
            faults += _formless(name, stack, members)
        else:
            faults += _faults_of_the_likeliest_form(name, stack, members)
    return in_reading_order(faults)


def data_of_overlay(layers: Sequence[Layer], members: Members) -> tuple[Section | None, Stack]:
    """The [data] section of an overlay where it stands by itself, else None; and who says what."""
    stack = put_together(layers, members, [], partial=True)
    model = section_model("data", stack.values.get("data", {}), members)
    if model is None:
        return None, stack
    _make_paths_whole("data", model, stack)
    try:
        return _validated(model, stack.values["data"]), stack
    except ValidationError:
        return None, stack


def _formless(name: str, stack: Stack, members: Members) -> list[Fault]:
    """What is wrong with a section whose scheme or corpus is not known: that, the keys that none of them has, and the
    values that none of those takes which have the key."""
    variant, forms = VARIANTS[name], all_models(name, members).values()
    faults = _in_no_form(name, stack, members)
    for key, value in stack.values[name].items():
        owners = [form for form in forms if key in form.model_fields] if key != variant.key else []
        found = [_partial_faults(name, form, {key: value}, stack, members) for form in owners]
        faults += _fewest(found)
    if variant.key in stack.values[name] or all(fault.nearest != variant.key for fault in faults):
        faults.insert(0, _no_variant(name, stack, members))  # where its key is misspelt, it is not missing besides
    return faults


def _faults_of_the_likeliest_form(name: str, stack: Stack, members: Members) -> list[Fault]:
    """What is wrong with an overlay's section that leaves its scheme or corpus to the preset below: keys that none of
    them has, and the faults of the one that the others fit best."""
    forms = list(all_models(name, members).values())
    known = {key: value for key, value in stack.values[name].items() if any(key in form.model_fields for form in forms)}
    found = [_partial_faults(name, form, known, stack, members) for form in forms]
    return [*_in_no_form(name, stack, members), *_fewest(found)]


def _fewest(found: Sequence[list[Fault]]) -> list[Fault]:
    return min(found, key=lambda each: len(each), default=[])


def _in_no_form(name: str, stack: Stack, members: Members) -> list[Fault]:
    """The keys of a section that no scheme or corpus has."""
    forms = [SECTIONS[name], *all_models(name, members).values()]
    strange = [key for key in stack.values[name] if not any(key in form.model_fields for form in forms)]
    return [unknown_key(name, key, None, _where(stack, name, key), members) for key in strange]


def _partial_faults(
    name: str, model: type[Section], values: Mapping[str, Any], stack: Stack, members: Members
) -> list[Fault]:
    where = partial(_where, stack, name)
    faults = list(unknown_members(name, model, values, where, members))
    try:
        _validated(model, values)
    except ValidationError as error:
        faults += section_faults(name, model, error, values, where, members, partial=True)
    return faults


def _section(
    name: str, model: type[Section], values: Mapping[str, Any], stack: Stack, members: Members, faults: list[Fault]
) -> Section | PartlyValid:
    where = partial(_where, stack, name)
    faults += unknown_members(name, model, values, where, members)
    try:
        return _validated(model, values)
    except ValidationError as error:
        faults += section_faults(name, model, error, values, where, members)
        return PartlyValid(model, values, _wrong_keys(name, model, error, members))


def _wrong_keys(section: str, model: type[Section], error: ValidationError, members: Members) -> frozenset[str]:
    """Keys whose values say nothing: wrong, missing, or meant by a misspelt one; all where they are wrong together."""
    locations = [each["loc"] for each in error.errors(include_url=False)]
    if () in locations:
        return frozenset(model.model_fields)
    named = {str(location[0]) for location in locations}
    meant = {meant_key(section, key, model, members) for key in named if key not in model.model_fields}
    return frozenset(key for key in {*named, *meant} if key is not None)


def _validated(model: type[Section], values: Mapping[str, Any]) -> Section:
    """Types are taken as TOML has them (no "64" for 64), except that 1e6 is a whole number, too.

    Through JSON, because there pydantic's strict mode takes arrays for tuples.
    """
    plain = {key: _whole(model, key, value) for key, value in values.items()}
    return model.model_validate_json(json.dumps(plain, default=lambda date: {"date": str(date)}), strict=True)


def _whole(model: type[Section], key: str, value: Any) -> Any:
    field = model.model_fields.get(key)
    whole = isinstance(value, float) and value.is_integer()
    if whole and field is not None and accepts(field, int) and not accepts(field, float):
        return int(value)
    return value


def _make_paths_whole(name: str, model: type[Section], stack: Stack) -> None:
    """A relative path means the folder of the file that says it, wherever the resolved preset is read from later."""
    values = stack.values[name]
    for key, field in model.model_fields.items():
        path = marker(field, FilePath)
        if path is None or key not in values:
            continue
        value, folder = values[key], stack.folders[f"{name}.{key}"]
        if isinstance(value, list) and is_list(field):
            values[key] = [_whole_path(each, folder, path) for each in value]
        elif isinstance(value, str) and not is_list(field):
            values[key] = _whole_path(value, folder, path)


def _whole_path(value: Any, folder: Path, path: FilePath) -> Any:
    if not isinstance(value, str) or not value:
        return value
    whole = folder / Path(value).expanduser()
    if path.if_exists:
        is_name = len(Path(value).parts) == 1 and not Path(value).suffix  # a file called "bytes" changes nothing
        return str(whole) if whole.is_file() and not is_name else value
    if glob.has_magic(value) and not whole.is_file():  # what looks like a pattern in the folder's own name is none
        return str(Path(glob.escape(str(folder))) / Path(value).expanduser())
    return str(whole)


def _no_variant(name: str, stack: Stack, members: Members) -> Fault:
    variant = VARIANTS[name]
    if variant.key not in stack.values[name]:
        return missing_key(name, variant.key, SECTIONS[name], partial(_where, stack, name))
    valid = members.names(variant.package)
    return unknown_member(variant.what, stack.values[name][variant.key], valid, stack.where(f"{name}.{variant.key}"))


def _where(stack: Stack, section: str, *keys: str) -> str | None:
    """The origins of keys of `section`; of the section's header for none or "", and for keys that nobody said."""
    return _where_or_section(stack, *(f"{section}.{key}" for key in keys)) or stack.where(section)


def _where_or_section(stack: Stack, *names: str) -> str | None:
    """The origins of any keys, "section.key" each; of the first one's section where nobody said any."""
    return stack.where_together(names) or next((stack.where(name.partition(".")[0]) for name in names), None)


def in_reading_order(faults: Sequence[Fault]) -> list[Fault]:
    """Sorted by file (in the order they appear) and line, each once."""
    unique = list(dict.fromkeys(faults))
    first = [(fault.where or "").partition(", ")[0] for fault in unique]  # of several places
    places = [re.fullmatch(r"(.*?)(?::(\d+))?", where, re.DOTALL) for where in first]
    sources = list(dict.fromkeys(place[1] for place in places if place))
    order = {
        fault: (sources.index(place[1]), int(place[2] or 0))
        for fault, place in zip(unique, places, strict=True)
        if place
    }
    return sorted(unique, key=order.__getitem__)
