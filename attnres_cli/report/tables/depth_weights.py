"""Depth weights: how much the sites of a scheme that mixes over depth take from the embedding and from the newest
source."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from attnres_cli.report.arms import Arm, mean_or_none
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.runs.metrics import number

COMPARISON_ORDER = 60
FIGURES = ("embedding_share", "recent_share", "entropy", "maximum")
KINDS = {"attention": "attention", "feed_forward": "feed-forward", "output": "output"}


def build(comparison: Comparison) -> Table | None:
    """One row per run and kind of site, averaged over its sites with at least two sources (one source has weight 1 for
    ever). None when no run recorded depth weights; a run whose scheme has none gets one row of "—"."""
    if not any(arm.observing("depth_weights") for arm in comparison.arms):
        return None
    return Table(
        key="depth_weights",
        title="Depth weights",
        columns=(
            Column("run", comparison.noun),
            Column("sites", "sites"),
            Column("count", "n", "", "count"),
            Column("embedding_share", "embed.", "share", "number", decimals=3),
            Column("recent_share", "recent", "share", "number", decimals=3),
            Column("entropy_nats", "entropy", "nats", "number", decimals=3),
            Column("entropy_of_uniform", "entropy", "uniform=1", "number", decimals=3),
            Column("largest", "largest", "share", "number", decimals=3),
        ),
        rows=tuple(row for arm in comparison.arms for row in _rows(arm)),
        caption=("mean over the runs of an arm; " if comparison.by_seed else "")
        + "share of the embedding and of the most recent source, mean over tokens and over sites with at least "
        "two sources; uniform=1: entropy over that of equal weights; largest: of any source at any site",
        remarks=tuple(
            remark
            for arm in comparison.arms
            for remark in (arm.missing_remark("depth_weights"), _largest_remark(arm))
            if remark
        ),
    )


def mixing_sites(arm: Arm) -> list[Mapping[str, Any]]:
    """The recorded sites that have a choice: two sources or more. Of several runs the means, site by site; a site that
    some of them lack or cut otherwise is left out."""
    first, *others = [_sites(run) for run in arm.observing("depth_weights")] or [{}]
    common = [key for key in first if all(key in other for other in others)]
    return [_mean_site([first[key], *(other[key] for other in others)]) for key in common]


def _sites(run: ComparedRun) -> dict[Hashable, Mapping[str, Any]]:
    summary = run.observations["depth_weights"].get("summary")
    sites = summary.get("sites") if isinstance(summary, Mapping) else None
    return {
        (index, str(site.get("kind")), str(site["sources"])): site
        for index, site in enumerate(sites or [])
        if isinstance(site, Mapping) and len(site.get("sources") or []) > 1
    }


def _mean_site(sites: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The sites of several runs as one: means of their numbers, and of the weights source by source."""
    if len(sites) == 1:
        return sites[0]
    means: dict[str, Any] = {key: mean_or_none([number(site, key) for site in sites]) for key in FIGURES}
    weights = [_means(site) for site in sites]
    if all(weights):
        means["mean"] = [sum(each) / len(each) for each in zip(*weights, strict=True)]
    else:
        means["mean"] = None
    return {**sites[0], **means}


def _rows(arm: Arm) -> list[Row]:
    sites = mixing_sites(arm)
    rows = []
    for kind, words in KINDS.items():
        chosen = [site for site in sites if site.get("kind") == kind]
        if chosen:
            rows.append(_row(arm, words, chosen))
    if not rows:
        keys = ("count", "embedding_share", "recent_share", "entropy_nats", "entropy_of_uniform", "largest")
        rows.append({"run": arm.title, "sites": arm.cell(None), **dict.fromkeys(keys, arm.cell(None))})
    return rows


def _row(arm: Arm, words: str, sites: Sequence[Mapping[str, Any]]) -> Row:
    largest = [value for site in sites if (value := number(site, "maximum")) is not None]
    return {
        "run": arm.title,
        "sites": words,
        "count": len(sites),
        "embedding_share": arm.cell(mean_or_none([number(site, "embedding_share") for site in sites])),
        "recent_share": arm.cell(mean_or_none([number(site, "recent_share") for site in sites])),
        "entropy_nats": arm.cell(mean_or_none([number(site, "entropy") for site in sites])),
        "entropy_of_uniform": arm.cell(mean_or_none([_of_uniform(site) for site in sites])),
        "largest": Cell(max(largest)) if largest else arm.cell(None),
    }


def _of_uniform(site: Mapping[str, Any]) -> float | None:
    entropy = number(site, "entropy")
    return None if entropy is None else entropy / math.log(len(site["sources"]))


def _largest_remark(arm: Arm) -> str | None:
    """Which site takes its largest share from which source."""
    known = [site for site in mixing_sites(arm) if number(site, "maximum") is not None and _means(site)]
    if not known:
        return None
    site = max(known, key=lambda found: found["maximum"])
    means = _means(site)
    source = site["sources"][means.index(max(means))]
    place = "the output" if site.get("kind") == "output" else f"sublayer {site.get('ordinal', 0) + 1}"
    return f"{arm.label}: the largest is at {place}, from {source}"


def _means(site: Mapping[str, Any]) -> list[float]:
    """Mean weight of each source, or nothing where the record does not hold one number per source."""
    means = site.get("mean")
    if not isinstance(means, list) or len(means) != len(site["sources"]):
        return []
    return [float(value) for value in means] if all(isinstance(value, (int, float)) for value in means) else []
