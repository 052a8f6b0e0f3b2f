"""Oracles of the sentences with numbers below the tables of `attnres compare`, from docs/compare.md, "The tables"."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy import stats

from tests.recomputed.arms import Arm, Compared
from tests.recomputed.inside_models import mean_sites
from tests.recomputed.listed_runs import span
from tests.recomputed.raw import Run, lines

ROUNDS = 7


def runs(compared: Compared) -> list[str]:
    """Of single runs: where those stand that did not end, and what is wrong with files."""
    said = []
    for arm in compared.arms:
        [run] = arm.runs
        if run.state["status"] != "finished":
            said.append(f"{arm.label}: {_where(run)}")
        torn = _torn(run)
        said += [f"{arm.label}: metrics.jsonl: {torn} torn line left out"] if torn else []
    return said


def _torn(run: Run) -> int:
    path = run.path / "metrics.jsonl"
    return len(path.read_text().splitlines()) - len(lines(path))


def _where(run: Run) -> str:
    last = max(run.state["step"], run.evaluations[-1]["step"], run.train_rows[-1]["step"])
    return f"{run.state['status']} at step {last} of {run.manifest['steps']}"


def loss(compared: Compared) -> list[str]:
    """Of single runs: losses that are not those of the end. Of groups: runs that are in no mean."""
    said = []
    for arm in compared.arms:
        [run, *more] = arm.runs
        if more:
            lost = [each.name for each in arm.runs if each.end is None]
            said += [f"{arm.label}: without {', '.join(lost)}"] if lost else []
        elif run.end is None and run.last_evaluation is not None:
            said.append(f"{arm.label}: {_where(run)}; this is its evaluation at step {run.last_evaluation['step']}")
    return said


def magnitudes(compared: Compared) -> list[str]:
    """Observations that are not those of the end, and how far the norms' epsilon is from an effect."""
    said = []
    for arm in compared.arms:
        said += _missing(arm)
        steps = {row["step"] for row in arm.counted[0].observations if row["observer"] == "magnitudes"}
        if arm.counted[0].end is None:
            said.append(f"{arm.label}: observed at step {max(steps)}")
        inputs = arm.observed("magnitudes", "input_rms")
        share = arm.counted[0].resolved["model"]["norm_epsilon"] / min(inputs) ** 2
        said.append(f"{arm.label}: norm epsilon is {share:.1e} of the smallest mean square that a norm meets")
    return said


def _missing(arm: Arm) -> list[str]:
    if len(arm.counted) == len(arm.runs):
        return []
    return [f"{arm.label}: mean over {len(arm.counted)} of {len(arm.runs)} runs"]


def depth_weights(compared: Compared) -> list[str]:
    """The site with the largest share, and the source that it takes it from; sublayers are counted from 1 here."""
    said = []
    for arm in compared.arms:
        sites = mean_sites(arm)
        if not sites:
            continue
        site = max(sites, key=lambda each: float(each["maximum"]))
        largest = max(range(len(site["sources"])), key=lambda place: float(site["mean"][place]))
        place = "the output" if site["kind"] == "output" else f"sublayer {site['ordinal'] + 1}"
        said += [*_missing(arm), f"{arm.label}: the largest is at {place}, from {site['sources'][largest]}"]
    return said


def cost(compared: Compared) -> list[str]:
    """Intervals of the bench, and what the clocks of the trainings said."""
    said = []
    # The smallest and the largest of seven samples hold the median unless all seven lie on one side of it.
    coverage = 1 - 2 * stats.binom.cdf(0, ROUNDS, 0.5)
    for arm in compared.others if compared.bench else []:
        _, low, high = compared.timings[arm.label].ratio
        doubt = "; ~: no difference is shown" if low <= 1 <= high else ""
        limits = f"{low:.3f} to {high:.3f} × {compared.baseline}"
        said.append(f"{arm.label}: step time {limits} ({100 * coverage:.0f} % interval{doubt})")
    clocks = []
    for arm in compared.arms:
        last = [run.train_rows[-1] for run in arm.runs]
        tokens, seconds = (math.fsum(row[key] for row in last) for key in ("tokens", "train_seconds"))
        clocks.append(f"{arm.label} {tokens / seconds:,.0f} tokens/s over {span(seconds)} on cpu")
    return [*said, f"clocks of the separate trainings, not comparable: {'; '.join(clocks)}"]


REMARKS: dict[str, Callable[[Any], list[str]]] = {
    "runs": runs,
    "loss": loss,
    "magnitudes": magnitudes,
    "depth_weights": depth_weights,
    "cost": cost,
}
