"""Causal importance of the sources: what the loss gains when one is left out, beside the weight that it had. Weight is
not importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Lines, Picture, Series, Views
from attnres_cli.report.pictures._over_probes import interval_words, probed_runs
from attnres_cli.report.pictures._probed import Probed, partly_words, probe_words
from attnres_cli.report.pictures._series import in_order, key_for, mean_curve, place_of, sentences, told
from attnres_cli.runs.metrics import number

ORDER = 60
DELTA = Axis("Δ loss without it", "nats per token")
WEIGHT = Axis("mean weight")
HOW = "the source is masked everywhere and the choice is made among the rest"


def build(comparison: Comparison) -> list[Picture]:
    probed = [(arm, runs) for arm in in_order(comparison) if (runs := probed_runs(arm, "importance"))]
    found: list[Picture] = []
    if beside := _weight_beside_importance(comparison, probed):
        found.append(beside)
    found += [picture for arm, runs in probed if (picture := _by_source(comparison, arm, runs))]
    if families := _by_family(comparison, probed):
        found.append(families)
    return found


def _weight_beside_importance(comparison: Comparison, probed: Sequence[tuple[Arm, list[Probed]]]) -> Lines | None:
    """A point per source: what it weighs, and what the loss gains without it."""
    series = []
    for arm, runs in probed:
        rows = [_point(runs, name) for name in _names(runs, "sources")]
        points = sorted(row for row in rows if row is not None)
        if points:
            weights, deltas, lows, highs = zip(*points, strict=True)
            has_interval = None not in lows
            series.append(
                Series(
                    arm.title, place_of(comparison, arm), weights, deltas, lows if has_interval else None,
                    highs if has_interval else None, joined=False,
                )
            )  # fmt: skip
    if not series:
        return None
    everyone = [run for _, runs in probed for run in runs]
    partly = [partly_words(arm, runs) for arm, runs in probed]
    caption = sentences("a point per source", HOW, interval_words(everyone, series), probe_words(everyone), *partly)
    title = "Importance of the sources beside their weight"
    return Lines("importance", title, WEIGHT, DELTA, tuple(series), told(title, series, WEIGHT), caption, zero=True)


def _by_source(comparison: Comparison, arm: Arm, runs: Sequence[Probed]) -> Views | None:
    """The same by name: Δ loss, and the weights to switch to."""
    names = _names(runs, "sources")
    if not names:
        return None
    place = place_of(comparison, arm)
    x = Axis("source", names=names)
    delta = _series(arm.title, place, runs, "sources", "delta", names)
    weight = _series(arm.title, place, runs, "sources", "mean_weight", names)
    key, title = key_for("importance", comparison, arm), f"Importance of each source, {arm.title}"
    caption = sentences(HOW, interval_words(runs, [delta]), probe_words(runs), partly_words(arm, runs))
    return Views(
        key, title, "figure", ("Δ loss", "mean weight"),
        (
            Lines(key, title, x, DELTA, (delta,), told(title, [delta], x), caption, zero=True),
            Lines(
                key, f"Mean weight of each source, {arm.title}", x, WEIGHT, (weight,),
                told(f"Mean weight of each source, {arm.title}", [weight], x),
                sentences(probe_words(runs), partly_words(arm, runs)), zero=True,
            ),
        ),
    )  # fmt: skip


def _by_family(comparison: Comparison, probed: Sequence[tuple[Arm, list[Probed]]]) -> Lines | None:
    """Families of sources (all attention outputs, …) left out together, all arms on one axis."""
    names = tuple(dict.fromkeys(name for _, runs in probed for name in _names(runs, "families")))
    if not names:
        return None
    series = tuple(
        _series(arm.title, place_of(comparison, arm), runs, "families", "delta", names) for arm, runs in probed
    )
    everyone = [run for _, runs in probed for run in runs]
    x = Axis("family of sources", names=names)
    partly = [partly_words(arm, runs) for arm, runs in probed]
    caption = sentences(HOW, interval_words(everyone, series), probe_words(everyone), *partly)
    title = "Importance of families of sources"
    return Lines("importance-families", title, x, DELTA, series, told(title, series, x), caption, zero=True)


def _names(runs: Sequence[Probed], listing: str) -> tuple[str, ...]:
    """The sources that every run has, in their order."""
    each = [[_name(row) for row in run.listed(listing)] for run in runs]
    return tuple(name for name in each[0] if all(name in other for other in each)) if each else ()


def _series(
    label: str, place: int, runs: Sequence[Probed], listing: str, key: str, names: Sequence[str]
) -> Series:  # fmt: skip
    """One point per name, on the name's place."""
    rows = [_row(run, listing, name) for run in runs[:1] for name in names]
    lists = [[number(_row(run, listing, name), key) for name in names] for run in runs]
    curve = mean_curve(lists)
    low, high = curve.low, curve.high
    if len(runs) == 1 and key == "delta":
        low, high = (tuple(number(row, side) for row in rows) for side in ("low", "high"))
    return Series(label, place, tuple(float(index) for index in range(len(names))), curve.y, low, high, joined=False)


def _name(row: Mapping[str, Any]) -> str:
    return str(row.get("source")).replace("_", "-")


def _row(run: Probed, listing: str, name: str) -> Mapping[str, Any] | None:
    return next((row for row in run.listed(listing) if _name(row) == name), None)


def _point(runs: Sequence[Probed], name: str) -> tuple[float, float, float | None, float | None] | None:
    """(weight, Δ, low, high) of a source, means over the runs; None where a run lacks one."""
    weight = mean_curve([[number(_row(run, "sources", name), "mean_weight")] for run in runs]).y[0]
    delta = _series("", 0, runs, "sources", "delta", [name])
    if weight is None or delta.y[0] is None:
        return None
    low, high = (side[0] if side else None for side in (delta.low, delta.high))
    return weight, delta.y[0], low, high
