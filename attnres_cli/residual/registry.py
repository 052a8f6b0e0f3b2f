"""Finds residual schemes: every file of `residual/schemes/` is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnres_cli import discovery
from attnres_cli.preset.schema import ResidualConfig
from attnres_cli.residual.protocol import Geometry, Residual

PACKAGE = "residual.schemes"


def scheme_names() -> tuple[str, ...]:
    return discovery.names(PACKAGE)


def scheme_keys(name: str) -> frozenset[str]:
    """The keys of [residual] that scheme `name` reads."""
    config: type[ResidualConfig] = discovery.load(PACKAGE, name, what="residual scheme").Config
    return frozenset(config.model_fields) - frozenset(config.ignored_keys)


@dataclass(frozen=True)
class Described:
    """A scheme for people: its formula in a line, where it was published, the keys of [residual] that it reads."""

    name: str
    formula: str
    citation: str
    keys: tuple[str, ...]


def described_schemes() -> tuple[Described, ...]:
    """Every scheme, by name."""
    found = []
    for name in scheme_names():
        scheme: type[Residual] = discovery.load(PACKAGE, name, what="residual scheme").Scheme
        keys = tuple(sorted(scheme_keys(name) - {"scheme"}))
        found.append(Described(name, scheme.formula, scheme.citation, keys))
    return tuple(found)


def build_residual(config: Any, geometry: Geometry) -> Residual:
    """The scheme that `config.scheme` names, for a trunk of this geometry; parameters are not initialised yet."""
    module = discovery.load(PACKAGE, config.scheme, what="residual scheme")
    scheme: Residual = module.Scheme(config, geometry)
    return scheme
