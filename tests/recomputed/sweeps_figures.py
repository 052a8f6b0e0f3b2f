"""What observers saw after the last step of a run, as the single numbers that docs/reproduction.md names.

Of L sublayers the first and the last third are ⌈L/3⌉ each. Means over sublayers are geometric, means over sites are
not; a site counts where it has a choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.recomputed.raw import Row, Run
from tests.recomputed.statistics import mean

PLAIN = ("loss", "entropy_share")


def is_ratio(name: str) -> bool:
    """Whether a figure is a positive number, which is compared by its logarithm."""
    return name not in PLAIN


def figure(run: Run, name: str) -> float | None:
    """None where the scheme has nothing of the kind, or the run did not come to its end."""
    seen = run.observed(OBSERVER[name])
    if run.state["status"] != "finished" or seen is None:
        return None
    if name in ("output_growth", "largest_output"):
        outputs = seen["output_rms"]
        third = math.ceil(len(outputs) / 3)
        if name == "output_growth":
            return _geometric(outputs[-third:]) / _geometric(outputs[:third])
        return float(max(outputs) / _geometric(outputs))
    if name == "late_update_share":
        return _geometric(seen["update_share"][-math.ceil(len(seen["update_share"]) / 3) :])
    if name == "gradient_spread":
        return float(max(seen["parameter_grad_norm"]) / min(seen["parameter_grad_norm"]))
    return _of_sites([site for site in seen["sites"] if len(site["sources"]) > 1], name)


OBSERVER = {
    "output_growth": "magnitudes",
    "largest_output": "magnitudes",
    "late_update_share": "magnitudes",
    "gradient_spread": "gradients",
    "embedding_weight": "depth_weights",
    "recent_weight": "depth_weights",
    "feed_forward_locality": "depth_weights",
    "entropy_share": "depth_weights",
}


def _of_sites(sites: Sequence[Row], name: str) -> float:
    """Weights over that of equal weights, entropy over that of equal weights."""
    if name == "embedding_weight":
        return mean([site["embedding_share"] * len(site["sources"]) for site in sites])
    if name == "entropy_share":
        return mean([site["entropy"] / math.log(len(site["sources"])) for site in sites])
    if name == "feed_forward_locality":
        return _recent(sites, "feed_forward") / _recent(sites, "attention")
    return _recent(sites)


def _recent(sites: Sequence[Row], kind: str | None = None) -> float:
    return mean([site["recent_share"] * len(site["sources"]) for site in sites if kind in (None, site["kind"])])


def _geometric(values: Sequence[float]) -> float:
    return math.exp(mean([math.log(value) for value in values]))
