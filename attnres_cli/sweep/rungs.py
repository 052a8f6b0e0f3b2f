"""The rungs of a horizon ladder: one preset at several training lengths, each decayed to its end, the shared part
trained once.

Every rung is a WSD run with the same warm-up in steps. It leaves the rung below it where that one begins to decay
(train/branching.py), so that all rungs together cost the longest constant part and every decay:

    steps  0 ── warm-up ──────┬──────────┬─────────────────┬──── constant
                              └ decay    └── decay         └──── decay
                             rung 0.5   rung 0.7          rung 1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnres_cli.errors import UserError, plural
from attnres_cli.train.schedule import constant_steps

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

DEFAULT_RATIOS = (0.5, 0.7, 1.0, 1.4, 2.0)


@dataclass(frozen=True)
class Rung:
    """ratio: of the preset's own tokens. steps, tokens: of the whole run. constant_steps: before its decay. first_step:
    where it leaves the rung below it, 0 for the lowest one. changes: "section.key" → value that make it of the preset.
    """

    ratio: float
    steps: int
    tokens: int
    constant_steps: int
    first_step: int
    changes: Mapping[str, Any]

    @property
    def key(self) -> str:
        """A name for folders and tables: `x0.5`."""
        return f"x{self.ratio:g}"

    @property
    def trained_steps(self) -> int:
        """The steps that this rung adds to those below it."""
        return self.steps - self.first_step


def ladder_of(preset: Preset, ratios: Iterable[float]) -> tuple[Rung, ...]:
    """The rungs by ascending ratio; a preset with another schedule is taken over to wsd with its `decay_fraction`.

    The warm-up has the steps that `warmup_fraction` gives at the preset's own horizon. Raises UserError where a rung
    would be too short for its warm-up and decay, or no other run than its neighbour.
    """
    base = preset.replace({"train.schedule": "wsd"})
    rungs: list[Rung] = []
    for ratio in sorted(ratios):
        rung = _rung(base, ratio, first_step=rungs[-1].constant_steps if rungs else 0)
        if rungs and rung.steps == rungs[-1].steps:
            raise UserError(
                f"Horizons {rungs[-1].ratio:g} and {ratio:g} are both {rung.steps} {plural(rung.steps, 'step')}.",
                where=str(preset.origins["train.horizon_tokens"]),
                expected="more steps, or rungs further apart",
            )
        rungs.append(rung)
    return tuple(rungs)


def saved_share(rungs: Iterable[Rung]) -> float:
    """The share of the steps that sharing saves against training every rung from step 0."""
    rungs = list(rungs)
    return 1 - sum(rung.trained_steps for rung in rungs) / sum(rung.steps for rung in rungs)


def _rung(base: Preset, ratio: float, *, first_step: int) -> Rung:
    train, warmup = base.train, base.warmup_steps
    steps = max(1, round(ratio * base.steps))
    decay = max(1, round(train.decay_fraction * steps))
    if warmup + decay > steps or warmup == steps:
        raise UserError(
            f"At {ratio:g} × the tokens {steps} steps are left: {warmup} of warm-up and {decay} of decay do not fit.",
            where=str(base.origins["train.warmup_fraction"]),
            expected="a shorter warm-up or decay, or no rung that low",
            hint="--set train.warmup_fraction=0.05",
        )
    changes: dict[str, Any] = {"train.schedule": "wsd"}
    if steps != base.steps:
        # At its own horizon a rung is the preset itself, to the digest.
        changes |= {"train.horizon_tokens": steps * train.tokens_per_step, "train.warmup_fraction": warmup / steps}
    rung = base.replace(changes)
    constant = constant_steps(rung)
    assert constant is not None, "the schedule is wsd"
    assert (rung.steps, rung.warmup_steps) == (steps, warmup), (rung.steps, rung.warmup_steps, steps, warmup)
    return Rung(ratio, steps, steps * train.tokens_per_step, constant, first_step, changes)
