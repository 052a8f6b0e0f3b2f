"""Sections whose keys depend on one of their values: [residual] on `scheme`, [data] on `corpus`.

The variant's own module (a file of `residual/schemes/` or `data/corpora/`) defines `Config`, the section's model. Names
are listed by reading a folder; a module is imported when a preset that uses it is validated (schemes import torch).
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import get_annotations
from typing import Any, Protocol

from attnres_cli import discovery
from attnres_cli.preset.schema import SECTIONS, Section


class Members(Protocol):
    """Where the files of a folder of the program are found; tests give a stand-in."""

    def names(self, package: str) -> tuple[str, ...]:
        """Names of the members of `package`, sorted; imports nothing."""
        ...

    def load(self, package: str, name: str, *, what: str) -> Any:
        """The module of one member."""
        ...


class ProgramMembers:
    """The program's own folders."""

    def names(self, package: str) -> tuple[str, ...]:
        """Names of the members of `package`, sorted; imports nothing."""
        return discovery.names(package)

    def load(self, package: str, name: str, *, what: str) -> Any:
        """The module of one member; UserError where there is none of that name."""
        return discovery.load(package, name, what=what)


PROGRAM = ProgramMembers()


@dataclass(frozen=True)
class Variant:
    """A section that is completed by a file: `key` holds the file's name, `package` the folder, `what` the kind."""

    section: str
    key: str
    package: str
    what: str

    def model(self, name: Any, members: Members) -> type[Section] | None:
        """The section's model for variant `name`, None where there is no such variant."""
        if not isinstance(name, str) or name not in members.names(self.package):
            return None
        model: type[Section] = members.load(self.package, name, what=self.what).Config
        return model

    def own_keys(self, model: type[Section]) -> frozenset[str]:
        """Keys that the variant adds to those of every variant, or gives a meaning of its own."""
        common = SECTIONS[self.section]
        between = [each for each in model.__mro__ if issubclass(each, common) and each is not common]
        return frozenset(key for each in between for key in get_annotations(each) if key in model.model_fields)


VARIANTS = {
    variant.section: variant
    for variant in (
        Variant("residual", "scheme", "residual.schemes", "residual scheme"),
        Variant("data", "corpus", "data.corpora", "corpus"),
    )
}


def section_model(section: str, values: Any, members: Members) -> type[Section] | None:
    """The model that `values` of this section are checked by; None where they name a variant that does not exist."""
    variant = VARIANTS.get(section)
    if variant is None:
        return SECTIONS[section]
    return variant.model(values.get(variant.key), members)


def all_models(section: str, members: Members) -> dict[str, type[Section]]:
    """Every model that this section may have, by the variant's name ("" where it has one only)."""
    variant = VARIANTS.get(section)
    if variant is None:
        return {"": SECTIONS[section]}
    return {
        name: members.load(variant.package, name, what=variant.what).Config for name in members.names(variant.package)
    }
