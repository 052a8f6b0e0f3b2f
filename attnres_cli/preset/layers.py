"""Presets are put on top of one another, key by key; this file says what that means.

A layer is one file, one overlay, or the options of the command line. A later layer's key replaces an earlier one's, and
three rules keep any layer usable on any other:

- A layer that names another scheme or corpus starts its keys anew: those of the former one are dropped.
- Where two keys exclude each other (`Section.exclusive_keys`), the later layer's replaces the earlier one's.
- A key that has become meaningless because a *later* layer changed what it depends on (`OnlyWith`, `ignored_keys`) is
  dropped. In the same layer it is an error: the user set something that does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnres_cli.errors import Fault
from attnres_cli.preset.explain import unknown_key, unknown_member
from attnres_cli.preset.fields import choices, marker
from attnres_cli.preset.schema import SECTIONS, OnlyWith, Section
from attnres_cli.preset.toml import format_value
from attnres_cli.preset.variants import VARIANTS, Members, Variant, all_models, section_model


@dataclass(frozen=True)
class Origin:
    """Where a value was said: a file (as the user would type it) and its line, or an option as typed."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


DEFAULT = Origin("default")


@dataclass(frozen=True)
class Layer:
    """The sections and keys that one source says.

    values: section → key → value. origins: by "section.key" and "section". folder: where relative paths in it start.
    replaces: sections of which nothing is kept from the layers below.
    """

    values: Mapping[str, Mapping[str, Any]]
    origins: Mapping[str, Origin]
    folder: Path
    replaces: frozenset[str] = frozenset()


@dataclass
class Stack:
    """All layers as one: what is said in the end, and by whom.

    values: section → key → value, only what somebody said. origins: "section.key" and "section" → where. ranks:
    "section.key" → index of the layer that said it. folders: "section.key" → where a relative path in it starts.
    """

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)

    def put(self, section: str, key: str, value: Any, layer: Layer, rank: int) -> None:
        """Say one key; it replaces what was said before."""
        name = f"{section}.{key}"
        self.values[section][key] = value
        self.origins[name] = layer.origins[name]
        self.ranks[name] = rank
        self.folders[name] = layer.folder

    def drop(self, section: str, keys: Iterable[str]) -> None:
        """Take back what was said about these keys."""
        for key in keys:
            name = f"{section}.{key}"
            del self.values[section][key], self.origins[name], self.ranks[name], self.folders[name]

    def where(self, name: str) -> str | None:
        """The origin of "section.key" in words, None where nobody said it."""
        return str(self.origins[name]) if name in self.origins else None

    def where_together(self, names: Iterable[str]) -> str | None:
        """The origins of several "section.key" in words, what the user put on top first; None where nobody said any."""
        said = [name for name in dict.fromkeys(names) if name in self.ranks]
        said.sort(key=lambda name: -self.ranks[name])
        return ", ".join(dict.fromkeys(str(self.origins[name]) for name in said)) or None

    def rank(self, section: str, key: str) -> int:
        """The layer that said the key; -1 where nobody did."""
        return self.ranks.get(f"{section}.{key}", -1)


def put_together(layers: Sequence[Layer], members: Members, faults: list[Fault], *, partial: bool = False) -> Stack:
    """The layers, the first one lowest, as one stack; what is wrong with that is added to `faults`.

    partial: the layers are an overlay, which may depend on keys that the preset below it will say.
    """
    stack = Stack()
    for rank, layer in enumerate(layers):
        for section, values in layer.values.items():
            _put_section(stack, section, values, layer, rank, members, faults)
    for section, values in stack.values.items():
        model = section_model(section, values, members)
        if model is not None:
            _settle_exclusive(stack, section, model, faults)
            _settle_without_effect(stack, section, model, faults, partial)
    return stack


def _put_section(
    stack: Stack,
    section: str,
    values: Mapping[str, Any],
    layer: Layer,
    rank: int,
    members: Members,
    faults: list[Fault],
) -> None:
    kept = stack.values.setdefault(section, {})
    if section in layer.replaces:
        stack.drop(section, list(kept))
    if section not in stack.origins or layer.origins[section].line is not None:  # a file's header rather than an option
        stack.origins[section] = layer.origins[section]
    variant = VARIANTS.get(section)
    if variant is not None and variant.key in kept and variant.key in values:
        _change_variant(stack, variant, values[variant.key], members, faults)
    for key, value in values.items():
        stack.put(section, key, value, layer, rank)


def _change_variant(stack: Stack, variant: Variant, name: Any, members: Members, faults: list[Fault]) -> None:
    """Drop what the layers below said for another scheme or corpus; what that one did not know is still a fault."""
    section, kept = variant.section, stack.values[variant.section]
    former_name = kept[variant.key]
    if former_name == name:
        return
    former, new = variant.model(former_name, members), variant.model(name, members)
    if former is None:
        where = stack.where(f"{section}.{variant.key}")
        faults.append(unknown_member(variant.what, former_name, members.names(variant.package), where))
    forms = all_models(section, members).values() if former is None else [former]
    unknown = [key for key in kept if not any(key in form.model_fields for form in forms)]
    faults += [unknown_key(section, key, former, stack.where(f"{section}.{key}"), members) for key in unknown]
    own = set().union(*(variant.own_keys(model) for model in (former, new) if model is not None))
    stack.drop(section, [key for key in kept if key in own or key not in SECTIONS[section].model_fields])


def _settle_exclusive(stack: Stack, section: str, model: type[Section], faults: list[Fault]) -> None:
    for group in model.exclusive_keys:
        said = [key for key in group if key in stack.values[section]]
        newest = max((stack.rank(section, key) for key in said), default=-1)
        stack.drop(section, [key for key in said if stack.rank(section, key) < newest])
        rivals = [key for key in said if key in stack.values[section]]
        if len(rivals) > 1:
            faults.append(
                Fault(
                    f"[{section}] {' and '.join(rivals)} exclude each other.",
                    ", ".join(str(stack.where(f"{section}.{key}")) for key in rivals),
                    expected=f"{' or '.join(rivals)}, not both",
                )
            )
            stack.drop(section, rivals[1:])


def _settle_without_effect(
    stack: Stack, section: str, model: type[Section], faults: list[Fault], partial: bool
) -> None:
    said = stack.values[section]
    for key, info in model.model_fields.items():
        condition = marker(info, OnlyWith)
        if key not in said or condition is None:
            continue
        above = marker(model.model_fields[condition.key], OnlyWith)
        while above is not None:
            if not above.holds(said.get(above.key, model.model_fields[above.key].default)):
                condition = above  # a key that it depends on is not read itself
            above = marker(model.model_fields[above.key], OnlyWith)
        if partial and condition.key not in said:
            continue
        control = model.model_fields[condition.key]
        value = said.get(condition.key, control.default)
        if condition.holds(value) or (choices(control) and value not in choices(control)):  # an error of its own
            continue
        because = f"it is read {condition}; {condition.key} is {format_value(value)}"
        if not condition.values:
            because = f"{condition.key} is empty"
        _drop_or_complain(stack, section, key, condition.key, because, faults)
    variant = VARIANTS.get(section)
    if variant is not None:
        because = f"{variant.key} = {format_value(said.get(variant.key))} does not read it"
        for key in [key for key in model.ignored_keys if key in said]:
            _drop_or_complain(stack, section, key, variant.key, because, faults)


def _drop_or_complain(stack: Stack, section: str, key: str, control: str, because: str, faults: list[Fault]) -> None:
    if stack.rank(section, control) <= stack.rank(section, key):
        where_control = stack.where(f"{section}.{control}")
        said_by = f" ({where_control})" if where_control else " (the default)"
        faults.append(
            Fault(
                f"[{section}] {key} does nothing here: {because}{said_by}.",
                stack.where(f"{section}.{key}"),
                expected=f"no {key}, or another {control}",
            )
        )
    stack.drop(section, [key])
