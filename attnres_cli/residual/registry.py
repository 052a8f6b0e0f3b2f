"""Finds residual schemes: every file of `residual/schemes/` is one."""

from __future__ import annotations

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


def build_residual(config: Any, geometry: Geometry) -> Residual:
    """The scheme that `config.scheme` names, for a trunk of this geometry; parameters are not initialised yet."""
    module = discovery.load(PACKAGE, config.scheme, what="residual scheme")
    scheme: Residual = module.Scheme(config, geometry)
    return scheme
