"""How large should a block be? One cell: the baseline, and one arm per block size (or number of blocks), with the
points of the paper's figure beside yours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import Field

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.preset.catalogue import PaperRow, entries, find
from attnres_cli.sweep.arms import Source, overlay_arm
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.definition import Definition, read_definition
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.request import Request, checked_seeds
from attnres_cli.sweep.results import Arm, Sweep

KIND = "blocks"
GROWING = ()


class Blocks(Definition):
    """The keys of presets/sweeps/blocks.toml."""

    reference: str = Field(description="the overlay that every size is compared with")
    scheme: str = Field(description="the residual scheme that has blocks")
    size_key: str = Field(description="its key for the sublayers of a block")
    count_key: str = Field(description="its key for the number of blocks")
    paper_table: str = Field(description="the figure of the paper, as the overlays of presets/ablations name it")
    paper_row: str = Field(description="a row of it, with {size} for the sublayers of a block")


def make_request(
    ref: str | None,
    *,
    overlays: Sequence[str] = (),
    sets: Sequence[str] = (),
    sizes: tuple[int, ...] | None = None,
    counts: tuple[int, ...] | None = None,
    budget: Budget | None = None,
    seeds: int | None = None,
) -> Request:
    """The request that these options make. sizes: sublayers per block; counts: blocks instead; neither: the sizes 1, 2,
    4 … up to all L sublayers. Raises UserError for a size or count beyond L."""
    definition = read_definition(KIND, Blocks)
    source = Source(ref or definition.preset, overlays, sets)
    preset = source.load()
    sublayers = preset.model.num_sublayers
    asked, option = (counts, "--counts") if counts else (sizes or _powers_of_two(sublayers), "--sizes")
    if too_many := [value for value in asked if value > sublayers]:
        raise UserError(
            f"{option} {too_many[0]}: the model has {sublayers} sublayers ({sublayers // 2} transformer blocks).",
            where=option,
            expected=f"1 to {sublayers}",
            exit_code=ExitCode.USAGE,
        )
    reference = overlay_arm(source, preset, find(definition.reference, "overlay"))
    plain = source.without_residual_settings().load(residual=definition.scheme).to_dict()["residual"]
    key = definition.count_key if counts else definition.size_key
    other = {definition.count_key, definition.size_key}
    arms = [
        Arm(
            f"{'blocks' if counts else 'size'}-{value}",
            {**{name: each for name, each in plain.items() if name not in other}, key: value},
            facts=_facts(definition, value, sublayers, is_count=bool(counts)),
        )
        for value in asked
    ]
    return Request(
        kind=KIND,
        preset=preset,
        arms=(reference, *arms),
        seeds=checked_seeds(definition.seeds if seeds is None else seeds),
        budget=definition.budget(ref, budget),
    )


def most_cells(request: Request) -> int:
    return 1


def plan(request: Request, context: Context) -> Sweep:
    """One cell with every size."""
    return lay_out(request, context, [Point("", {}, {})], report="blocks")


def _powers_of_two(sublayers: int) -> tuple[int, ...]:
    powers = [2**exponent for exponent in range(sublayers.bit_length()) if 2**exponent < sublayers]
    return (*powers, sublayers)


def _facts(definition: Blocks, value: int, sublayers: int, *, is_count: bool) -> Mapping[str, Any]:
    """Size and number of blocks, and the paper's loss where it has this size (of its own 32 sublayers)."""
    size = sublayers // value if is_count else value
    count = value if is_count else -(-sublayers // value)
    row = None if is_count else definition.paper_row.format(size=size)
    rows: list[PaperRow] = [paper for entry in entries("overlay") if entry.is_ablation for paper in entry.paper_rows]
    paper = [asdict(each) for each in rows if (each.table, each.row) == (definition.paper_table, row)]
    return {"block_sublayers": size, "num_blocks": count, "paper": paper[:1]}
