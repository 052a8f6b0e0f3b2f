"""Says in one sentence what is wrong with a preset, where, what would be right, and the nearest valid name.

pydantic finds all errors of a section at once but knows no lines and no other section; here its errors become faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from attnres_cli.errors import Fault, nearest_name
from attnres_cli.preset.fields import choices, is_list, type_words
from attnres_cli.preset.other_names import elsewhere, meant_name, not_here
from attnres_cli.preset.schema import SECTIONS, Complaint, Section
from attnres_cli.preset.toml import BareWord, format_key, format_value
from attnres_cli.preset.variants import VARIANTS, Members, all_models

Where = Callable[..., str | None]
"""A key of the section → "file:line" or the option that said it, None where nobody did; "" → the section's header.
Several keys → the places of those that somebody said, the uppermost layer's first."""

_KINDS = {
    bool: "true or false",
    int: "an integer",
    float: "a number with a fraction",
    str: "text",
    list: "a list",
    dict: "a table",
}


def unknown_section(name: str, where: str) -> Fault:
    """A section that there is not, or a key that stands above all sections."""
    home = next((section for section, model in SECTIONS.items() if name in model.model_fields), None)
    if home is not None:
        return Fault(f"The key '{name}' stands outside its section.", where, expected=f"{name} below [{home}]")
    return Fault(
        f"There is no section [{name}].",
        where,
        expected=not_here(name) or ", ".join(f"[{section}]" for section in SECTIONS),
        nearest=nearest_name(name, SECTIONS) or elsewhere(name),
    )


def not_a_section(name: str, where: str) -> Fault:
    """`train = 3`, where a table belongs."""
    return Fault(f"{name} is a section, not a key.", where, expected=f"[{name}], then lines key = value")


def missing_section(section: str, where: str) -> Fault:
    """A section with required keys that nobody wrote."""
    required = [key for key, field in SECTIONS[section].model_fields.items() if field.is_required()]
    return Fault(f"The section [{section}] is missing.", where, expected=f"[{section}] with {', '.join(required)}")


def unknown_member(what: str, name: Any, valid: Iterable[str], where: str | None) -> Fault:
    """A scheme, corpus, mixer or observer that there is not."""
    names = tuple(valid)
    return Fault(
        f"There is no {what} {format_value(name)}.",
        where,
        expected=", ".join(names),
        nearest=nearest_name(str(name), names),
    )


def unknown_key(section: str, key: str, model: type[Section] | None, where: str | None, members: Members) -> Fault:
    """A key that the section does not have; says where it belongs if another section, scheme or corpus has it.

    model: the section's form; None where nobody says which it is of, and none of them has the key.
    """
    home = _where_it_belongs(section, key, members) or not_here(key)
    nearest = meant_key(section, key, model, members)
    if nearest is None and home is None and (other := elsewhere(key)):
        home, nearest = f"{other.partition('.')[2]} below [{other.partition('.')[0]}]", other
    keys = ", ".join(model.model_fields) if model is not None else None  # of all forms together they are too many
    return Fault(
        f"[{section}] has no key '{key}'{_of_variant(section, model)}.",
        where,
        expected=home or (None if nearest else keys),
        nearest=nearest,
    )


def meant_key(section: str, key: str, model: type[Section] | None, members: Members) -> str | None:
    """The key of the section (of any form where `model` is None) that a misspelt one means; None where it is right
    somewhere else, or like none."""
    if _where_it_belongs(section, key, members):
        return None
    forms = [model] if model is not None else [SECTIONS[section], *all_models(section, members).values()]
    return meant_name(section, key, dict.fromkeys(known for form in forms for known in form.model_fields))


def section_faults(
    section: str,
    model: type[Section],
    error: ValidationError,
    values: Mapping[str, Any],
    where: Where,
    members: Members,
    *,
    partial: bool = False,
) -> list[Fault]:
    """All errors that pydantic found in one section, a fault each. partial: missing keys are no fault (an overlay)."""
    errors = error.errors(include_url=False)
    unknown = [str(each["loc"][0]) for each in errors if each["type"] == "extra_forbidden"]
    missing = [str(each["loc"][0]) for each in errors if each["type"] == "missing" and len(each["loc"]) == 1]
    misspelt = {meant_key(section, key, model, members) for key in unknown}
    faults = [unknown_key(section, key, model, where(key), members) for key in unknown]
    if not partial:  # a required key that was misspelt is one mistake, not two
        faults += [missing_key(section, key, model, where) for key in missing if key not in misspelt]
    for each in errors:
        if each["type"] not in ("extra_forbidden", "missing"):
            faults.append(_wrong_value(section, model, each, values, where))
    return faults


def complaint_fault(section: str, complaint: Complaint | Fault | tuple[Any, ...], where_of: Where) -> Fault:
    """What a check found, with its place; `where_of` takes "section.key"."""
    if isinstance(complaint, Fault):
        return Fault(
            complaint.what, where_of(complaint.where or section), complaint.expected, complaint.nearest, complaint.hint
        )
    key, message, expected, also = (*complaint, None, None)[:4]
    keys = [each if "." in each else f"{section}.{each}" for each in (key, *(also or ()))]
    return Fault(message, where_of(*keys), expected=expected)


def _where_it_belongs(section: str, key: str, members: Members) -> str | None:
    if key == "extends":
        return "extends above the first [section]"
    variant = VARIANTS.get(section)
    if variant is not None:
        owners = [name for name, model in all_models(section, members).items() if key in model.model_fields]
        if owners:
            return f"no such key, or {variant.key} = {' or '.join(map(format_value, owners))}, which has it"
    homes = [
        other
        for other in SECTIONS
        if other != section and any(key in model.model_fields for model in all_models(other, members).values())
    ]
    return f"{key} below {' or '.join(f'[{home}]' for home in homes)}" if homes else None


def _of_variant(section: str, model: type[Section] | None) -> str:
    variant = VARIANTS.get(section)
    if model is None:
        return f" with any {variant.key}" if variant is not None else ""
    names = choices(model.model_fields[variant.key]) if variant is not None else ()
    return f" with {variant.key} = {format_value(names[0])}" if variant is not None and names else ""


def missing_key(section: str, key: str, model: type[Section], where: Where) -> Fault:
    """A required key that nobody said."""
    field = model.model_fields[key]
    return Fault(
        f"[{section}] {key} is missing.", where(""), expected=f"{key} = {type_words(field)}; {field.description}"
    )


def _wrong_value(section: str, model: type[Section], error: Any, values: Mapping[str, Any], where: Where) -> Fault:
    if not error["loc"]:
        return _wrong_together(error, model, values, where)
    key = str(error["loc"][0])
    field, value = model.model_fields[key], values.get(key)
    if error["type"] in ("value_error", "assertion_error"):
        return Fault(_own_words(error), where(key), expected=type_words(field))
    if isinstance(value, BareWord) and not choices(field):
        return _bare_word(section, key, field, value, where)
    return Fault(
        f"[{section}] {key} = {format_value(value)} {_complaint(field, value, error)}.",
        where(key),
        expected=_expected(key, field, value),
        nearest=nearest_name(value, choices(field)) if isinstance(value, str) else None,
    )


def _bare_word(section: str, key: str, field: FieldInfo, word: str, where: Where) -> Fault:
    """A word without quotes for a key that takes no text."""
    hint = f"--set '{section}.{key}=[{format_value(str(word))}]'" if is_list(field) else None
    if word.lower() in ("true", "false", "yes", "no", "on", "off") and field.annotation is bool:
        hint = f"--set {section}.{key}={'true' if word.lower() in ('true', 'yes', 'on') else 'false'}"
    return Fault(f"'{word}' is not a TOML value.", where(key), expected=type_words(field), hint=hint)


def _wrong_together(error: Any, model: type[Section], values: Mapping[str, Any], where: Where) -> Fault:
    """What a model's own validator found about several keys: it is placed at all those named that somebody set."""
    message = _own_words(error)
    named = [word for word in re.findall(r"\w+", message) if word in model.model_fields]
    return Fault(message, where(*(word for word in named if word in values)))


def _own_words(error: Any) -> str:
    """The message that the model's own validator raised."""
    return str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ").rstrip(".") + "."


def _complaint(field: FieldInfo, value: Any, error: Any) -> str:
    kind = error["type"]
    if kind == "literal_error" and isinstance(value, str):
        return "is not a choice"
    if kind.startswith(("greater_than", "less_than", "finite", "multiple_of")):
        return "is out of range"
    if kind.startswith("too_"):
        return "has the wrong number of items"
    if kind.startswith("string_") and isinstance(value, str):
        return "is not valid"
    if is_list(field) and isinstance(value, list):
        return "has an item of the wrong kind"
    return f"is {_KINDS.get(type(value), 'of the wrong kind')}"


def _expected(key: str, field: FieldInfo, value: Any) -> str:
    if is_list(field) and isinstance(value, str):
        return f"a {type_words(field)}: {format_key(key)} = [{format_value(value)}]"
    if isinstance(value, str) and not choices(field) and field.annotation is not str and _is_number(value):
        return f"{type_words(field)}, without quotes: {key} = {value}"
    pattern = next((each for each in field.metadata if getattr(each, "pattern", None)), None)
    return f"{field.description}" if pattern else type_words(field)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
