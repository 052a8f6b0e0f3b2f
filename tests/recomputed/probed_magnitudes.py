"""Oracles of `attnres probe`: magnitudes and gradients, derived from the arrays by docs/probe.md."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.probed_runs import Probed, Runs, side_by_side


def growth(each: Probed) -> tuple[float, float, float]:
    """p of RMS ∝ (blocks passed)^p by least squares on logarithms, and Student's interval from the residuals."""
    rms = each.array("magnitudes", "stream_rms")[1:]
    fit = stats.linregress(np.log(np.arange(1, len(rms) + 1)), np.log(rms))
    half = stats.t.ppf(0.975, len(rms) - 2) * fit.stderr
    return float(fit.slope), float(fit.slope - half), float(fit.slope + half)


def magnitudes(runs: Runs) -> Rows:
    return [
        {
            "run": each.label,
            "first_block_rms": float(each.array("magnitudes", "stream_rms")[1]),
            "last_block_rms": float(each.array("magnitudes", "stream_rms")[-1]),
            "growth_exponent": growth(each)[0],
            "largest_abs": float(each.array("magnitudes", "stream_max_abs").max()),
            "largest_kurtosis": float(each.array("magnitudes", "stream_kurtosis").max()),
        }
        for each in runs
    ]


def sublayers(runs: Runs) -> Rows:
    """Of the only run."""
    [each] = runs
    names = ("input_rms", "output_rms", "update_share", "output_max_abs", "output_kurtosis")
    found = {name: each.array("magnitudes", name).tolist() for name in names}
    return [
        {"sublayer": place, **{name: values[place] for name, values in found.items()}}
        for place in range(2 * each.blocks)
    ]


def through_training(runs: Runs) -> Rows:
    """The first, the middle and the last observed step."""
    rows = []
    for each in runs:
        seen = {(row["step"], row["observer"]): row["summary"] for row in each.run.observations}
        steps = sorted({step for step, _ in seen})
        for step in (steps[0], steps[(len(steps) - 1) // 2], steps[-1]):
            stream = seen[step, "magnitudes"]["stream_rms"][1:]
            gradients = seen[step, "gradients"]
            rows.append(
                {
                    "run": each.label,
                    "step": step,
                    "first_block_rms": stream[0],
                    "last_block_rms": stream[-1],
                    "growth": stream[-1] / stream[0],
                    **{
                        f"{kind}_gradient_ratio": max(norms) / min(norms)
                        for kind in ("parameter", "activation")
                        if (norms := gradients[f"{kind}_grad_norm"])
                    },
                }
            )
    return rows


def gradients(runs: Runs) -> Rows:
    """Largest over smallest, and the standard deviation over all blocks (with n) over the mean."""
    rows = []
    for each in runs:
        row: dict[str, Any] = {"run": each.label}
        for kind in ("parameter", "activation"):
            norms = each.array("gradients", f"{kind}_grad_norm")
            deviation = math.sqrt(float(((norms - norms.mean()) ** 2).sum()) / len(norms))
            row |= {f"{kind}_spread": float(norms.max() / norms.min()), f"{kind}_variation": deviation / norms.mean()}
        rows.append(row)
    return rows


def gradient_by_kind(runs: Runs) -> Rows:
    """As it was found: there is no array of it."""
    found = {each.label: (each.summary("gradients") or {})["grad_norm_by_kind"] for each in runs}
    kinds = dict.fromkeys(kind for of_run in found.values() for kind in of_run)
    return [{"kind": kind, **{label: of_run.get(kind) for label, of_run in found.items()}} for kind in kinds]


MAGNITUDES = "report/probes/magnitudes.py"
GRADIENTS = "report/probes/gradients.py"
ORACLES: dict[str, Oracle] = {
    "magnitudes": magnitudes,
    "stream_rms": partial(side_by_side, "magnitudes", "stream_rms", "blocks_passed"),
    "sublayer_magnitudes": sublayers,
    "through_training": through_training,
    "gradients": gradients,
    "gradient_by_block": partial(side_by_side, "gradients", "parameter_grad_norm", "block"),
    "gradient_by_kind": gradient_by_kind,
}
BUILT_IN = {
    **dict.fromkeys(("magnitudes", "stream_rms", "sublayer_magnitudes", "through_training"), MAGNITUDES),
    **dict.fromkeys(("gradients", "gradient_by_block", "gradient_by_kind"), GRADIENTS),
}
