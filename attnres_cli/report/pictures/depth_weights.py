"""Depth weights: how much each site takes from each source, as a heat map per arm, through training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Heat, Numbers, Picture, Views
from attnres_cli.report.pictures._over_depth import MOST_STEPS, evenly
from attnres_cli.report.pictures._probed import (
    Probed,
    may_be_averaged,
    observers_words,
    partly_words,
    probe_words,
    probed,
)
from attnres_cli.report.pictures._series import in_order, key_for, mean_curve, sentences

ORDER = 40
# kind of a site → how people call it
KINDS = {"attention": "attention", "feed_forward": "feed-forward"}
Sites = tuple[Mapping[str, Any], ...]
# With two sources one of them has half of the weight at least, and says little of what the model prefers.
SOURCES_OF_A_CHOICE = 3
# So large a share of their weights is told apart by its colour.
SHARE_BELOW = 0.95
ROUNDING = 1e-9  # a weight that is a round number but for its last bit needs no larger one


@dataclass(frozen=True)
class _Recorded:
    """What an arm has: its sites by step, ascending, means over `runs` of its runs. words: by step, what was probed."""

    steps: Mapping[int, Sites]
    runs: int
    words: Mapping[int, str]


@dataclass(frozen=True)
class _Scale:
    """The ends of the colours, and what is to be said of them."""

    low: float
    high: float
    words: str


def build(comparison: Comparison) -> list[Picture]:
    """One per arm that mixes over depth, all on one colour scale."""
    recorded = [(arm, found) for arm, found in _recorded(comparison) if found.steps]
    if not recorded:
        return []
    scale = _scale([site for _, found in recorded for sites in found.steps.values() for site in sites])
    return [_views(comparison, arm, found, scale) for arm, found in recorded]


def _scale(sites: Sequence[Mapping[str, Any]]) -> _Scale:
    """From 0 to where nearly all weights of the sites that choose among several sources are below it: in a deep model
    no weight comes near 1 but where there is little choice, and on a scale up to there all the others look alike."""
    weights = [weight for site in sites for weight in site["mean"] if weight is not None]
    low, high = min([0.0, *weights]), max([1.0, *weights])
    if low < 0:  # a scheme whose weights are no shares
        end = max(-low, high)
        return _Scale(-end, end, "")
    choosing = sorted(
        weight for site in sites if len(site["mean"]) >= SOURCES_OF_A_CHOICE for weight in site["mean"] if weight
    )
    if not choosing:
        return _Scale(low, high, "")
    among = choosing[min(len(choosing) - 1, int(SHARE_BELOW * len(choosing)))]
    unit = 0.05 if among > 0.1 else 0.01
    end = round(math.ceil(among / unit - ROUNDING) * unit, 2)
    if not 0 < end < high:
        return _Scale(low, high, "")
    words = (
        f"colours end at {end:g}, below which {SHARE_BELOW:.0%} of the weights are where there are "
        f"{SOURCES_OF_A_CHOICE} sources or more; larger ones have the last colour"
    ).replace("%", " %")
    return _Scale(low, end, words)


def _views(comparison: Comparison, arm: Arm, found: _Recorded, scale: _Scale) -> Picture:
    views = tuple(_heat(comparison, arm, step, found, scale) for step in found.steps)
    if len(views) == 1:
        return views[0]
    title = f"Depth weights of {arm.title}"
    names = tuple(f"{step:,}" for step in found.steps)
    return Views(views[0].key, title, "training step", names, views, len(views) - 1)


def _heat(comparison: Comparison, arm: Arm, step: int, found: _Recorded, scale: _Scale) -> Heat:
    sites = found.steps[step]
    columns = tuple(dict.fromkeys(source for site in sites for source in site["sources"]))
    values = tuple(_row(site, columns) for site in sites)
    rows = tuple(site_name(site) for site in sites)
    title = f"Depth weights of {arm.title}, step {step:,}"
    caption = sentences(
        "weight that each sublayer gives to each source, mean over the tokens of a fixed validation batch",
        f"mean over {found.runs} runs" if found.runs > 1 else "",
        "empty: that source does not exist yet",
        scale.words,
        "colour scale shared by all arms" if len(comparison.arms) > 1 else "",
        found.words.get(step, ""),
    )
    return Heat(
        key_for("depth-weights", comparison, arm), title, Axis("source"), Axis("sublayer"), columns, rows, values,
        Axis("mean weight"), scale.low, scale.high, _told(title, rows, columns, values), caption,
        diverging=scale.low < 0,
    )  # fmt: skip


def site_name(site: Mapping[str, Any]) -> str:
    """ "attention 0", as sources are called, or "output"."""
    kind = str(site.get("kind"))
    return f"{KINDS[kind]} {site['ordinal'] // 2}" if kind in KINDS else kind


def _row(site: Mapping[str, Any], columns: Sequence[str]) -> Numbers:
    weights = dict(zip(site["sources"], site["mean"], strict=True))
    return tuple(weights.get(column) for column in columns)


def _told(title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Numbers]) -> str:
    """The largest weight among the sites that have a choice, and what they give the embedding and the newest source."""
    choosing = [
        (row, [(column, value) for column, value in zip(columns, of_row, strict=True) if value is not None])
        for row, of_row in zip(rows, values, strict=True)
    ]
    choosing = [(row, weights) for row, weights in choosing if len(weights) > 1]
    if not choosing:
        return f"{title}: {len(rows)} sites with one source each."
    largest, source, at = max((value, column, row) for row, weights in choosing for column, value in weights)
    first = sum(weights[0][1] for _, weights in choosing) / len(choosing)
    newest = sum(weights[-1][1] for _, weights in choosing) / len(choosing)
    return (
        f"{title}: {len(rows)} sites by {len(columns)} sources. The largest weight is {largest:.3f}, of {source} at "
        f"{at}; on average a site gives {first:.3f} to its oldest source and {newest:.3f} to its newest."
    )


# ---------------------------------------------------------------------- from the files


def _recorded(comparison: Comparison) -> list[tuple[Arm, _Recorded]]:
    """A probe, which looked at more tokens, goes before the observers where every run that mixes has the same, and
    where there are no observers."""
    arms = in_order(comparison)
    observed = {run.path: _observed(run) for arm in arms for run in arm.counted}
    probes = {run.path: each for arm in arms for run in arm.counted if (each := _probe(run)) is not None}
    mixing = [path for path, steps in observed.items() if steps or path in probes]
    are_shown = may_be_averaged([probes.get(path) for path in mixing]) or not any(observed.values())
    found = []
    for arm in arms:
        of_runs = [
            {**observed[run.path], **_steps(probes.get(run.path))} if are_shown else observed[run.path]
            for run in arm.counted
        ]
        its_probes = [probes[run.path] for run in arm.counted if run.path in probes]
        words = {
            step: _words(arm, its_probes, step, are_shown=are_shown) for step in {each.step for each in its_probes}
        }
        found.append((arm, _of_arm([each for each in of_runs if each], words)))
    return found


def _words(arm: Arm, probes: Sequence[Probed], step: int, *, are_shown: bool) -> str:
    if not are_shown:
        return observers_words([arm], probes)
    of_step = [each for each in probes if each.step == step]
    return "; ".join(said for said in (probe_words(of_step), partly_words(arm, of_step)) if said)


def _of_arm(runs: Sequence[Mapping[int, Sites]], words: Mapping[int, str]) -> _Recorded:
    """At the steps that all of its recorded runs share."""
    common = sorted(set.intersection(*(set(each) for each in runs))) if runs else []
    steps = {step: _mean_sites([each[step] for each in runs]) for step in evenly(common, MOST_STEPS)}
    return _Recorded({step: sites for step, sites in steps.items() if sites}, len(runs), words)


def _observed(run: ComparedRun) -> dict[int, Sites]:
    rows = run.observed.get("depth_weights", {})
    return {step: sites for step, row in rows.items() if (sites := _sites(row.get("summary")))}


def _probe(run: ComparedRun) -> Probed | None:
    found = probed(run, "depth-weights")
    return found if found is not None and _sites(found.summary) else None


def _steps(probe: Probed | None) -> dict[int, Sites]:
    return {} if probe is None else {probe.step: _sites(probe.summary)}


def _sites(summary: Mapping[str, Any] | None) -> Sites:
    """The sites that say what they take from where; their shapes are checked where the files are read."""
    listed = (summary or {}).get("sites") or ()
    return tuple(site for site in listed if site is not None and site.get("mean") and None not in site["mean"])


def _mean_sites(runs: Sequence[Sites]) -> Sites:
    """Site by site; one that some run lacks or cuts otherwise is left out."""

    def identity(site: Mapping[str, Any]) -> tuple[object, ...]:
        return site["ordinal"], site.get("kind"), *map(str, site["sources"])

    others = [{identity(site): site for site in run} for run in runs[1:]]
    return tuple(
        {
            **site,
            "sources": [str(source).replace("_", "-") for source in site["sources"]],
            "mean": mean_curve([site["mean"], *(other[identity(site)]["mean"] for other in others)]).y,
        }
        for site in runs[0]
        if all(identity(site) in other for other in others)
    )
