"""Oracles of a reproduction, by docs/reproduction.md: each claim's estimate, interval and p, and the power that was
there before.

The plan is the one in sweep.json; losses come from metrics.jsonl, figures from what observers saw (sweeps_figures.py),
times from the samples of the bench.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from tests.recomputed.harness import Rows
from tests.recomputed.statistics import deviation, holm, mean, median_interval, t_interval
from tests.recomputed.sweeps_contrasts import FEWEST_PAIRS
from tests.recomputed.sweeps_figures import figure, is_ratio
from tests.recomputed.sweeps_files import Files, Planned, own_flops
from tests.recomputed.sweeps_horizon import multiplier
from tests.recomputed.sweeps_optimum import fitted, shifted
from tests.recomputed.sweeps_power import Claim, before, bound


@dataclass(frozen=True)
class Found:
    """What a test gives. estimate, low, high: of a ratio its logarithm."""

    estimate: float
    low: float | None
    high: float | None
    p: float
    n: int
    here: str


# ---------------------------------------------------------------------- tests


def _runs(files: Files, claim: Claim, place: str) -> list[Planned]:
    """Of "cell/arm", with the seeds that the claim was planned with."""
    cell, _, label = place.partition("/")
    return [each for each in files.at(cell, label) if each.seed in files.seeds[: claim.get("seeds")]]


def _places(claim: Claim) -> list[str]:
    if claim["test"] == "overhead":
        return []
    if claim["test"] == "optimum":
        return [*claim["arm"], *claim["baseline"]]
    return list(claim["weights"]) if claim["test"] == "contrast" else [claim["arm"], *claim["ladder"]]


def _values(files: Files, claim: Claim, place: str) -> dict[int, float]:
    """Seed → loss or figure; a run that diverged has the loss of a model that knows nothing."""
    name, found = claim.get("figure", "loss"), {}
    for each in _runs(files, claim, place):
        value = each.loss if name == "loss" or each.run is None else figure(each.run, name)
        if name == "loss" and each.status == "diverged":
            value = math.log(files.document["vocab_size"])
        if value is not None and each.status in ("finished", "diverged"):
            found[each.seed] = math.log(value) if is_ratio(name) else value
    return found


def _is_waiting(files: Files, claim: Claim) -> bool:
    if claim["test"] == "overhead":
        return claim["bench"] not in files.document["measured"]
    runs = [each for place in _places(claim) for each in _runs(files, claim, place)]
    return any(each.status in ("planned", "running", "interrupted") for each in runs)


def _contrast(files: Files, claim: Claim) -> Found | None:
    known = {place: _values(files, claim, place) for place in claim["weights"]}
    seeds = sorted(set.intersection(*(set(values) for values in known.values())))
    sums = [sum(weight * known[place][seed] for place, weight in claim["weights"].items()) for seed in seeds]
    if len(sums) < FEWEST_PAIRS:
        return None
    low, high = t_interval(sums)
    shown: Callable[[float], str] = (
        (lambda x: f"{math.exp(x):.2f}×") if is_ratio(claim.get("figure", "loss")) else _signed
    )
    here = f"{shown(mean(sums))} ({shown(low)} to {shown(high)})"
    return Found(mean(sums), low, high, _p(sums, claim), len(sums), here)


def _signed(value: float) -> str:
    return f"{value:+.4f}"


def _p(sums: Sequence[float], claim: Claim) -> float:
    """Two-sided against the bound; "within" is one-sided, of the bound that is nearer."""
    if claim["expected"] != "within":
        return float(stats.ttest_1samp(sums, bound(claim)).pvalue)
    error = deviation(sums) / math.sqrt(len(sums))
    return float(stats.t.sf(abs(bound(claim) - abs(mean(sums))) / error, len(sums) - 1))


def _multiplier(files: Files, claim: Claim) -> Found | None:
    """How much more compute the ladder needs for the arm's loss; tested on log losses at `bound` times the arm's."""
    losses = [_values(files, claim, place) for place in _places(claim)]
    seeds = sorted(set.intersection(*(set(each) for each in losses)))
    if len(seeds) < FEWEST_PAIRS:
        return None
    own, *rungs = ([each[seed] for seed in seeds] for each in losses)
    at, *compute = (own_flops(_trained(files, claim, place)) for place in _places(claim))
    expected = [
        np.interp(math.log(claim["bound"] * at), np.log(compute), [math.log(rung[place]) for rung in rungs])
        for place in range(len(seeds))
    ]
    p = stats.ttest_1samp([math.log(loss) - float(e) for loss, e in zip(own, expected, strict=True)], 0.0).pvalue
    found = multiplier([each / at for each in compute], rungs, own)
    value, low, high = (None if found[key] is None else math.log(found[key]) for key in ("value", "low", "high"))
    if value is None:  # beyond an end of the ladder
        is_above = mean([math.log(loss) for loss in own]) < mean([math.log(loss) for loss in rungs[-1]])
        value = math.log(found["last"] if is_above else found["first"])
    return Found(value, low, high, float(p), len(seeds), _in_words(found, value))


def _in_words(found: Mapping[str, Any], value: float) -> str:
    """An end of the interval, or the multiplier itself, that lies beyond the ladder is named by the ladder's end."""
    first, last = found["first"], found["last"]
    low = f"below {first:.3g}" if found["low"] is None else f"{found['low']:.2f}"
    high = f"above {last:.3g}" if found["high"] is None else f"{found['high']:.2f}"
    if found["value"] is not None:
        return f"{found['value']:.2f}× ({low}–{high})"
    is_above = value > math.log(math.sqrt(first * last))
    text = f"more than {last:.3g}×" if is_above else f"less than {first:.3g}×"
    is_shown = found["low"] == last if is_above else found["high"] == first
    return text if is_shown else f"{text} ({low}–{high})"


def _trained(files: Files, claim: Claim, place: str) -> Any:
    return next(each.run for each in _runs(files, claim, place) if each.run is not None)


def _optimum(files: Files, claim: Claim) -> Found | None:
    """Log ratio of the smooth optima of d_model to L_b, and the paired t-test of how far every seed moves them."""
    losses = {place: _values(files, claim, place) for place in _places(claim)}
    seeds = sorted(set.intersection(*(set(values) for values in losses.values())))
    if len(seeds) < FEWEST_PAIRS:
        return None
    ours, theirs = (
        fitted(
            [_trained(files, claim, place) for place in places],
            [{seed: losses[place][seed] for seed in seeds} for place in places],
        )
        for places in (claim["arm"], claim["baseline"])
    )
    if ours.ratio is None or theirs.ratio is None:
        narrowest = min(_width_to_depth(_trained(files, claim, place)) for place in _places(claim))
        ends = {True: "deepest", False: "widest"}
        here = "; ".join(
            f"the {name} is best at the {ends[math.isclose(each.end, narrowest)]} shape or beyond"
            for name, each in (("arm", ours), ("baseline", theirs))
            if each.ratio is None
        )
        return Found(math.log(ours.end / theirs.end), None, None, 1.0, len(seeds), here)
    test = shifted(ours, theirs)
    factor, low, high = (f"{math.exp(each):.2f}×" for each in (test.mean, test.low, test.high))
    return Found(test.mean, test.low, test.high, test.p, len(seeds), f"{factor} ({low} to {high})")


def _width_to_depth(run: Any) -> float:
    return float(run.resolved["model"]["d_model"] / run.resolved["model"]["transformer_blocks"])


def _overhead(files: Files, claim: Claim) -> Found:
    """Sign test over the rounds of a bench; on a CPU by the processor's clock."""
    bench = files.document["measured"][claim["bench"]]
    assert bench["setting"]["device"] == "cpu"
    base, arm = bench["arms"][0], next(each for each in bench["arms"] if each["name"] == claim["arm"])
    ratios = [ours / theirs for ours, theirs in zip(arm["cpu_seconds"], base["cpu_seconds"], strict=True)]
    middle, low, high = median_interval(ratios)
    below = sum(ratio < claim["bound"] for ratio in ratios)
    p = float(stats.binomtest(below, len(ratios)).pvalue)
    return Found(middle, low, high, p, len(ratios), f"{middle:.3f}× ({low:.3f}× to {high:.3f}×)")


TESTS: Mapping[str, Callable[[Files, Claim], Found | None]] = {
    "contrast": _contrast,
    "multiplier": _multiplier,
    "optimum": _optimum,
    "overhead": _overhead,
}


# ---------------------------------------------------------------------- tables


@dataclass(frozen=True)
class Row:
    claim: Claim
    power: float | None
    is_tested: bool
    found: Found | None
    p_holm: float | None
    diverged: int


def judged(files: Files) -> list[Row]:
    """Every claim; corrected together, those that wait for runs with p = 1."""
    claims = files.document["request"]["plan"]["claims"]
    known = before(files.document["request"]["plan"])
    waiting = {claim["key"] for claim in claims if _is_waiting(files, claim)}
    tested = [claim for claim in claims if known[claim["key"]][0]]
    found = {each["key"]: TESTS[each["test"]](files, each) for each in tested if each["key"] not in waiting}
    p_values = {key: each.p for key, each in found.items() if each is not None}
    corrected = holm({**p_values, **{each["key"]: 1.0 for each in tested if each["key"] in waiting}})
    rows = []
    for claim in claims:
        key = claim["key"]
        is_tested, before_runs = known[key]
        runs = [each for place in _places(claim) for each in _runs(files, claim, place)]
        lost = sum(each.status == "diverged" for each in runs) if key in found else 0
        rows.append(
            Row(claim, before_runs, is_tested, found.get(key), corrected.get(key) if found.get(key) else None, lost)
        )
    return rows


def claims(files: Files) -> Rows:
    return [
        {"here": each.found.here if each.found else None, "paper": each.claim["paper"], "claim": each.claim["claim"]}
        for each in judged(files)
        if each.is_tested
    ]


def claim_tests(files: Files) -> Rows:
    tested = [each for each in judged(files) if each.is_tested]
    return [
        {
            "claim": each.claim["key"],
            "source": each.claim["source"],
            "n": each.found and each.found.n,
            "power": each.power,
            "p": each.found and each.found.p,
            "p_holm": each.p_holm,
            "diverged": each.diverged or None,
        }
        for each in tested
    ]


def _planned(each: Row) -> dict[str, Any]:
    assumed = each.claim.get("assumed", {})
    figures = {"effect": assumed.get("effect"), "spread": assumed.get("standard_deviation")}
    return {"power": each.power, **figures, "claim": each.claim["claim"]}


def claims_left_out(files: Files) -> Rows:
    return [{**_planned(each), "paper": each.claim["paper"]} for each in judged(files) if not each.is_tested]


def planned_claims(files: Files) -> Rows:
    return [_planned(each) for each in judged(files)]


def claims_payload(files: Files) -> list[dict[str, Any]]:
    return [
        {
            **{key: each.found and getattr(each.found, key) for key in ("estimate", "low", "high", "p", "n")},
            "p_holm": each.p_holm,
            "power_before": each.power,
            "diverged_runs": each.diverged,
        }
        for each in judged(files)
    ]


ORACLES = {
    "claims": claims,
    "claim_tests": claim_tests,
    "claims_left_out": claims_left_out,
    "planned_claims": planned_claims,
}
BUILT_IN = dict.fromkeys(ORACLES, "report/sweeps/reproduce.py")
