"""Read a preset: its file, the files that it extends, overlays, and the options of the command line, in this order.

extends chain → --overlay (in order) → --residual → --set (in order) → options that stand for one key (--seed)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnres_cli.errors import Fault, UserError
from attnres_cli.preset.catalogue import (
    FOLDERS_OF_OVERLAYS,
    Kind,
    find,
    is_partial,
    is_path,
    names,
    no_such_file,
    shown,
)
from attnres_cli.preset.checks import notes_of
from attnres_cli.preset.explain import not_a_section, unknown_section
from attnres_cli.preset.layers import Layer, Origin
from attnres_cli.preset.options import Given, given_layer, residual_layer, set_layer
from attnres_cli.preset.positions import key_lines
from attnres_cli.preset.preset import Preset, build, plain_layer
from attnres_cli.preset.schema import SECTIONS
from attnres_cli.preset.toml import parse, read_text
from attnres_cli.preset.validation import (
    Inputs,
    data_of_overlay,
    in_reading_order,
    input_faults,
    overlay_faults,
    validate,
)
from attnres_cli.preset.variants import PROGRAM, Members

__all__ = ["Checked", "Preset", "check_file", "load_preset", "preset_from_dict"]


def load_preset(
    ref: str | Path,
    *,
    overlays: Sequence[str] = (),
    residual: str | None = None,
    sets: Sequence[str] = (),
    given: Sequence[Given] = (),
    inputs: Inputs | None = None,
    asked_by: str = "PRESET",
    members: Members = PROGRAM,
) -> Preset:
    """The preset of this name or path, and on top of it overlays (names or paths), a scheme's defaults, assignments,
    and what options of their own say.

    inputs: finds what the [data] section names and is not there, for a command that will read it (data/inputs.py).
    asked_by: the argument that `ref` is, for the error about a name that leads nowhere.

    Raises one UserError with every fault that was found, each with its file and line or the option that caused it.
    """
    faults: list[Fault] = []
    notes: list[str] = []
    chain = _read_chain(ref, "preset", asked_by, faults, notes)
    file, is_complete = chain.files[-1], chain.is_complete
    layers = chain.layers
    if is_complete and not faults and not _is_whole(layers):
        if _says_nothing(chain):
            raise UserError([_nothing_said(file)])
        raise UserError(
            f"{file.shown} is no whole preset: it has no [model].",
            where=file.shown,
            expected="a preset; this one can be put on one as an overlay",
            hint=f"cpu-small --overlay {ref if is_path(ref) else file.shown}",  # a name finds presets here only
        )
    for overlay in overlays:
        before = len(faults)
        chain = _read_chain(overlay, "overlay", f"--overlay {overlay}", faults, notes)
        if len(faults) == before and _says_nothing(chain):
            faults.append(_nothing_said(chain.files[-1]))
        layers += chain.layers
        is_complete &= chain.is_complete
    if residual is not None:
        layers.append(residual_layer(residual))
    if sets:
        layers.append(set_layer(sets, faults))
    if given:
        layers.append(given_layer(given))
    if not is_complete:
        raise UserError(in_reading_order([*faults, *overlay_faults(layers, members)]))
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
        inputs=inputs,
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
    """What checking one file found.

    kind: whether it was judged as a whole preset or as an overlay. path: the file, None where none could be read.
    notes: what the user should know, one sentence each: how it was found, and what a whole preset says that changes
    nothing.
    """

    name: str
    kind: Kind
    path: Path | None
    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()


def check_file(ref: str | Path, *, inputs: Inputs | None = None, members: Members = PROGRAM) -> Checked:
    """Judge one preset or overlay (name or path), reporting instead of raising.

    A file in a folder `overlays`, or without any required key of [model], is an overlay. inputs: finds what a valid
    [data] section names and is not there.
    """
    kind: Kind = "preset"
    if not is_path(ref) and str(ref) not in names("preset") and str(ref) in names("overlay"):
        kind = "overlay"
    faults: list[Fault] = []
    notes: list[str] = []
    try:
        chain = _read_chain(ref, kind, "FILE", faults, notes)
    except UserError as error:
        return Checked(str(ref), kind, None, error.faults, tuple(notes))
    file, layers = chain.files[-1], chain.layers
    lies_with_overlays = file.path.parent.name in FOLDERS_OF_OVERLAYS
    if lies_with_overlays or not (chain.is_complete and (faults or _is_whole(layers))):
        kind = "preset" if not (lies_with_overlays or chain.is_complete) else "overlay"
        if not faults and _says_nothing(chain):
            faults.append(_nothing_said(file))
        faults += overlay_faults(layers, members)
        data, stack = data_of_overlay(layers, members)
    else:
        kind = "preset"
        judged = validate(layers, file.shown, members, faults)
        faults, data, stack = judged.faults, judged.sections.get("data"), judged.stack
        notes += notes_of(judged.sections) if not faults else ()
    faults += input_faults(inputs, data, stack, file.path.parent)
    return Checked(str(ref), kind, file.path, tuple(in_reading_order(faults)), tuple(notes))


def _is_whole(layers: Sequence[Layer]) -> bool:
    """Whether somebody says at least one of the keys that [model] requires."""
    required = [key for key, field in SECTIONS["model"].model_fields.items() if field.is_required()]
    return any(key in layer.values.get("model", {}) for layer in layers for key in required)


def _says_nothing(chain: _Chain) -> bool:
    return chain.is_complete and not any(keys for layer in chain.layers for keys in layer.values.values())


def _nothing_said(file: _File) -> Fault:
    return Fault(f"{file.shown} says nothing.", file.shown, expected="sections with keys")


@dataclass(frozen=True)
class _File:
    path: Path
    shown: str
    text: str
    layer: Layer
    extends: Any
    extends_where: str


@dataclass(frozen=True)
class _Chain:
    """files: the one asked for last, before it the one that it extends, and so on. is_complete: False where some parent
    cannot be read; what it would have said is unknown."""

    files: list[_File]
    is_complete: bool

    @property
    def layers(self) -> list[Layer]:
        return [each.layer for each in self.files]


def _read_chain(ref: str | Path, kind: Kind, asked_by: str, faults: list[Fault], notes: list[str]) -> _Chain:
    """The file of `ref`, which `asked_by` says, and those it extends. Raises UserError where `ref` itself cannot be
    read; a parent that cannot is added to `faults`, so that what else is wrong can be told at once."""
    chain = [_read_file(_locate(ref, kind, asked_by, notes), faults)]
    try:
        while (extends := chain[0].extends) is not None:
            chain.insert(0, _read_file(_parent(extends, kind, chain, notes), faults))
    except UserError as error:
        faults += error.faults
        return _Chain(chain, is_complete=False)
    return _Chain(chain, is_complete=True)


def _parent(extends: Any, kind: Kind, chain: list[_File], notes: list[str]) -> Path:
    """The file that the first of `chain` extends. Raises UserError where there is none, or where it is in the chain."""
    child = chain[0]
    if not isinstance(extends, str) or not extends:
        raise UserError("extends names one preset.", where=child.extends_where, expected='extends = "cpu-small"')
    parent = _locate_parent(extends, kind, child, notes)
    if parent.samefile(child.path):
        raise UserError(
            f"{child.shown} extends itself in a circle.",
            where=child.extends_where,
            expected="another preset, or no extends",
        )
    if any(parent.samefile(each.path) for each in chain):
        circle = [*(each.shown for each in reversed(chain)), shown(parent)]
        raise UserError(
            f"Presets extend one another in a circle: {' → '.join(circle)}.",
            where=child.extends_where,
            expected="a chain that ends",
        )
    return parent


def _locate(ref: str | Path, kind: Kind, asked_by: str, notes: list[str]) -> Path:
    if not is_path(ref):
        entry = find(str(ref), kind, where=asked_by)
        notes += [entry.shadowing_note] if entry.shadowing_note else []
        return entry.path
    path = Path(ref).expanduser()
    if not path.exists():
        raise no_such_file(path, asked_by)
    return path


def _locate_parent(extends: str, kind: Kind, child: _File, notes: list[str]) -> Path:
    """What `extends` means: a path relative to the file that says it, or a name. What lies among the overlays extends
    overlays, by whichever path it was found itself."""
    if is_path(extends):
        path = child.path.parent / Path(extends).expanduser()
        if not path.exists():
            raise no_such_file(path, child.extends_where, below=child.path)
        return path
    kind = "overlay" if child.path.parent.name in FOLDERS_OF_OVERLAYS else kind
    if kind == "overlay" and extends not in names("overlay") and extends in names("preset"):
        kind = "preset" if is_partial(find(extends).path) else kind  # an overlay by its contents, in another folder
    entry = find(extends, kind, where=child.extends_where, below=child.path)
    if entry.shadowing_note and entry.place:  # of one that the child hides, the note about the child says it
        notes.append(entry.shadowing_note)
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
