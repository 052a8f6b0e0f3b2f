"""What observers saw at the end of a run, as single numbers: one per question that a claim or a table asks.

Depth is cut in thirds: of the L sublayers the first ⌈L/3⌉ and the last ⌈L/3⌉. Means over sublayers are geometric where
the numbers are magnitudes, so that one large sublayer does not speak for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Name → what it is. `ratio`: a positive number that is compared by its logarithm.
FIGURES: Mapping[str, tuple[str, bool]] = {
    "output_growth": ("RMS of the sublayers' outputs, last third of the depth over the first", True),
    "largest_output": ("largest RMS of a sublayer's output over the mean of all", True),
    "late_update_share": ("sublayer output over the stream it meets, last third of the depth", True),
    "gradient_spread": ("largest over smallest gradient norm of the transformer blocks' parameters", True),
    "embedding_weight": ("weight of the embedding over that of equal weights, mean over sites", True),
    "recent_weight": ("weight of the newest source over that of equal weights, mean over sites", True),
    "feed_forward_locality": ("recent_weight before feed-forward sublayers over that before attention", True),
    "entropy_share": ("entropy of the depth weights over that of equal weights, mean over sites", False),
}


def observed_figures(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The figures of the latest observation of each observer; those that were not recorded, or make no finite number,
    are absent.

    rows: of probes/observations.jsonl (docs/run-directory.md).
    """
    latest: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if isinstance(row.get("summary"), Mapping) and isinstance(row.get("step"), int):
            name = str(row.get("observer"))
            if name not in latest or row["step"] >= latest[name]["step"]:
                latest[name] = row
    found: dict[str, float | None] = {}
    if "magnitudes" in latest:
        found |= _of_magnitudes(latest["magnitudes"]["summary"])
    if "gradients" in latest:
        found |= _of_gradients(latest["gradients"]["summary"])
    if "depth_weights" in latest:
        found |= _of_depth_weights(latest["depth_weights"]["summary"])
    if "answers" in latest:
        found |= _of_answers(latest["answers"]["summary"])
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}


def _of_magnitudes(summary: Mapping[str, Any]) -> dict[str, float | None]:
    output, share = _positive(summary.get("output_rms")), _positive(summary.get("update_share"))
    third = -(-len(output) // 3)
    return {
        "output_growth": _geometric(output[-third:]) / _geometric(output[:third]) if output else None,
        "largest_output": max(output) / _geometric(output) if output else None,
        "late_update_share": _geometric(share[-third:]) if share else None,
    }


def _of_gradients(summary: Mapping[str, Any]) -> dict[str, float | None]:
    norms = _positive(summary.get("parameter_grad_norm"))
    return {"gradient_spread": max(norms) / min(norms) if norms else None}


def _of_depth_weights(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """Over the sites that have a choice."""
    sites = [site for site in summary.get("sites") or () if isinstance(site, Mapping)]
    sites = [site for site in sites if len(site.get("sources") or ()) > 1]
    local = {
        kind: _recent([site for site in sites if site.get("kind") == kind]) for kind in ("feed_forward", "attention")
    }
    return {
        "embedding_weight": _mean([_times(site.get("embedding_share"), len(site["sources"])) for site in sites]),
        "recent_weight": _recent(sites),
        "feed_forward_locality": _over(local["feed_forward"], local["attention"]),
        "entropy_share": _mean([_times(site.get("entropy"), 1 / math.log(len(site["sources"]))) for site in sites]),
    }


def _of_answers(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """By kind of question, such as "accuracy_3": how many answers there were, the share that is right, their loss."""
    kinds = summary.get("kinds") or ()
    columns = {"answers": "answers", "accuracy": "accuracy", "answer_loss": "loss"}
    return {
        f"{name}_{kind}": _times(value, 1.0)
        for name, key in columns.items()
        for kind, value in zip(kinds, summary.get(key) or (), strict=False)
    }


def _recent(sites: Sequence[Mapping[str, Any]]) -> float | None:
    return _mean([_times(site.get("recent_share"), len(site["sources"])) for site in sites])


def _over(value: float | None, divisor: float | None) -> float | None:
    return value / divisor if value is not None and divisor else None


def _positive(values: Any) -> Sequence[float]:
    """The numbers, or none of them where one is no positive number: a hole would shift the thirds."""
    if not isinstance(values, list) or not all(isinstance(value, (int, float)) and value > 0 for value in values):
        return ()
    return [float(value) for value in values]


def _times(value: Any, factor: float) -> float | None:
    return float(value) * factor if isinstance(value, (int, float)) else None


def _geometric(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None
