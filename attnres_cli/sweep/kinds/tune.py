"""Tuning: the learning rate of every arm, and what else is asked for, with the same number of trials each.

Which trials follow depends on what the ones before found and on the engine (analysis/tuners/), so a tune is planned
anew after every stage (`next_stage`); what has run is carried over. Its seeds lie beyond those of every other command,
so that no verdict rests on a run that also chose a rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attnres_cli.analysis.tuning import Search, Trial, all_trials, engine, factor
from attnres_cli.errors import ExitCode, UserError
from attnres_cli.report.tuning import QUERY_FACTOR, Tuning, search_of
from attnres_cli.residual.arms import default_arms
from attnres_cli.sweep.arms import Source, asked_arms, chosen_arms, named_arm, refuse_twice, scheme_arm
from attnres_cli.sweep.budget import wall_seconds
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.request import MOST_SEEDS, Request, carried_over, checked_seeds
from attnres_cli.sweep.resolve import HORIZON, SEED
from attnres_cli.sweep.results import Arm, Sweep

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

KIND = "tune"
GROWING = ("points",)
# Beyond every seed that a group or a study of this preset may have.
SEED_OFFSET = MOST_SEEDS
MOST_POINTS = 15
MOST_TRIALS = 500
DIGITS = 4
RATE, MUON_RATE, DECAY = "train.learning_rate", "train.muon_learning_rate", "train.weight_decay"


def make_request(
    ref: str,
    *,
    overlays: Sequence[str] = (),
    sets: Sequence[str] = (),
    residuals: Sequence[str] = (),
    arms: Sequence[str] = (),
    engine_name: str = "grid",
    trials: int | None = None,
    points: int = 5,
    weight_decay: bool = False,
    query_lr_factor: bool = False,
    horizon_fraction: float = 1.0,
    seeds: int = 1,
) -> Request:
    """The request that these options make.

    arms: schemes or overlays, instead of `residuals`. engine_name: a file of analysis/tuners/. trials: of every arm;
    None: as many as the grid takes. points: of the factor-2 grid of every axis, an odd number; another engine searches
    between the outermost.

    Raises UserError for an axis that no arm has, for an arm that says itself what is to be found, for a search that is
    too short to be one, and where the engine's library is missing.
    """
    conducting = engine(Search(engine=engine_name))
    conducting.check_installed()
    _check_trials(conducting, engine_name, trials)
    if not 3 <= points <= MOST_POINTS or points % 2 == 0:
        raise _usage(f"--points {points}: the preset's value and as many on either side.", "--points",
                     f"an odd number from 3 to {MOST_POINTS}")  # fmt: skip
    source = Source(ref, overlays, sets)
    preset = source.load()
    compared = _named(source, preset, arms) if arms else _schemes(source, preset, residuals)
    _refuse_what_is_to_be_found(compared, weight_decay=weight_decay, query_lr_factor=query_lr_factor)
    if query_lr_factor and not any(QUERY_FACTOR in arm.residual for arm in compared):
        raise _usage("No arm has depth queries, whose learning-rate factor could be tuned.", "--query-lr-factor",
                     f"an arm with the key residual.{QUERY_FACTOR}")  # fmt: skip
    if weight_decay and not preset.train.weight_decay:
        raise _usage("The weight decay is 0, and a grid of factors around it has only that.", "--weight-decay",
                     "a preset with a weight decay, or --set train.weight_decay=0.1")  # fmt: skip
    _check_fraction(preset, horizon_fraction)
    return Request(
        kind=KIND,
        preset=preset.replace({SEED: preset.train.seed + SEED_OFFSET}, said_by="the seeds of tuning"),
        arms=compared,
        seeds=checked_seeds(seeds),
        settings={
            "points": [2.0**step for step in range(-(points // 2), points // 2 + 1)],
            "weight_decay": weight_decay,
            QUERY_FACTOR: query_lr_factor,
            "horizon_fraction": horizon_fraction,
            "seed_offset": SEED_OFFSET,
            **({} if engine_name == "grid" else _of_another_engine(engine_name, trials, preset)),
        },
    )


def growing(request: Request) -> tuple[str, ...]:
    """Settings that may grow when asked for again: of some engines none."""
    return GROWING if engine(search_of(request.settings)).POINTS_MAY_GROW else ()


def most_cells(request: Request) -> int:
    """How many different trials at most: each arm may have its own."""
    return len(request.arms) * search_of(request.settings).trials_per_arm


def plan(request: Request, context: Context) -> Sweep:
    """Every run that the whole tuning will take, as if the preset's own values were the best: for its price."""
    search = search_of(request.settings)
    wanted = {arm.label: all_trials(search, has_query=QUERY_FACTOR in arm.residual) for arm in request.arms}
    return _laid_out(request, context, wanted)


def next_stage(request: Request, priced: Sweep, earlier: Sweep | None) -> Sweep:
    """The tune with every trial that is wanted by what `earlier` found, what has run carried over.

    priced: the whole of it, whose timing of a training step is used again.
    """
    before = Tuning.of({**priced.to_dict(), "cells": [], "runs": []} if earlier is None else earlier.to_dict())
    search = search_of(request.settings)
    wanted = {arm.label: before.wanted(arm.label, search) for arm in request.arms}
    seconds = priced.budget.get("step_seconds")
    context = Context(
        name=priced.name,
        command=priced.command,
        vocab_size=priced.vocab_size,
        parallel_runs=priced.budget.get("parallel_runs", 1),
        calibrate=None if seconds is None else lambda presets: {each: max(seconds[each].values()) for each in presets},
        tokens=priced.tokens,
    )
    sweep = _laid_out(request, context, wanted)
    return sweep if earlier is None else carried_over(sweep, earlier)


def _laid_out(request: Request, context: Context, wanted: Mapping[str, Sequence[Trial]]) -> Sweep:
    """The sweep of these trials: a cell per trial, in it only the arms that want it."""
    trials = sorted({trial for each in wanted.values() for trial in each}, key=lambda trial: (trial.full, trial))
    points = {trial: _point(request, trial) for trial in trials}
    is_wanted = {(points[trial].key, label) for label, each in wanted.items() for trial in each}
    sweep = lay_out(request, context, tuple(points.values()), report=KIND)
    sweep.runs = [run for run in sweep.runs if (run.cell, run.arm) in is_wanted]
    sweep.impossible = [row for row in sweep.impossible if (row["key"], row["arm"]) in is_wanted]
    if "estimated_minutes" in sweep.budget:
        seconds = wall_seconds([run.cost for run in sweep.runs], sweep.budget["parallel_runs"])
        sweep.budget = {**sweep.budget, "estimated_minutes": seconds / 60}
    return sweep


def _point(request: Request, trial: Trial) -> Point:
    """The cell of a trial: its values, and its place on the grid as a fact."""
    train = request.preset.train
    rate = _rounded(train.learning_rate * factor(trial.rate))
    changes: dict[str, Any] = {RATE: rate, HORIZON: _tokens(request, full=trial.full)}
    coordinates: dict[str, Any] = {"learning_rate": rate}
    if train.muon_learning_rate is not None:
        changes[MUON_RATE] = _rounded(train.muon_learning_rate * factor(trial.rate))
    if request.settings["weight_decay"]:
        changes[DECAY] = coordinates["weight_decay"] = _rounded(train.weight_decay * factor(trial.decay))
    if request.settings[QUERY_FACTOR]:
        coordinates[QUERY_FACTOR] = _rounded(_own_query_factor(request) * factor(trial.query))
        if trial.query:
            changes[f"residual.{QUERY_FACTOR}"] = coordinates[QUERY_FACTOR]
    words = [f"lr{rate:g}"]
    words += [f"wd{changes[DECAY]:g}"] if trial.decay else []
    words += [f"q{coordinates[QUERY_FACTOR]:g}"] if trial.query else []
    words += ["full"] if trial.full else []
    return Point("-".join(words), coordinates, changes, facts={"trial": asdict(trial)})


def _own_query_factor(request: Request) -> float:
    return next(float(arm.residual[QUERY_FACTOR]) for arm in request.arms if QUERY_FACTOR in arm.residual)


def _tokens(request: Request, *, full: bool) -> int:
    train, fraction = request.preset.train, float(request.settings["horizon_fraction"])
    if full or fraction == 1:
        return train.horizon_tokens
    return math.ceil(train.horizon_tokens * fraction / train.tokens_per_step) * train.tokens_per_step


def _schemes(source: Source, preset: Preset, residuals: Sequence[str]) -> tuple[Arm, ...]:
    if len(residuals) == 1:
        return (scheme_arm(source, residuals[0]),)
    return asked_arms(source, residuals) if residuals else chosen_arms(source, preset, (), default_arms("sweep"))


def _named(source: Source, preset: Preset, arms: Sequence[str]) -> tuple[Arm, ...]:
    refuse_twice(arms, "--arms", "arm")
    return tuple(named_arm(source, preset, each)[0] for each in arms)


def _refuse_what_is_to_be_found(arms: Sequence[Arm], *, weight_decay: bool, query_lr_factor: bool) -> None:
    """Raise UserError for an overlay that says what the trials are to find, or what they all share."""
    chosen = {RATE, MUON_RATE, HORIZON, SEED, *({DECAY} if weight_decay else ())}
    for arm in arms:
        if said := sorted(chosen & arm.changes.keys()):
            raise _usage(f"The overlay '{arm.label}' says {said[0]}, which the trials choose or share.", "--arms",
                         "an arm without it; --overlay puts an overlay on every arm")  # fmt: skip
    factors = {arm.residual[QUERY_FACTOR] for arm in arms if QUERY_FACTOR in arm.residual}
    if query_lr_factor and len(factors) > 1:
        raise _usage(f"The arms start from different values of {QUERY_FACTOR}: {', '.join(map(str, sorted(factors)))}.",
                     "--query-lr-factor", "arms with one common value, which is the middle of the range")  # fmt: skip


def _of_another_engine(name: str, trials: int | None, preset: Preset) -> dict[str, Any]:
    """The settings that the grid does not have."""
    return {"engine": name, "trials": trials, "sampler_seed": preset.train.seed + SEED_OFFSET}


def _check_trials(conducting: ModuleType, name: str, trials: int | None) -> None:
    if trials is None:
        return
    if not conducting.TAKES_TRIALS:
        raise _usage(f"--trials {trials}: those of the engine '{name}' follow from --points.", "--trials",
                     "--points, or another --engine")  # fmt: skip
    if not conducting.FEWEST_TRIALS <= trials <= MOST_TRIALS:
        raise _usage(f"--trials {trials}: of every arm, the last ones included.", "--trials",
                     f"{conducting.FEWEST_TRIALS} to {MOST_TRIALS}")  # fmt: skip


def _check_fraction(preset: Preset, fraction: float) -> None:
    steps = math.ceil(preset.train.horizon_tokens * fraction / preset.train.tokens_per_step)
    if not 0 < fraction <= 1 or (fraction < 1 and steps >= preset.steps):
        raise _usage(f"--horizon-fraction {fraction:g}: what share of {preset.steps:,} steps does the search take?",
                     "--horizon-fraction", "above 0, at most 1, and whole steps fewer than all")  # fmt: skip


def _rounded(value: float) -> float:
    """Four significant digits: what an overlay says, and what a folder is called."""
    return float(f"{value:.{DIGITS}g}")


def _usage(what: str, where: str, expected: str) -> UserError:
    return UserError(what, where=where, expected=expected, exit_code=ExitCode.USAGE)
