"""What the schema says about one key, in words: its type, its default, and the comment line that presets carry."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from attnres_cli.preset.schema import OnlyWith, Section
from attnres_cli.preset.toml import format_value

_NAMES = {int: "integer", float: "number", str: "string", bool: "true or false"}
_BOUNDS = (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))

Marker = TypeVar("Marker")


def type_words(field: FieldInfo) -> str:
    """The type of a key for people: `integer > 0`, `"cosine" or "wsd"`, `list of strings`."""
    return _words(field.annotation, field.metadata)


def comment(field: FieldInfo) -> str:
    """The comment line of a key: what it means with its unit, then type, default and condition."""
    if field.is_required():
        default = "required"
    elif field.default is None:
        default = "optional"
    else:
        default = f"default {format_value(field.default)}"
    condition = marker(field, OnlyWith)
    parts = [type_words(field), default, *([str(condition)] if condition else [])]
    return f"# {field.description} ({', '.join(parts)})"


def marker(field: FieldInfo, kind: type[Marker]) -> Marker | None:
    """The marker of this kind in the key's annotation, or None."""
    for each in field.metadata:  # asked a hundred times per preset; a generator would take twice as long
        if isinstance(each, kind):
            return each
    return None


def accepts(field: FieldInfo, kind: type) -> bool:
    """Whether a value of type `kind` (str, int, …) can be right for the key (a choice of strings accepts strings)."""
    return any(part is kind or (get_origin(part) is Literal and kind is str) for part in _parts(field.annotation))


def choices(field: FieldInfo) -> tuple[str, ...]:
    """The strings to choose from, empty where the key is no choice."""
    return tuple(
        choice
        for part in _parts(field.annotation)
        if get_origin(part) is Literal
        for choice in get_args(part)
        if isinstance(choice, str)
    )


def is_list(field: FieldInfo) -> bool:
    """Whether the key takes a TOML array."""
    return any(get_origin(part) in (tuple, list) or part in (tuple, list) for part in _parts(field.annotation))


def is_read(section: Section, key: str) -> bool:
    """Whether the key does anything, given the other values of its section: its condition holds, and the key that it
    depends on is read itself."""
    if key in section.ignored_keys:
        return False
    condition = marker(type(section).model_fields[key], OnlyWith)
    if condition is None:
        return True
    return condition.holds(getattr(section, condition.key)) and is_read(section, condition.key)


def value_in_effect(section: Section, key: str) -> Any:
    """The value of a key, derived (`resolved_<key>`) where it was left out; None where nothing stands for it."""
    value = getattr(section, key)
    return getattr(section, f"resolved_{key}", None) if value is None else value


def _parts(annotation: Any) -> list[Any]:
    """The alternatives of a union, without None and without what Annotated adds."""
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [part for each in get_args(annotation) for part in _parts(each)]
    return [] if annotation is type(None) else [annotation]


def _words(annotation: Any, metadata: list[Any]) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = [
            each for extra in arguments[1:] for each in (extra.metadata if isinstance(extra, FieldInfo) else [extra])
        ]
        return _words(arguments[0], [*inner, *metadata])
    if origin in (Union, UnionType):
        return " or ".join(_words(each, metadata) for each in arguments if each is not type(None))
    if origin is Literal:
        *others, last = (format_value(choice) for choice in arguments)
        return f"{', '.join(others)} or {last}" if others else last
    if origin in (tuple, list):
        return f"list of {_plural(_words(arguments[0], []))}"
    name = _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))
    bounds = [
        f"{sign} {getattr(each, name_of)}" for name_of, sign in _BOUNDS for each in metadata if hasattr(each, name_of)
    ]
    return " ".join([name, ", ".join(bounds)]).strip()


def _plural(words: str) -> str:
    head, space, rest = words.partition(" ")
    return f"{head}s{space}{rest}" if head in ("integer", "number", "string") else words
