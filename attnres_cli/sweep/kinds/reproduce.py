"""The runs of a reproduction: what the tested claims of a plan need, and the benches that stand beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnres_cli.discovery import names
from attnres_cli.errors import UserError
from attnres_cli.preset.catalogue import find
from attnres_cli.preset.toml import format_key, format_value
from attnres_cli.sweep.arms import Source, overlay_arm, scheme_arm
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.request import Request
from attnres_cli.sweep.resolve import base_preset, with_arm
from attnres_cli.sweep.results import Arm, Sweep

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset
    from attnres_cli.sweep.reproduction import Plan

KIND = "reproduce"
DEPTH = "model.transformer_blocks"
GROWING = ()


def make_request(plan: Plan, *, where: str) -> Request:
    """The request that trains a plan. where: its file, for messages. Raises UserError for a plan whose preset, cells or
    arms do not exist or do not fit."""
    source = Source(plan.preset, asked_by=where)
    plain = source.load()
    preset = plain.replace(plan.changes, said_by=where)
    wanted = [
        *(place.partition("/")[2] for place in plan.seeds_by_place()),
        *(arm for key in plan.bench_keys() for arm in plan.benches[key].arms),
    ]
    arms = {label: _arm(source, plain, plan, label, where) for label in dict.fromkeys(wanted)}
    for key in plan.bench_keys():  # what cannot be timed in two hours cannot be timed now
        for label in plan.benches[key].arms:
            _bench_preset(preset, arms[label], plan.benches[key].changes, f"{where}: benches.{key}")
    return Request(
        kind=KIND,
        preset=preset,
        arms=tuple(arms.values()),
        seeds=plan.seeds,
        settings={"plan": plan.to_dict(), "hash": plan.hash},
    )


def most_cells(request: Request) -> int:
    return len(_plan(request.settings["plan"]).cells)


def plan(request: Request, context: Context) -> Sweep:
    """A cell per set of changes, in it only the arms and seeds that a tested claim needs. What the power calculation
    said is kept: it was made before the first run."""
    wanted = _plan(request.settings["plan"])
    seeds: dict[str, dict[str, int]] = {cell: {} for cell in wanted.cells}
    for place, count in wanted.seeds_by_place().items():
        cell, _, label = place.partition("/")
        seeds[cell][label] = count
    depths = {
        cell: changes.get(DEPTH, request.preset.model.transformer_blocks) for cell, changes in wanted.cells.items()
    }
    by_depth = len(set(depths.values())) > 1  # of two shapes with as many FLOPs the deeper one takes longer
    points = [
        Point(cell, {}, changes, size=depths[cell] if by_depth else None, seeds=seeds[cell])
        for cell, changes in wanted.cells.items()
        if seeds[cell]
    ]
    before = {key: {"tested": tested, "power": power} for key, (tested, power) in wanted.verdict_before.items()}
    return lay_out(request, context, points, report=KIND, facts={"before": before})


def measure(sweep: Sweep, progress: Callable[[str], None]) -> bool:
    """Take the benches that are missing, into the sweep; whether there was one to take. progress: told which.

    Raises UserError where an arm cannot be timed here.
    """
    wanted = _plan(sweep.request["plan"])
    missing = [key for key in wanted.bench_keys() if key not in sweep.measured]
    for key in missing:
        progress(key)
        sweep.measured[key] = _measured(sweep, wanted, key)
    return bool(missing)


def _measured(sweep: Sweep, wanted: Plan, key: str) -> dict[str, Any]:
    from attnres_cli.bench.metrics import bench_facts
    from attnres_cli.bench.payload import SAMPLE_SECONDS
    from attnres_cli.bench.presets import bench_presets

    bench = wanted.benches[key]
    preset = base_preset(sweep)
    presets = {label: _bench_preset(preset, sweep.arm(label), bench.changes, key) for label in bench.arms}
    result = bench_presets(
        presets,
        vocab_sizes=dict.fromkeys(presets, sweep.vocab_size),
        mode=bench.mode,
        prompt_tokens=bench.prompt_tokens,
        pairs=bench.pairs,
        sample_seconds=SAMPLE_SECONDS,
    )
    return bench_facts(result)


def _bench_preset(preset: Preset, arm: Arm, changes: Mapping[str, Any], where: str) -> Preset:
    """Raises UserError where the bench's changes make no preset."""
    try:
        return with_arm(preset, arm, changes)
    except UserError as error:
        raise UserError(
            f"The arm '{arm.label}' cannot be timed so: {str(error).rstrip('.')}.", where=where
        ) from None  # fmt: skip


def _plan(values: dict[str, Any]) -> Plan:
    from attnres_cli.sweep.reproduction import Plan

    return Plan.model_validate(values)


def _arm(source: Source, plain: Preset, plan: Plan, label: str, where: str) -> Arm:
    """A scheme with its defaults, an overlay, or one of them with keys of its own. Raises UserError.

    plain: what the source loads, without the plan's changes: they are no overlay's, and none takes them back.
    """
    own = plan.arms.get(label)
    said = label if own is None else own.scheme or own.overlay
    assert said is not None
    if own is not None:
        sets = [f"residual.{format_key(key)}={format_value(value)}" for key, value in own.residual.items()]
        source = replace(source, sets=sets)
    try:
        if said in names("residual.schemes"):
            arm = scheme_arm(source, said)
        else:
            arm = overlay_arm(source, plain, find(said, "overlay", where=where))
    except UserError as error:
        raise UserError(
            f"The plan needs the arm '{label}': {str(error).rstrip('.')}.", where=where,
            expected="a scheme, an overlay, or a table under [arms]",
        ) from None  # fmt: skip
    return arm if own is None else replace(arm, label=label, changes={**arm.changes, **own.changes})
