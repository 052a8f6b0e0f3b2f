"""Where figures come from: the commands, versions and hashes of the runs, as their manifests have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnres_cli.report.table import Column, Row, Table, Value

# (key in the manifest, what it is)
_FIELDS: tuple[tuple[str, str], ...] = (
    ("created", "begun"),
    ("seed", "seed"),
    ("preset_name", "preset"),
    ("preset_digest", "resolved preset, SHA-256"),
    ("data.corpus", "corpus"),
    ("data.tokenizer", "tokenizer"),
    ("data.data_hash", "training tokens, SHA-256"),
    ("data.validation_hash", "validation tokens, SHA-256"),
    ("data.validation_set_hash", "evaluated tokens, SHA-256"),
    ("model.common_weights_hash", "initial weights that schemes share, SHA-256"),
    ("environment.attnres", "attnres"),
    ("environment.python", "Python"),
    ("environment.torch", "torch"),
    ("environment.platform", "platform"),
    ("environment.device_name", "device"),
    ("environment.cpu_capability", "instruction set"),
    ("environment.threads", "threads"),
    ("environment.precision", "precision"),
    ("environment.compile", "compiled"),
    ("environment.deterministic", "deterministic"),
    ("git.commit", "commit of the folder"),
    ("git.dirty", "with changes"),
)


@dataclass(frozen=True)
class Provenance:
    """commands: as they were typed, each once. shared: what is the same for every run. apart: a row per run with what
    is not; None where nothing differs. presets: name of a run → its resolved preset, TOML."""

    commands: tuple[str, ...]
    shared: tuple[tuple[str, str], ...]
    apart: Table | None
    presets: Mapping[str, str]


def provenance(
    manifests: Mapping[str, Mapping[str, Any]], presets: Mapping[str, str], *, first: Sequence[str] = ()
) -> Provenance:
    """Of runs by their names; those without a manifest are left out. first: commands that come before theirs."""
    known = {name: manifest for name, manifest in manifests.items() if manifest}
    commands = (*first, *(manifest.get("command") for manifest in known.values()))
    values = {key: [_at(manifest, key) for manifest in known.values()] for key, _ in _FIELDS}
    recorded = [(key, title) for key, title in _FIELDS if any(value is not None for value in values[key])]
    shared = tuple((title, _words(values[key][0])) for key, title in recorded if len(set(values[key])) == 1)
    differing = [(key, title) for key, title in recorded if len(set(values[key])) > 1]
    return Provenance(
        tuple(dict.fromkeys(command for command in commands if isinstance(command, str))),
        shared,
        _apart(list(known), differing, values) if differing else None,
        presets,
    )


def _apart(names: Sequence[str], differing: Sequence[tuple[str, str]], values: Mapping[str, Sequence[Value]]) -> Table:
    columns = (Column("run", "run"), *(Column(key, title) for key, title in differing))
    rows: list[Row] = [
        {"run": name, **{key: _words(values[key][index]) for key, _ in differing}} for index, name in enumerate(names)
    ]
    return Table("provenance", "Run by run: what is not the same for all", columns, tuple(rows))


def _at(manifest: Mapping[str, Any], key: str) -> Value:
    """The value at "section.key"; anything that is no plain value counts as not recorded."""
    section, _, name = key.rpartition(".")
    within = manifest.get(section) if section else manifest
    value = within.get(name) if isinstance(within, Mapping) else None
    return value if isinstance(value, (str, int, float)) else None


def _words(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "—" if value is None else str(value)
