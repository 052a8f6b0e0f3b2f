"""What the document of a horizon ladder says: losses at decayed ends, how Δ moves with the horizon, and how much more
compute the reference would need for the same loss.

Everything pairs by seed; the reference is the first scheme.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnres_cli.analysis.ladder import FEWEST_RUNGS, LadderMultiplier, ladder_multiplier
from attnres_cli.report.sweep_results import Contrast, Key, Results, SweepDocument, against_reference, contrast


@dataclass(frozen=True)
class Rung:
    """One horizon. ratio: of the preset's own tokens. flops_per_token: training, mixing included, by scheme."""

    key: str
    ratio: float
    tokens: int
    flops_per_token: Mapping[str, float]


class Ladder:
    """A horizon sweep's document, by scheme and rung."""

    def __init__(self, document: SweepDocument) -> None:
        self.results = Results.of(document)
        cells = sorted(document["cells"], key=lambda cell: float(cell["coordinates"]["horizon"]))
        self.rungs = tuple(
            Rung(
                key=cell["key"],
                ratio=cell["coordinates"]["horizon"],
                tokens=cell["facts"]["tokens"],
                flops_per_token={
                    label: counts["training_flops_per_token"] for label, counts in cell["facts"]["counts"].items()
                },
            )
            for cell in cells
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The schemes, the reference first."""
        return self.results.labels

    @property
    def reference(self) -> str:
        return self.labels[0]

    @property
    def own_rung(self) -> Rung:
        """The rung of the preset's own horizon, or the one nearest to it."""
        return min(self.rungs, key=lambda rung: abs(math.log(rung.ratio)))

    def losses(self, label: str, rung: Rung) -> dict[int, float]:
        """Seed → nats per token at the end of the decay, for every run that has finished."""
        return self.results.losses(rung.key, label)

    def deltas(self, label: str, rung: Rung) -> dict[int, float]:
        """Seed → Δ, for the seeds that both schemes have finished."""
        ours, theirs = self.losses(label, rung), self.losses(self.reference, rung)
        return {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}

    @cached_property
    def contrasts(self) -> dict[Key, Contrast]:
        """Δ by (rung key, scheme), tested together over all rungs and schemes."""
        return against_reference(self.results)

    def contrast(self, label: str, rung: Rung) -> Contrast | None:
        return self.contrasts.get((rung.key, label))

    def trend(self, label: str) -> Contrast | None:
        """The change of Δ per doubling of the tokens: by seed, the slope of a least-squares line over the rungs.

        Over the seeds that have Δ at every rung that has any; None where there is none, or one rung. Unfinished while
        a run of either scheme is to come at any rung.
        """
        rungs = [(rung, found) for rung in self.rungs if (found := self.deltas(label, rung))]
        if len(rungs) < FEWEST_RUNGS:
            return None
        doublings = [math.log2(rung.tokens) for rung, _ in rungs]
        seeds = sorted(set.intersection(*(set(found) for _, found in rungs)))
        slopes = {seed: _slope(doublings, [found[seed] for _, found in rungs]) for seed in seeds}
        change = contrast(slopes, dict.fromkeys(slopes, 0.0))
        waits = any(self.results.waits_for(rung.key, label, self.reference) for rung in self.rungs)
        return replace(change, p=math.nan, unfinished=True) if change is not None and waits else change

    def multiplier(self, label: str, rung: Rung) -> LadderMultiplier | None:
        """How many times the training FLOPs (mixing counted) of `label` at `rung` the reference needs for its loss.

        From the rungs that the reference has finished with every seed of the pair; None where they are fewer than two.
        """
        seeds = list(self.deltas(label, rung))
        steps = [
            (each.tokens * each.flops_per_token[self.reference], [theirs[seed] for seed in seeds])
            for each in self.rungs
            if set(seeds) <= (theirs := self.losses(self.reference, each)).keys()
        ]
        if not seeds or len(steps) < FEWEST_RUNGS:
            return None
        ours = self.losses(label, rung)
        return ladder_multiplier(
            [compute for compute, _ in steps],
            [losses for _, losses in steps],
            [ours[seed] for seed in seeds],
            at=rung.tokens * rung.flops_per_token[label],
        )


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    moments = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return moments / math.fsum((a - mean_x) ** 2 for a in x)
