"""The runs of a study: every arm with every seed of a plan that was frozen before (sweep/study.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.preset.catalogue import shown
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.request import Request
from attnres_cli.sweep.results import Arm, Sweep
from attnres_cli.sweep.study import Study

KIND = "study"
GROWING = ()


def make_request(study: Study, *, seeds: int | None = None) -> Request:
    """The request that trains a study. seeds: more than the plan has, all beyond it exploratory.

    Raises UserError where the plan is no valid preset (any more).
    """
    from attnres_cli.preset.reading import preset_from_dict

    planned = len(study.seeds)
    if seeds is not None and seeds < planned:
        raise UserError(f"--seeds {seeds}: the plan has {planned}.", where="--seeds", expected=f"{planned} or more",
                        exit_code=ExitCode.USAGE)  # fmt: skip
    preset = preset_from_dict(study.preset.values, study.preset.name)
    return Request(
        kind=KIND,
        preset=replace(preset, source_text=preset.to_toml()),
        arms=tuple(
            Arm(each.label, each.residual, {**each.changes, **dict.fromkeys(each.left_out)}) for each in study.arms
        ),
        seeds=seeds or planned,
        settings={"study": {"name": study.name, "hash": study.hash, "plan": study.to_dict()}},
    )


def most_cells(request: Request) -> int:
    return 1


def plan(request: Request, context: Context) -> Sweep:
    """Seeds beyond the plan count as added, whenever they are asked for."""
    sweep = lay_out(request, context, [Point("", {}, {})], report=KIND)
    sweep.planned_seeds = len(request.settings["study"]["plan"]["seeds"])
    return sweep


# ---------------------------------------------------------------------- a plan that was changed


def refuse_if_changed(study: Study, group: Sweep) -> None:
    """Raise UserError where the runs in `group` were trained by another plan of this name: it was changed since."""
    changed = changes_since(study, group)
    if changed:
        raise UserError(
            f"The plan of study '{study.name}' was changed after its first run: {', '.join(changed)}.",
            where=shown(study.path),
            expected=f"the plan with the hash {group.request['study']['hash'][:12]}, or a new study",
            hint="attnres study new PRESET --arms A,B --name ANOTHER",
        )


def changes_since(study: Study, group: Sweep) -> list[str]:
    """Keys of the plan that differ from what the group's runs were trained by; empty for the same plan."""
    before = group.request.get("study")
    if not isinstance(before, dict):
        return ["the runs of that name belong to no study"]
    if before["hash"] == study.hash:
        return []
    then, now = _flat(before["plan"]), _flat(study.to_dict())
    return [key for key in {**then, **now} if then.get(key) != now.get(key)]


def _flat(values: Any, before: str = "") -> dict[str, Any]:
    """Leaves by their path, such as "arms.0.residual.scheme"."""
    if isinstance(values, Mapping):
        items = [(str(key), value) for key, value in values.items()]
    elif isinstance(values, list) and any(isinstance(each, Mapping) for each in values):
        items = [(str(number), value) for number, value in enumerate(values)]
    else:
        return {before: values}
    found: dict[str, Any] = {}
    for key, value in items:
        found |= _flat(value, f"{before}.{key}" if before else key)
    return found
