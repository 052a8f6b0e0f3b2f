"""From a sweep's file to the preset of one of its runs: base preset + arm + changes + seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnres_cli.errors import UserError
from attnres_cli.sweep.request import Request, by_key
from attnres_cli.sweep.results import Arm, Run, Sweep

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

SEED = "train.seed"
HORIZON = "train.horizon_tokens"


def notes_of(request: Request, *, seeds: Collection[int] = ()) -> list[str]:
    """What the user should know of the preset, and of an arm on it: what changes nothing at these sizes, and which of
    the seeds that a verdict is to rest on chose values of it."""

    def said_of(preset: Preset) -> list[str]:
        return [*preset.notes, *filter(None, [preset.note_on_seeds(seeds)])]

    of_all = said_of(request.preset)
    found = dict.fromkeys(of_all)
    for arm in request.arms:
        with suppress(UserError):  # an arm that does not fit is a row of the plan
            own = said_of(with_arm(request.preset, arm, {}))
            found |= dict.fromkeys(f"{arm.label}: {note}" for note in own if note not in of_all)
    return list(found)


def base_preset(sweep: Sweep) -> Preset:
    """The preset that the sweep started from."""
    from attnres_cli.preset.reading import preset_from_dict

    values, name, source_text = (sweep.preset[key] for key in ("values", "name", "source_text"))
    return replace(preset_from_dict(values, name), source_text=source_text)


def run_preset(sweep: Sweep, run: Run) -> Preset:
    """The resolved preset of one run, from the sweep file alone."""
    return with_arm(base_preset(sweep), sweep.arm(run.arm), {**run.changes, SEED: run.seed})


def with_lines_of(preset: Preset, asked: Preset) -> Preset:
    """`preset`, whose keys are said where `asked`, the user's own, says them, as far as the values are the same."""
    mine, theirs = by_key(preset.to_dict()), by_key(asked.to_dict())
    lines = {key: origin for key, origin in asked.origins.items() if mine.get(key) == theirs.get(key)}
    return replace(preset, origins={**preset.origins, **lines})


def with_arm(preset: Preset, arm: Arm, changes: Mapping[str, Any]) -> Preset:
    """`preset` with the arm's whole [residual] section and its other keys, then with `changes` ("section.key" → value;
    None: left out). Raises UserError where that is no valid preset."""
    theirs = preset.to_dict().get("residual", {})
    dropped = {f"residual.{key}": None for key in theirs if key not in arm.residual}
    own = {f"residual.{key}": value for key, value in arm.residual.items()}
    return preset.replace({**dropped, **own, **arm.changes, **changes})
