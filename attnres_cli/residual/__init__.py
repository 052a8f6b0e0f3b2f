"""Residual schemes: how a transformer carries information through depth.

What a program may import from here for a model of its own is below (docs/use-in-your-model.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnres_cli.errors import UserError as UserError
    from attnres_cli.residual.drop_in import acts_on_projections as acts_on_projections
    from attnres_cli.residual.drop_in import initialise as initialise
    from attnres_cli.residual.drop_in import make_residual as make_residual
    from attnres_cli.residual.drop_in import sites as sites
    from attnres_cli.residual.huggingface import wrap_huggingface as wrap_huggingface
    from attnres_cli.residual.parameters import ParameterGroup as ParameterGroup
    from attnres_cli.residual.protocol import Residual as Residual
    from attnres_cli.residual.protocol import Site as Site
    from attnres_cli.residual.protocol import State as State
    from attnres_cli.residual.registry import scheme_names as scheme_names

# Loaded when they are asked for: modules of this package are imported where torch must not be.
_HOMES = {
    "ParameterGroup": "residual.parameters",
    "Residual": "residual.protocol",
    "Site": "residual.protocol",
    "State": "residual.protocol",
    "UserError": "errors",
    "acts_on_projections": "residual.drop_in",
    "initialise": "residual.drop_in",
    "make_residual": "residual.drop_in",
    "scheme_names": "residual.registry",
    "sites": "residual.drop_in",
    "wrap_huggingface": "residual.huggingface",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"attnres_cli.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
