"""Pictures of a comparison: one file each, found by discovery.

A file defines

    ORDER: int                                         where its pictures stand in a report
    def build(comparison: Comparison) -> list[Picture]  none where the runs hold nothing of the kind

and reads run directories only. An arm of several runs is drawn as its mean with the 95 % interval over its seeds; a
single run has no interval, unless a probe measured one over sequences of the validation set.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from types import ModuleType

from attnres_cli.discovery import load, names
from attnres_cli.errors import ExitCode, UserError, nearest_name
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Picture


def builders() -> list[ModuleType]:
    """The files of report/pictures/ in their order."""
    modules = [load("report.pictures", name, what="picture") for name in names("report.pictures")]
    return sorted(modules, key=lambda module: module.ORDER)


def pictures(comparison: Comparison) -> Sequence[Picture]:
    """Every picture that the runs of a comparison have something for."""
    found: list[Picture] = [picture for module in builders() for picture in module.build(comparison)]
    assert len({picture.key for picture in found}) == len(found), "keys name pictures"
    return found


def chosen(available: Sequence[Picture], patterns: Sequence[str], *, where: str) -> list[Picture]:
    """The pictures whose keys fit one of the patterns ("loss", "depth-weights*"), in the order of `available`.

    Raises UserError for a pattern that none fits; where: the option it was given to.
    """
    keys = [picture.key for picture in available]
    for pattern in patterns:
        if not any(fnmatchcase(key, pattern) for key in keys):
            raise UserError(
                f"There is no picture '{pattern}' of these runs.",
                where=where,
                expected=", ".join(keys) or "nothing: the runs recorded nothing that can be drawn",
                nearest=nearest_name(pattern.strip("*"), keys),
                exit_code=ExitCode.USAGE,
            )
    return [picture for picture in available if any(fnmatchcase(picture.key, pattern) for pattern in patterns)]
