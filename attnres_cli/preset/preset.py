"""The preset: frozen, validated, and each of its values knows where it was said."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from attnres_cli.errors import Fault, UserError
from attnres_cli.preset.checks import notes_of
from attnres_cli.preset.layers import DEFAULT, Layer, Origin
from attnres_cli.preset.render import plain_values, render
from attnres_cli.preset.schema import (
    SECTIONS,
    DataConfig,
    EvalConfig,
    ModelConfig,
    ObserveConfig,
    ResidualConfig,
    Section,
    TrainConfig,
)
from attnres_cli.preset.validation import Inputs, in_reading_order, input_faults, validate
from attnres_cli.preset.variants import PROGRAM, Members


@dataclass(frozen=True)
class Preset:
    """What a run is made of. Two presets are equal where their sections are; name, place and origins do not count.

    `residual` and `data` are the `Config` of the scheme and the corpus. origins: "section.key" → where the value was
    said, for every key. source_path, source_text: the file as the user wrote it (None and "" where there is none).
    source_folder: where relative paths start that no file said. found_notes: what the user should know about how the
    preset was found, one sentence each.
    """

    name: str = field(compare=False)
    model: ModelConfig
    residual: ResidualConfig
    data: DataConfig
    train: TrainConfig
    eval: EvalConfig
    observe: ObserveConfig
    origins: Mapping[str, Origin] = field(compare=False, repr=False)
    source_path: Path | None = field(compare=False, repr=False)
    source_text: str = field(compare=False, repr=False)
    source_folder: Path = field(compare=False, repr=False)
    found_notes: tuple[str, ...] = field(compare=False, repr=False)
    said: Mapping[str, Mapping[str, Any]] = field(compare=False, repr=False)
    members: Members = field(compare=False, repr=False)

    # ---- as data

    @property
    def sections(self) -> dict[str, Section]:
        """The six sections by name, in the order of the file."""
        return {name: getattr(self, name) for name in SECTIONS}

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Section → key → value in the types of TOML; keys that are left out or do nothing here are absent."""
        return {name: plain_values(section) for name, section in self.sections.items()}

    def to_toml(self) -> str:
        """The resolved preset with a comment per key; loading it gives an equal preset."""
        return render(self.sections)

    def digest(self) -> str:
        """SHA-256, hexadecimal, of the resolved values: equal presets have equal digests."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def replace(self, changes: Mapping[str, Any], *, name: str | None = None, said_by: str = "replace") -> Preset:
        """A preset with some keys changed ("section.key" → value; None: left out), validated again.

        said_by: the place that errors name, such as the option that asks for the changes. The rules of layers hold:
        another `residual.scheme` starts its keys anew. Raises UserError.
        """
        dropped = {key for key, value in changes.items() if value is None}
        kept = {
            section: {key: value for key, value in values.items() if f"{section}.{key}" not in dropped}
            for section, values in self.said.items()
        }
        base = Layer(kept, {**self.origins, **dict.fromkeys(kept, DEFAULT)}, self.source_folder)
        changed: dict[str, dict[str, Any]] = {}
        for key, value in changes.items():
            section, _, own_key = key.partition(".")
            assert section in SECTIONS, f"'{key}' does not begin with the name of a section"
            if value is not None:
                changed.setdefault(section, {})[own_key] = value
        layers = [base, plain_layer(changed, said_by, self.source_folder)]
        return build(
            layers,
            name=name or self.name,
            source=self.name,
            source_path=self.source_path,
            source_text=self.source_text,
            source_folder=self.source_folder,
            notes=self.found_notes,
            members=self.members,
        )

    # ---- for people

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, one sentence each: how the preset was found, and what it says that changes nothing
        at these sizes."""
        return (*self.found_notes, *notes_of(self.sections))

    def note_on_seeds(self, seeds: Iterable[int]) -> str | None:
        """What the user should know of training with these seeds: that some of them chose values of this preset. None
        where none did."""
        spent = [str(seed) for seed in sorted({*seeds}.intersection(self.train.tuning_seeds or ()))]
        if not spent:
            return None
        *others, last = spent
        named = f"seeds {', '.join(others)} and {last}" if others else f"seed {last}"
        on = "them" if others else "it"
        return f"{named} chose values of this preset (train.tuning_seeds); no verdict rests on {on}"

    # ---- derived sizes

    @property
    def steps(self) -> int:
        """Optimiser steps: horizon_tokens / tokens_per_step, rounded up."""
        return math.ceil(self.train.horizon_tokens / self.train.tokens_per_step)

    @property
    def sequences_per_step(self) -> int:
        """Sequences of context_tokens per optimiser step."""
        return self.train.tokens_per_step // self.model.context_tokens

    @property
    def accumulation_steps(self) -> int:
        """Forward passes per optimiser step."""
        return self.sequences_per_step // self.train.micro_batch_sequences

    @property
    def warmup_steps(self) -> int:
        """Steps of the linear warm-up, at least one unless warmup_fraction is 0."""
        fraction = self.train.warmup_fraction
        return min(self.steps, max(1, round(fraction * self.steps))) if fraction else 0

    @property
    def decay_steps(self) -> int:
        """Steps in which the learning rate falls: decay_fraction of them (wsd), or all after the warm-up (cosine)."""
        after_warmup = self.steps - self.warmup_steps
        if self.train.schedule == "cosine":
            return after_warmup
        return min(after_warmup, max(1, round(self.train.decay_fraction * self.steps)))


def plain_layer(values: Mapping[str, Mapping[str, Any]], source: str, folder: Path) -> Layer:
    """A layer without lines: values that come from a program. Tuples count as the arrays that TOML would have."""
    values = {
        section: {key: list(each) if isinstance(each, tuple) else each for key, each in keys.items()}
        for section, keys in values.items()
    }
    origins = {section: Origin(source) for section in values}
    origins |= {f"{section}.{key}": Origin(source) for section, keys in values.items() for key in keys}
    return Layer(values, origins, folder)


def build(
    layers: Sequence[Layer],
    faults: Sequence[Fault] = (),
    *,
    name: str,
    source: str,
    source_path: Path | None,
    source_text: str,
    source_folder: Path,
    notes: tuple[str, ...] = (),
    members: Members = PROGRAM,
    inputs: Inputs | None = None,
) -> Preset:
    """The preset that the layers make, the first one lowest; `faults` were found while reading them.

    inputs: finds what its [data] section names and is not there. Raises one UserError with every fault of every
    section, and of the inputs.
    """
    result = validate(layers, source, members, faults)
    missing = input_faults(inputs, result.sections.get("data"), result.stack, source_folder)
    if result.faults or missing:
        raise UserError(in_reading_order([*result.faults, *missing]))
    sections = cast(Any, result.sections)
    every_key = [f"{section}.{key}" for section in SECTIONS for key in type(sections[section]).model_fields]
    return Preset(
        name=name,
        **sections,
        origins={key: result.stack.origins.get(key, DEFAULT) for key in every_key},
        source_path=source_path,
        source_text=source_text,
        source_folder=source_folder,
        found_notes=notes,
        said=result.stack.values,
        members=members,
    )
