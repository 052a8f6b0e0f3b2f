"""Points × arms × seeds → runs: what every kind of sweep shares when it is planned.

A kind says which points its grid has, each with the keys of the preset that it changes. Here every point is tried with
every arm; what does not fit becomes a row with its reason, everything else is counted, timed and priced, and given
tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attnres_cli.errors import Fault, UserError
from attnres_cli.sweep.budget import (
    Calibrate,
    TimedRun,
    interpolated,
    sample_positions,
    tokens_for_flops,
    tokens_for_minutes,
    wall_seconds,
)
from attnres_cli.sweep.counting import counts_of
from attnres_cli.sweep.request import Request
from attnres_cli.sweep.resolve import HORIZON, SEED, with_arm
from attnres_cli.sweep.results import Arm, Cell, Run, Sweep
from attnres_cli.sweep.shapes import Counts

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset


@dataclass(frozen=True)
class Context:
    """What a plan needs beside the request.

    parallel_runs: how many will train beside each other (for the time). calibrate: times training steps; None where
    nothing is to be timed. tokens: per run, where that is settled already (a sweep that is continued).
    """

    name: str
    command: str
    vocab_size: int
    parallel_runs: int = 1
    calibrate: Calibrate | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Point:
    """A cell that a kind asks for.

    changes: "section.key" → value for every run of it. size: along which the time of a step is interpolated between
    timed points; None: training FLOPs per token. after: key of an earlier point whose run (of the same arm and seed)
    has to finish before; after_step: the step of that run where this one leaves it, so that it trains the rest only.
    seeds: label → how many of the seeds it is trained with here, for a cell that not every arm has; None: all of both.
    """

    key: str
    coordinates: Mapping[str, Any]
    changes: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    size: float | None = None
    after: str | None = None
    after_step: int | None = None
    seeds: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Place:
    """A point with an arm that fits it. preset: without seed and tokens."""

    point: Point
    arm: Arm
    preset: Preset
    counts: Counts
    size: float

    @property
    def own_tokens(self) -> int | None:
        """Tokens per run where the point or the arm says them, which no budget changes."""
        own = {**self.arm.changes, **self.point.changes}
        return self.preset.train.horizon_tokens if own.get(HORIZON) is not None else None

    def seeds_of(self, request: Request) -> tuple[int, ...]:
        own = self.point.seeds
        return request.seed_values if own is None else request.seed_values[: own[self.arm.label]]


def lay_out(
    request: Request,
    context: Context,
    points: Sequence[Point],
    *,
    report: str,
    facts: Mapping[str, Any] | None = None,
    impossible: Iterable[Mapping[str, Any]] = (),
    trials: int = 0,
) -> Sweep:
    """The sweep of these points.

    report: the file of report/sweeps/ that shows it. impossible: what the kind has found to be impossible already.
    trials: runs that every arm at every point will have beside those of its seeds, for a budget of minutes. Raises
    UserError when no run is left, or when the budget is too small for the sweep.
    """
    places, refused = _places(request, context, points)
    refused = [*map(dict, impossible), *refused]
    if not places:
        raise UserError([_fault(each) for each in refused])
    timed = _timed(places, context.calibrate)
    tokens, budget = _tokens(request, context, places, timed, trials)
    runs, twins = _runs(request, places, tokens, timed)
    if timed:
        budget |= _price(runs, timed, context.parallel_runs)
    preset = request.preset
    used = {place.point.key for place in places}
    return Sweep(
        name=context.name,
        kind=request.kind,
        report=report,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=context.command,
        request=request.to_dict(),
        preset={
            "name": preset.name,
            "digest": preset.digest(),
            "values": preset.to_dict(),
            "source_text": preset.source_text,
        },
        arms=list(request.arms),
        seeds=list(request.seed_values),
        planned_seeds=request.seeds,
        vocab_size=context.vocab_size,
        budget=budget,
        tokens=tokens,
        tokens_per_step=preset.train.tokens_per_step,
        facts=dict(facts or {}),
        cells=[
            Cell(point.key, dict(point.coordinates), {"counts": _counts(point, places), **point.facts})
            for point in points
            if point.key in used
        ],
        impossible=[*refused, *twins],
        runs=runs,
    )


def refusal(point: Point, arm: Arm | None, reason: str) -> dict[str, Any]:
    """A row for what cannot be. arm: None where the whole cell cannot."""
    coordinates = dict(point.coordinates)
    return {"key": point.key, "arm": arm.label if arm else None, "coordinates": coordinates, "reason": reason}


def _places(request: Request, context: Context, points: Sequence[Point]) -> tuple[list[Place], list[dict[str, Any]]]:
    """(what fits, a row for everything that does not)"""
    places: list[Place] = []
    refused = []
    for point in points:
        for arm in request.arms:
            if point.seeds is not None and arm.label not in point.seeds:
                continue
            try:
                preset = with_arm(request.preset, arm, point.changes)
                counts = counts_of(preset, context.vocab_size)
            except UserError as error:
                refused.append(refusal(point, arm, str(error).rstrip(".")))
                continue
            size = counts.training_flops_per_token if point.size is None else point.size
            places.append(Place(point, arm, preset, counts, size))
    return places, refused


def _fault(row: Mapping[str, Any]) -> Fault:
    words = " ".join(filter(None, [row["key"] and f"cell {row['key']}", row["arm"] and f"arm {row['arm']}"]))
    return Fault(
        f"{words[:1].upper()}{words[1:]} is impossible: {row['reason']}.", hint="another preset, or other axes"
    )


def _counts(point: Point, places: Sequence[Place]) -> dict[str, Any]:
    return {place.arm.label: asdict(place.counts) for place in places if place.point.key == point.key}


# ---------------------------------------------------------------------- time and tokens

# arm → size → seconds of one training step
Timed = Mapping[str, Mapping[float, float]]


def _timed(places: Sequence[Place], calibrate: Calibrate | None) -> dict[str, dict[float, float]]:
    """Every arm at the points that stand for the rest: the smallest, a middle and the largest; nothing where nothing is
    to be timed."""
    if calibrate is None:
        return {}
    points: dict[str, list[Place]] = {}
    for place in places:
        points.setdefault(place.point.key, []).append(place)
    sizes: dict[float, list[Place]] = {}
    for group in points.values():  # points of one size take the same time: the one with most arms stands for them
        if len(group) > len(sizes.get(group[0].size, [])):
            sizes[group[0].size] = group
    groups = list(sizes.values())
    timed: dict[str, dict[float, float]] = {}
    for position in sample_positions([group[0].size for group in groups]):
        group = groups[position]
        for label, seconds in calibrate({place.arm.label: place.preset for place in group}).items():
            timed.setdefault(label, {})[group[0].size] = seconds
    return timed


def _step_seconds(place: Place, timed: Timed) -> float:
    """On straight lines between timed sizes; an arm that no timed point had takes as long as the slowest."""
    known = timed.get(place.arm.label)
    if known:
        return interpolated(known, place.size)
    return max(interpolated(each, place.size) for each in timed.values())


def _timed_run(place: Place, timed: Timed) -> TimedRun:
    preset = place.preset
    every = preset.eval.every_steps * preset.train.tokens_per_step or None
    return TimedRun(_step_seconds(place, timed) / preset.train.tokens_per_step, preset.eval.tokens, every)


def _tokens(
    request: Request, context: Context, places: Sequence[Place], timed: Timed, trials: int
) -> tuple[int, dict[str, Any]]:
    """(tokens of every run that does not say its own, what the sweep file keeps about where they came from)"""
    budget, preset = request.budget, request.preset
    kept = asdict(budget)
    if context.tokens is not None:
        return context.tokens, kept
    if budget.kind == "preset":
        return preset.train.horizon_tokens, kept
    assert budget.value is not None
    per_step = preset.train.tokens_per_step
    if budget.kind == "flops":
        first = with_arm(preset, request.arms[0], {})
        per_token = counts_of(first, context.vocab_size).training_flops_per_token
        return tokens_for_flops(budget.value, per_token, per_step), kept
    if not timed:
        raise UserError(
            "No training step could be timed, so minutes cannot be turned into tokens.",
            where="--budget-minutes",
            expected="a preset that can take a training step here",
            hint=f"attnres train {preset.name} --steps 1",
        )
    runs = [_timed_run(place, timed) for place in places for _ in range(len(place.seeds_of(request)) + trials)]
    return tokens_for_minutes(budget.value, runs, context.parallel_runs, per_step), kept


def _price(runs: Sequence[Run], timed: Timed, parallel_runs: int) -> dict[str, Any]:
    return {
        "estimated_minutes": wall_seconds([run.cost for run in runs], parallel_runs) / 60,
        "parallel_runs": parallel_runs,
        "step_seconds": {
            label: {f"{size:g}": seconds for size, seconds in of_arm.items()} for label, of_arm in timed.items()
        },
    }


# ---------------------------------------------------------------------- runs


def _runs(
    request: Request, places: Sequence[Place], tokens: int, timed: Timed
) -> tuple[list[Run], list[dict[str, Any]]]:
    """(one run per place and seed, a row for every place that is another one under a second name)"""
    runs: list[Run] = []
    twins = []
    known: dict[str, Run] = {}
    for place in places:
        point, per_step = place.point, place.preset.train.tokens_per_step
        horizon = place.own_tokens or tokens
        trained = (-(-horizon // per_step) - (point.after_step or 0)) * per_step
        flops = place.counts.training_flops_per_token * trained
        cost = _timed_run(place, timed).seconds(trained) if timed else flops
        before = {run.seed: run.digest for run in runs if (run.cell, run.arm) == (point.after, place.arm.label)}
        mine = [
            Run(
                cell=point.key,
                arm=place.arm.label,
                digest=place.preset.replace({HORIZON: horizon, SEED: seed}).digest(),
                seed=seed,
                changes={**point.changes, HORIZON: horizon},
                cost=cost,
                flops=flops,
                planned_tokens=trained,
                after=before.get(seed),
                after_step=point.after_step if seed in before else None,
            )
            for seed in place.seeds_of(request)
        ]
        twin = known.get(mine[0].digest)
        if twin is not None:
            words = " ".join(filter(None, [twin.cell, twin.arm]))
            twins.append(refusal(point, place.arm, f"the same preset as {words}"))
            continue
        known |= {run.digest: run for run in mine}
        runs += mine
    return runs, twins
