"""What a sweep costs, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnres_cli.errors import plural
from attnres_cli.report.numbers import duration, short_count


def price_sentence(document: Mapping[str, Any]) -> str:
    """Runs, tokens, FLOPs and, where steps were timed, minutes on this machine."""
    runs = document["runs"]
    tokens, flops = (sum(run[key] for run in runs) for key in ("planned_tokens", "flops"))
    each = {run["planned_tokens"] for run in runs}
    count = f"{len(runs)} run{'s' * (len(runs) != 1)}"
    if len(each) == 1:
        per_run = next(iter(each))
        steps = -(-per_run // document["tokens_per_step"])
        sentence = f"{count} of {per_run:,} tokens ({steps:,} {plural(steps, 'step')})"
        sentence += f", {short_count(tokens)} tokens" if len(runs) > 1 else ""
    else:
        sentence = f"{count} of {min(each):,} to {max(each):,} tokens, {short_count(tokens)} tokens"
    sentence += f" and {flops:.3g} FLOPs in all"
    budget = document["budget"]
    minutes, side = budget.get("estimated_minutes"), budget.get("parallel_runs", 1)
    if minutes is None:
        return sentence + "."
    return sentence + f", about {duration(minutes * 60)} here" + (f", {side} side by side." if side > 1 else ".")


def price(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same as data, for --json."""
    runs = document["runs"]
    return {
        "runs": len(runs),
        "tokens": sum(run["planned_tokens"] for run in runs),
        "flops": sum(run["flops"] for run in runs),
        "minutes": document["budget"].get("estimated_minutes"),
    }
