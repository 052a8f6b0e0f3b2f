"""One new file is one new thing: the members of a package are the files in it.

`residual/schemes/attnres_block.py` is the scheme `attnres-block`. Listing names reads the folder and imports
nothing, so that completion and error messages stay instant; a member is imported when it is used.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

from attnres_cli.errors import UserError, nearest_name

PACKAGE_ROOT = Path(__file__).parent


@cache  # a sweep asks some thousand times
def names(package: str) -> tuple[str, ...]:
    """Names of the members of `package` (e.g. "residual.schemes"), sorted; nothing is imported. The folder is read once
    in a process."""
    folder = PACKAGE_ROOT.joinpath(*package.split("."))
    return tuple(sorted(path.stem.replace("_", "-") for path in folder.glob("*.py") if not path.stem.startswith("_")))


def load(package: str, name: str, *, what: str, where: str | None = None) -> ModuleType:
    """The module of member `name`; `what` names the kind in the error ("residual scheme").

    Raises UserError naming the nearest member when there is none of that name.
    """
    valid = names(package)
    if name not in valid:
        raise UserError(
            f"There is no {what} '{name}'.", where=where, expected=", ".join(valid), nearest=nearest_name(name, valid)
        )
    return importlib.import_module(f"attnres_cli.{package}.{name.replace('-', '_')}")
