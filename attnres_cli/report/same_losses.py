"""Arms that are one model under two names: the same loss to the last bit, whatever the seed.

So it is with as many blocks as sublayers, where Block Attention Residuals are Full ones, and wherever a setting has no
effect. Two rows of a table would pass for two findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from attnres_cli.report.arms import Arm
from attnres_cli.report.phrases import counted


def same_losses(arms: Sequence[Arm]) -> list[tuple[str, str, int]]:
    """(label, label, number of pairs) of every two arms that have the same loss at the end of the schedule in every
    seed that both ended. A letter stands for a single run of its seed."""
    ends = {
        arm.label: {run.seed: run.end_loss for run in arm.runs if run.seed is not None and run.end_loss is not None}
        for arm in arms
    }
    found = []
    for first, second in combinations(ends, 2):
        seeds = ends[first].keys() & ends[second].keys()
        if seeds and all(ends[first][seed] == ends[second][seed] for seed in seeds):
            found.append((first, second, len(seeds)))
    return found


def in_words(first: str, second: str, n: int) -> str:
    """n: number of pairs."""
    where = "its seed" if n == 1 else f"all {counted(n, 'pair')}"
    return f"{second} has the losses of {first} to the last bit in {where}: the same model here"
