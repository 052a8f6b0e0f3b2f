"""Oracles of the numbers of pictures, which `attnres report` has as tables: curves over depth or training.

Each is the mean over the runs of an arm, with its 95 % interval (docs/figures.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tests.recomputed.arms import Compared
from tests.recomputed.compared_groups import pairs
from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.raw import Row, Run
from tests.recomputed.statistics import mean, t_interval

Curve = dict[float, float]


def curves(of_arms: Sequence[Sequence[Curve]]) -> Rows:
    """A row per place; per arm the mean over its runs (curves) and Student's interval."""
    rows = []
    for x in sorted({x for of_runs in of_arms for curve in of_runs for x in curve}):
        row: dict[str, Any] = {"x": x}
        for number, of_runs in enumerate(of_arms):
            values = [curve[x] for curve in of_runs if x in curve]
            if len(values) == len(of_runs):
                low, high = t_interval(values)
                row |= {f"y_{number}": mean(values), f"low_{number}": low, f"high_{number}": high}
        rows.append(row)
    return rows


def losses(rows_of: Callable[[Run], list[Row]], compared: Compared) -> Rows:
    return curves([[_by_tokens(rows_of(run)) for run in arm.counted] for arm in compared.arms])


def _by_tokens(rows: list[Row]) -> Curve:
    return {row["tokens"]: row["loss"] for row in rows}


def differences(compared: Compared) -> Rows:
    """Pair by pair, where both were evaluated."""
    of_arms = []
    for arm in compared.others:
        both = [(_by_tokens(ours.evaluated), _by_tokens(theirs.evaluated)) for ours, theirs in pairs(compared, arm)]
        of_arms.append([{x: ours[x] - theirs[x] for x in ours.keys() & theirs.keys()} for ours, theirs in both])
    return curves(of_arms)


def over_depth(observer: str, key: str, first: int, compared: Compared) -> Rows:
    def curve(run: Run) -> Curve:
        summary = run.observed(observer)
        assert summary is not None
        return dict(enumerate(summary[key], start=first))

    return curves([[curve(run) for run in arm.counted] for arm in compared.arms])


def weights(label: str, compared: Compared) -> Rows:
    """The mean weights of an arm: a row per site, a column per source."""
    sites = [_sites(run) for run in compared.arm(label).counted]
    most = max(len(site["mean"]) for site in sites[0])
    rows = []
    for of_runs in zip(*sites, strict=True):
        found = [mean(of_source) for of_source in zip(*(site["mean"] for site in of_runs), strict=True)]
        padded = [*found, *[None] * (most - len(found))]
        rows.append({"row": _name(of_runs[0]), **{f"column_{place}": value for place, value in enumerate(padded)}})
    return rows


def _sites(run: Run) -> list[Row]:
    summary = run.observed("depth_weights")
    assert summary is not None
    return list(summary["sites"])


def _name(site: Row) -> str:
    if site["kind"] == "output":
        return "output"
    return f"{'attention' if site['ordinal'] % 2 == 0 else 'feed-forward'} {site['ordinal'] // 2}"


# By the name of the picture; those of depth weights are one per arm.
PICTURES: dict[str, Oracle] = {
    "loss": partial(losses, lambda run: run.evaluated),
    "training-loss": partial(losses, lambda run: run.train_rows),
    "loss-difference": differences,
    "stream-rms": partial(over_depth, "magnitudes", "stream_rms", 0),
    "output-rms": partial(over_depth, "magnitudes", "output_rms", 0),
    "update-share": partial(over_depth, "magnitudes", "update_share", 0),
    "parameter-gradients": partial(over_depth, "gradients", "parameter_grad_norm", 0),
    "activation-gradients": partial(over_depth, "gradients", "activation_grad_norm", 1),
    "depth-weights-attnres-block": partial(weights, "attnres-block"),
    "depth-weights-attnres-full": partial(weights, "attnres-full"),
}
ORACLES: dict[str, Oracle] = {f"{name}-numbers": oracle for name, oracle in PICTURES.items()}
BUILT_IN = {"f'{view.key}-numbers'": "report/data_table.py"}
