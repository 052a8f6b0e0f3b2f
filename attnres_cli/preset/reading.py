"""Read a preset: its file, the files that it extends, overlays, and the options of the command line, in this order.

extends chain → --overlay (in order) → --residual → --set (in order)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnres_cli.errors import Fault, UserError
from attnres_cli.preset.catalogue import Kind, find, is_path, names, no_such_file, shown
from attnres_cli.preset.explain import not_a_section, unknown_section
from attnres_cli.preset.layers import Layer, Origin
from attnres_cli.preset.options import residual_layer, set_layer
from attnres_cli.preset.positions import key_lines
from attnres_cli.preset.preset import Preset, build, plain_layer
from attnres_cli.preset.schema import SECTIONS
from attnres_cli.preset.toml import parse, read_text
from attnres_cli.preset.validation import overlay_faults, validate
from attnres_cli.preset.variants import PROGRAM, Members

__all__ = ["Checked", "Preset", "check_file", "load_preset", "preset_from_dict"]


def load_preset(
    ref: str | Path,
    *,
    overlays: Sequence[str] = (),
    residual: str | None = None,
    sets: Sequence[str] = (),
    members: Members = PROGRAM,
) -> Preset:
    """The preset of this name or path, and on top of it overlays (names or paths), a scheme's defaults, assignments.

    Raises one UserError with every fault that was found, each with its file and line or the option that caused it.
    """
    faults: list[Fault] = []
    notes: list[str] = []
    chain = _read_chain(ref, "preset", faults, notes)
    file = chain[-1]
    layers = [each.layer for each in chain]
    if not faults and not _is_whole(layers):
        raise UserError(
            f"{file.shown} is no whole preset: it has no [model].",
            where=file.shown,
            expected="a preset; this one can be put on one as an overlay",
            hint=f"cpu-small --overlay {ref}",
        )
    for overlay in overlays:
        layers += [each.layer for each in _read_chain(overlay, "overlay", faults, notes)]
    if residual is not None:
        layers.append(residual_layer(residual))
    if sets:
        layers.append(set_layer(sets, faults))
    return build(
        layers,
        faults,
        name=file.path.stem,
        source=file.shown,
        source_path=file.path,
        source_text=file.text,
        source_folder=file.path.parent,
        notes=tuple(notes),
        members=members,
    )


def preset_from_dict(
    values: Mapping[str, Mapping[str, Any]], name: str, *, source_text: str = "", members: Members = PROGRAM
) -> Preset:
    """The preset that `values` (section → key → value; None: left out) say. Raises UserError.

    source_text: the file that the values come from, as its user wrote it, where there is one.
    """
    said = {section: {key: each for key, each in keys.items() if each is not None} for section, keys in values.items()}
    faults = [unknown_section(section, name) for section in said if section not in SECTIONS]
    layer = plain_layer({section: keys for section, keys in said.items() if section in SECTIONS}, name, Path.cwd())
    return build(
        [layer],
        faults,
        name=name,
        source=name,
        source_path=None,
        source_text=source_text,
        source_folder=Path.cwd(),
        members=members,
    )


@dataclass(frozen=True)
class Checked:
    """What checking one file found. kind: whether it was judged as a whole preset or as an overlay."""

    name: str
    kind: Kind
    path: Path | None
    faults: tuple[Fault, ...]


def check_file(ref: str | Path, *, members: Members = PROGRAM) -> Checked:
    """Judge one preset or overlay (name or path), reporting instead of raising.

    A file in a folder `overlays`, or without any required key of [model], is an overlay.
    """
    kind: Kind = "preset"
    if not is_path(ref) and str(ref) not in names("preset") and str(ref) in names("overlay"):
        kind = "overlay"
    faults: list[Fault] = []
    try:
        chain = _read_chain(ref, kind, faults, [])
    except UserError as error:
        return Checked(str(ref), kind, None, error.faults)
    file, layers = chain[-1], [each.layer for each in chain]
    if file.path.parent.name == "overlays" or not (faults or _is_whole(layers)):
        if not (faults or any(layer.values for layer in layers)):
            faults.append(Fault(f"{file.shown} says nothing.", file.shown, expected="sections with keys"))
        return Checked(str(ref), "overlay", file.path, (*faults, *overlay_faults(layers, members)))
    found = validate(layers, file.shown, members, faults).faults
    return Checked(str(ref), "preset", file.path, tuple(found))


def _is_whole(layers: Sequence[Layer]) -> bool:
    """Whether somebody says at least one of the keys that [model] requires."""
    required = [key for key, field in SECTIONS["model"].model_fields.items() if field.is_required()]
    return any(key in layer.values.get("model", {}) for layer in layers for key in required)


@dataclass(frozen=True)
class _File:
    path: Path
    shown: str
    text: str
    layer: Layer
    extends: Any
    extends_where: str


def _read_chain(ref: str | Path, kind: Kind, faults: list[Fault], notes: list[str]) -> list[_File]:
    """The file of `ref` last, before it the one that it extends, and so on. Raises UserError where one is missing."""
    chain = [_read_file(_locate(ref, kind, notes), faults)]
    while (extends := chain[0].extends) is not None:
        child = chain[0]
        if not isinstance(extends, str) or not extends:
            raise UserError("extends names one preset.", where=child.extends_where, expected='extends = "cpu-small"')
        parent = _locate_parent(extends, kind, child, notes)
        if any(parent.samefile(each.path) for each in chain):
            circle = [*(each.shown for each in reversed(chain)), shown(parent)]
            raise UserError(
                f"Presets extend one another in a circle: {' → '.join(circle)}.",
                where=child.extends_where,
                expected="a chain that ends",
            )
        chain.insert(0, _read_file(parent, faults))
    return chain


def _locate(ref: str | Path, kind: Kind, notes: list[str]) -> Path:
    if not is_path(ref):
        entry = find(str(ref), kind)
        notes += [entry.shadowing_note] if entry.shadowing_note else []
        return entry.path
    path = Path(ref).expanduser()
    if not path.exists():
        raise no_such_file(path)
    return path


def _locate_parent(extends: str, kind: Kind, child: _File, notes: list[str]) -> Path:
    """What `extends` means: a path relative to the file that says it, or a name."""
    if is_path(extends):
        path = child.path.parent / Path(extends).expanduser()
        if not path.exists():
            raise no_such_file(path, child.extends_where)
        return path
    entry = find(extends, kind, where=child.extends_where, below=child.path if child.path.stem == extends else None)
    notes += [entry.shadowing_note] if entry.shadowing_note and child.path.stem != extends else []
    return entry.path


def _read_file(path: Path, faults: list[Fault]) -> _File:
    name = shown(path)
    text = read_text(path, name)
    document = parse(text, name)
    lines = key_lines(text)
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, Origin] = {}
    for section, keys in document.items():
        origin = Origin(name, lines[(section,)])
        if section == "extends":
            continue
        if section not in SECTIONS:
            faults.append(unknown_section(section, str(origin)))
        elif not isinstance(keys, dict):
            faults.append(not_a_section(section, str(origin)))
        else:
            values[section] = keys
            origins[section] = origin
            origins |= {f"{section}.{key}": Origin(name, lines[(section, key)]) for key in keys}
    layer = Layer(values, origins, path.resolve().parent)
    extends_where = str(Origin(name, lines.get(("extends",))))
    return _File(path.resolve(), name, text, layer, document.get("extends"), extends_where)
