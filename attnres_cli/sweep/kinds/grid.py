"""Any other grid, from a TOML file: axes over keys of the preset, arms, seeds.

    preset = "cpu-tiny"
    arms = ["prenorm", "attnres-block", { label = "two", scheme = "attnres-block", num_blocks = 2 }]
    overlays = []                       # arms that are overlays, after the schemes
    seeds = 3
    budget_minutes = 10                 # without it the preset's own horizon

    [axes]
    "train.learning_rate" = [1e-3, 2e-3, 4e-3]
    "model.transformer_blocks" = [2, 4]

One cell per combination of the axes' values; one that is no valid preset is a row with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from attnres_cli.errors import Fault, UserError, nearest_name
from attnres_cli.preset.catalogue import find, shown
from attnres_cli.preset.schema import SECTIONS
from attnres_cli.runs.names import check_name
from attnres_cli.sweep.arms import Source, overlay_arm, own_arm, refuse_twice, scheme_arm
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.definition import Count, Positive, definition_of
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.request import Request, checked_seeds
from attnres_cli.sweep.resolve import HORIZON, SEED, with_arm
from attnres_cli.sweep.results import Arm, Sweep

KIND = "grid"
GROWING = ()
# More cells would be a mistake rather than a sweep.
MOST_CELLS = 1000
LONGEST_KEY = 60


class GridFile(BaseModel):
    """The keys of a grid's TOML file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str = Field(description="the preset it starts from: a name, or a path from the file's folder")
    arms: tuple[str | dict[str, Any], ...] = Field((), description="schemes, or tables {label, scheme, other keys}")
    overlays: tuple[str, ...] = Field((), description="overlays as arms, after the schemes")
    axes: dict[str, list[Any]] = Field(default_factory=dict, description='"section.key" = [values]')
    seeds: Count = 1
    budget_minutes: Positive | None = None


def make_request(file: Path, *, seeds: int | None = None) -> Request:
    """The request of this file. Raises UserError with every fault of the axes, and for arms that are no presets."""
    if not file.is_file():
        raise UserError(f"There is no file {shown(file)}.", where="FILE", expected="a TOML file (docs/sweep.md)")
    grid = definition_of(file, GridFile)
    if faults := list(_axis_faults(grid, shown(file))):
        raise UserError(faults)
    beside = file.parent / grid.preset
    source = Source(str(beside) if beside.is_file() else grid.preset, asked_by=shown(file))
    preset = source.load()
    arms = [_arm(source, each, shown(file)) for each in grid.arms]
    arms += [overlay_arm(source, preset, find(name, "overlay", where=shown(file))) for name in grid.overlays]
    refuse_twice([arm.label for arm in arms], shown(file), "arm")
    return Request(
        kind=KIND,
        preset=preset,
        arms=tuple(arms) or (own_arm(preset),),
        seeds=checked_seeds(grid.seeds if seeds is None else seeds),
        budget=Budget("preset") if grid.budget_minutes is None else Budget("minutes", grid.budget_minutes),
        settings={"axes": {key: list(values) for key, values in grid.axes.items()}},
    )


def most_cells(request: Request) -> int:
    cells = 1
    for values in request.settings["axes"].values():
        cells *= len(values)
    return cells


def plan(request: Request, context: Context) -> Sweep:
    """A cell per combination of values, the last axis fastest."""
    axes: Mapping[str, Sequence[Any]] = request.settings["axes"]
    cells = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    points = [Point(key, cell, cell) for key, cell in zip(_keys(cells), cells, strict=True)]
    return lay_out(request, context, points, report="arms")


def _keys(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each cell: what it changes, or, where that would be too long or not one name each, its number."""
    keys = ["-".join(f"{key.partition('.')[2]}{_word(value)}" for key, value in cell.items()) for cell in cells]
    if len(set(keys)) < len(keys) or max(map(len, keys)) > LONGEST_KEY:
        return [f"cell{number}" for number in range(len(cells))]
    return keys


def _word(value: Any) -> str:
    """A value as part of a folder's name."""
    text = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(character if character.isalnum() or character in "._+" else "_" for character in text)


def _arm(source: Source, said: str | dict[str, Any], where: str) -> Arm:
    """A scheme with its defaults, or with some of its keys said. Raises UserError."""
    if isinstance(said, str):
        return scheme_arm(source, said)
    own = dict(said)
    label, scheme = own.pop("label", None), own.pop("scheme", None)
    if not (isinstance(label, str) and label and isinstance(scheme, str)):
        raise UserError(
            f"An arm of {where} has no label or no scheme.",
            where=where,
            expected='{ label = "two", scheme = "SCHEME", key = value }',
        )
    try:
        check_name(label)
    except UserError as error:
        raise UserError(str(error), where=where) from None
    plain = Arm(label, source.load(residual=scheme).to_dict()["residual"])
    preset = with_arm(source.load(), plain, {f"residual.{key}": value for key, value in own.items()})
    return Arm(label, preset.to_dict()["residual"])


def _axis_faults(grid: GridFile, where: str) -> list[Fault]:
    """Everything that is wrong with the axes before any preset is made."""
    faults = []
    cells = 1
    for key, values in grid.axes.items():
        section = key.partition(".")[0]
        cells *= len(values)
        if section not in SECTIONS or "." not in key:
            nearest = nearest_name(section, SECTIONS)
            faults.append(
                Fault(f'axes: "{key}" is no key of a preset.', where, expected='"section.key"', nearest=nearest)
            )
        if not values:
            faults.append(Fault(f'axes: "{key}" has no values.', where, expected="a list of at least one value"))
        if len({str(value) for value in values}) < len(values):
            faults.append(Fault(f'axes: "{key}" has a value twice.', where, expected="different values"))
        if key == SEED:
            faults.append(Fault(f'axes: "{key}" is not an axis: runs pair by seed.', where, hint="seeds = 5"))
        if key == HORIZON and grid.budget_minutes is not None:
            faults.append(Fault(f'axes: "{key}" and budget_minutes exclude each other.', where))
    if cells > MOST_CELLS:
        faults.append(Fault(f"axes: {cells:,} cells.", where, expected=f"at most {MOST_CELLS:,}"))
    return faults
