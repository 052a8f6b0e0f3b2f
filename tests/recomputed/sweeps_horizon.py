"""Oracles of the horizon ladder, by docs/horizon.md: rungs, losses at decayed ends, differences, compute
multipliers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.statistics import mean
from tests.recomputed.sweeps_contrasts import Contrast, against_reference, contrast, half_width, mean_loss
from tests.recomputed.sweeps_files import Files, own_flops

PLACES = 1000


@dataclass(frozen=True)
class Rung:
    """One horizon: key of its cell, multiple of the preset's tokens, tokens."""

    key: str
    ratio: float
    tokens: int


def rungs_of(files: Files) -> list[Rung]:
    """By ascending length."""
    found = [
        Rung(
            cell["key"], cell["coordinates"]["horizon"], files.trained(cell["key"], files.reference).manifest["tokens"]
        )
        for cell in files.cells
    ]
    return sorted(found, key=lambda rung: rung.ratio)


def rungs(files: Files) -> Rows:
    """What each rung trains itself. It decays over the last `decay_fraction` of its steps, and leaves the rung below it
    where that one begins to decay."""
    rows: Rows = []
    leaves = 0
    for rung in rungs_of(files):
        run = files.trained(rung.key, files.reference)
        steps, train = run.manifest["steps"], run.resolved["train"]
        constant = steps - max(1, round(train["decay_fraction"] * steps))
        assert run.manifest.get("branched_from", {}).get("step", 0) == leaves
        assert train["schedule"] == "wsd"
        rows.append(
            {
                "horizon": rung.ratio,
                "tokens": run.manifest["tokens"],
                "steps": steps,
                "first_step": leaves,
                "constant_steps": constant,
                "trained_steps": steps - leaves,
                "flops": sum(
                    own_flops(each.run or files.trained(*each.place))
                    for each in files.runs
                    if each.place[0] == rung.key
                ),
            }
        )
        leaves = constant
    return rows


def saved(files: Files) -> float:
    """The share of the steps that is not trained twice."""
    found = rungs(files)
    return float(1 - sum(row["trained_steps"] for row in found) / sum(row["steps"] for row in found))


def losses(files: Files) -> Rows:
    return [
        {
            "horizon": rung.ratio,
            "tokens": rung.tokens,
            **{f"loss_{label}": mean_loss(files, rung.key, label) for label in files.labels},
        }
        for rung in rungs_of(files)
    ]


def shown_halves(files: Files) -> list[list[str]]:
    """The half-widths as the table shows them behind the losses: "± 0.0123"."""
    halves = [
        [half_width(list(files.losses(rung.key, label).values())) for label in files.labels] for rung in rungs_of(files)
    ]
    return [["" if each is None else f"± {each:.4f}" for each in row] for row in halves]


def differences(files: Files) -> Rows:
    found = against_reference(files)
    return [
        {"horizon": rung.ratio, "scheme": label, **_difference(found.get((rung.key, label)))}
        for label in files.labels[1:]
        for rung in rungs_of(files)
    ]


def _difference(found: Contrast | None) -> dict[str, Any]:
    if found is None:
        return {"delta": None, "low": None, "high": None, "p": None, "pairs": 0}
    return {"delta": found.mean, "low": found.low, "high": found.high, "p": found.p, "pairs": found.pairs}


def trends(files: Files) -> dict[str, dict[str, Any]]:
    """The change of Δ per doubling of the tokens: the slope over log₂ tokens of each seed that has Δ at every rung
    where anybody has it; a mean over seeds, tested once."""
    found = {}
    for label in files.labels[1:]:
        by_rung = {rung.tokens: _deltas(files, label, rung) for rung in rungs_of(files)}
        by_rung = {tokens: deltas for tokens, deltas in by_rung.items() if deltas}
        seeds = sorted(set.intersection(*(set(deltas) for deltas in by_rung.values())))
        x = [math.log2(tokens) for tokens in by_rung]
        slopes = {seed: float(np.polyfit(x, [each[seed] for each in by_rung.values()], 1)[0]) for seed in seeds}
        each = contrast(slopes, dict.fromkeys(slopes, 0.0))
        assert each is not None
        waits = any(files.waits(rung.key, label, files.reference) for rung in rungs_of(files))
        found[label] = {**each.values(), **({"p_holm": None} if waits else {})}
    return found


def _deltas(files: Files, label: str, rung: Rung) -> dict[int, float]:
    ours, theirs = files.losses(rung.key, label), files.losses(rung.key, files.reference)
    return {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}


# ---------------------------------------------------------------------- compute multipliers


def multipliers(files: Files) -> Rows:
    found = {(each["cell"], each["arm"]): each for each in multipliers_payload(files)}
    rows: Rows = []
    for label in files.labels[1:]:
        for rung in rungs_of(files):
            each = found[rung.key, label]
            rows.append(
                {
                    "horizon": rung.ratio,
                    "scheme": label,
                    "flops": files.trained(rung.key, label).manifest["flops"]["total"],
                    "multiplier": each["value"],
                    **{key: each[key] for key in ("low", "high", "pairs")},
                }
            )
    return rows


def multipliers_payload(files: Files) -> list[dict[str, Any]]:
    """The reference's own ladder: the rungs that it has finished with every seed of the pair."""
    found = []
    for label in files.labels[1:]:
        for rung in rungs_of(files):
            seeds = list(_deltas(files, label, rung))
            steps = [each for each in rungs_of(files) if set(seeds) <= files.losses(each.key, files.reference).keys()]
            at = files.trained(rung.key, label).manifest["flops"]["total"]
            compute = [files.trained(each.key, files.reference).manifest["flops"]["total"] / at for each in steps]
            ladder = [[files.losses(each.key, files.reference)[seed] for seed in seeds] for each in steps]
            own = [files.losses(rung.key, label)[seed] for seed in seeds]
            found.append({"cell": rung.key, "arm": label, **multiplier(compute, ladder, own), "confidence": 0.95})
    return found


def multiplier(compute: Sequence[float], ladder: Sequence[Sequence[float]], own: Sequence[float]) -> dict[str, Any]:
    """compute: of the rungs, in units of the scheme's own. ladder: per rung the reference's losses by seed."""
    x = [math.log(each) for each in compute]
    logs, ours = [[math.log(loss) for loss in rung] for rung in ladder], [math.log(loss) for loss in own]
    value = _crossing(x, _falling([mean(rung) for rung in logs]), mean(ours))
    low, high = _interval(x, logs, ours) if len(own) > 1 else (None, None)
    ends = {"value": value, "low": low, "high": high}
    return {
        **{key: None if each is None else math.exp(each) for key, each in ends.items()},
        "pairs": len(own),
        "first": compute[0],
        "last": compute[-1],
    }


def _falling(values: Sequence[float]) -> list[float]:
    """Rungs that noise put out of order are averaged: the nearest sequence that never rises."""
    pools: list[list[float]] = []
    for value in values:
        pools.append([value])
        while len(pools) > 1 and mean(pools[-2]) < mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [mean(pool) for pool in pools for _ in pool]


def _crossing(x: Sequence[float], y: Sequence[float], target: float) -> float | None:
    """Where falling y is at the target; None outside."""
    if not y[-1] <= target <= y[0]:
        return None
    for place in range(1, len(x)):
        if y[place] <= target:
            return x[place - 1] + (x[place] - x[place - 1]) * (y[place - 1] - target) / (y[place - 1] - y[place])
    return x[0]


def _interval(
    x: Sequence[float], ladder: Sequence[Sequence[float]], own: Sequence[float]
) -> tuple[float | None, float | None]:
    """The computes at which a paired t-test does not tell the two losses apart; None for an end beyond the ladder."""
    n = len(own)
    t = stats.t.ppf(0.975, n - 1)

    def differences(place: float) -> list[float]:
        return [own[seed] - float(np.interp(place, x, [rung[seed] for rung in ladder])) for seed in range(n)]

    def margin(place: float) -> float:
        found = np.array(differences(place))
        return float(abs(found.mean()) - t * found.std(ddof=1) / math.sqrt(n))

    places = np.linspace(x[0], x[-1], PLACES)
    accepted = [place for place in range(len(places)) if margin(places[place]) <= 0]
    if not accepted:
        return (x[-1], None) if mean(differences(x[-1])) < 0 else (None, x[0])
    first, last = accepted[0], accepted[-1]
    low = None if first == 0 else float(optimize.brentq(margin, places[first - 1], places[first], xtol=1e-13))
    high = (
        None if last == len(places) - 1 else float(optimize.brentq(margin, places[last], places[last + 1], xtol=1e-13))
    )
    return low, high


ORACLES: dict[str, Oracle] = {
    "rungs": rungs,
    "losses": losses,
    "differences": differences,
    "multipliers": multipliers,
}
BUILT_IN = dict.fromkeys(ORACLES, "report/tables/horizon.py")
