"""Depth weights: how much each site takes from each source, as a heat map per arm, through training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Heat, Numbers, Picture, Views
from attnres_cli.report.pictures._over_depth import MOST_STEPS, evenly
from attnres_cli.report.pictures._probed import probed
from attnres_cli.report.pictures._series import in_order, key_for, mean_curve, sentences

ORDER = 40
# kind of a site → how people call it
KINDS = {"attention": "attention", "feed_forward": "feed-forward"}
Sites = tuple[Mapping[str, Any], ...]


def build(comparison: Comparison) -> list[Picture]:
    """One per arm that mixes over depth, all on one colour scale."""
    by_arm = {arm.label: _by_step(arm) for arm in in_order(comparison)}
    weights = [
        weight
        for steps in by_arm.values()
        for sites in steps.values()
        for site in sites
        for weight in site["mean"]
        if weight is not None
    ]
    if not weights:
        return []
    low, high = min(0.0, *weights), max(1.0, *weights)
    if low < 0:  # a scheme whose weights are no shares
        low, high = -max(-low, high), max(-low, high)
    return [
        _views(comparison, arm, steps, (low, high)) for arm in in_order(comparison) if (steps := by_arm[arm.label])
    ]  # fmt: skip


def _views(comparison: Comparison, arm: Arm, steps: Mapping[int, Sites], scale: tuple[float, float]) -> Picture:
    views = tuple(_heat(comparison, arm, step, sites, scale) for step, sites in steps.items())
    if len(views) == 1:
        return views[0]
    title = f"Depth weights of {arm.title}"
    names = tuple(f"{step:,}" for step in steps)
    return Views(views[0].key, title, "training step", names, views, len(views) - 1)


def _heat(comparison: Comparison, arm: Arm, step: int, sites: Sites, scale: tuple[float, float]) -> Heat:
    columns = tuple(dict.fromkeys(source for site in sites for source in site["sources"]))
    values = tuple(_row(site, columns) for site in sites)
    rows = tuple(site_name(site) for site in sites)
    title = f"Depth weights of {arm.title}, step {step:,}"
    count = len(arm.observing("depth_weights")) or len(arm.counted)
    caption = sentences(
        "weight that each sublayer gives to each source, mean over the tokens of a fixed validation batch",
        f"mean over {count} runs" if count > 1 else "",
        "empty: that source does not exist yet",
        "colour scale shared by all arms" if len(comparison.arms) > 1 else "",
    )
    return Heat(
        key_for("depth-weights", comparison, arm), title, Axis("source"), Axis("sublayer"), columns, rows, values,
        Axis("mean weight"), *scale, _told(title, rows, columns, values), caption, diverging=scale[0] < 0,
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


def _by_step(arm: Arm) -> dict[int, Sites]:
    """Step, ascending → the sites with their mean weights over the runs of the arm that recorded them."""
    recorded = [found for run in arm.counted if (found := _of_run(run))]
    common = sorted(set.intersection(*(set(each) for each in recorded))) if recorded else []
    found = {step: _mean_sites([each[step] for each in recorded]) for step in evenly(common, MOST_STEPS)}
    return {step: sites for step, sites in found.items() if sites}


def _of_run(run: ComparedRun) -> dict[int, Sites]:
    """A probe, which looked at more tokens, goes before the observer."""
    found = {step: _sites(row.get("summary")) for step, row in run.observed.get("depth_weights", {}).items()}
    probe = probed(run, "depth-weights")
    if probe is not None:
        found[probe.step] = _sites(probe.summary)
    return {step: sites for step, sites in found.items() if sites}


def _sites(summary: object) -> Sites:
    """The sites that say what they take from where; anything else in the record is passed over."""
    listed = summary.get("sites") if isinstance(summary, Mapping) else None
    return tuple(
        site
        for site in (listed if isinstance(listed, list) else [])
        if isinstance(site, Mapping)
        and isinstance(site.get("ordinal"), int)
        and isinstance(site.get("sources"), list)
        and isinstance(site.get("mean"), list)
        and len(site["sources"]) == len(site["mean"]) > 0
        and all(isinstance(weight, (int, float)) for weight in site["mean"])
    )


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
