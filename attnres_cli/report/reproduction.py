"""A reproduction as its document says it: every claim with what was found, judged together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnres_cli.analysis.claims import Finding, Outcome, outcomes
from attnres_cli.discovery import load
from attnres_cli.report.evidence import LOSS, Evidence
from attnres_cli.report.phrases import counted

# Keys that every claim has; the others are those of its test.
COMMON_KEYS = frozenset(("key", "claim", "paper", "source", "test", "seeds", "assumed"))
ORDER: tuple[Outcome, ...] = (
    "confirmed", "contradicted", "not shown", "needs larger scale", "too few", "not finished",
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """One row. power: of the design, calculated before the first run; None where nothing was assumed of a bench.
    finding: None where nothing was tested. p_holm: corrected over every claim of the table that was tested. why: what
    keeps the claim from a verdict."""

    claim: Mapping[str, Any]
    outcome: Outcome
    power: float | None
    finding: Finding | None = None
    p_holm: float | None = None
    why: str = ""
    diverged: int = 0

    @property
    def here(self) -> str:
        """The estimate with its interval, as people read it."""
        found = self.finding
        if found is None:
            return ""
        if found.words:
            return found.words
        shown = _module(self.claim).number
        settings = settings_of(self.claim)
        if found.low is None or found.high is None:
            return str(shown(settings, found.estimate))
        low, high = shown(settings, found.low), shown(settings, found.high)
        return f"{shown(settings, found.estimate)} ({low} to {high})"

    def to_dict(self) -> dict[str, Any]:
        found = self.finding
        figures: dict[str, float | None] = dict.fromkeys(("estimate", "low", "high", "p", "n"))
        if found is not None:
            figures = {"estimate": found.estimate, "low": found.low, "high": found.high, "p": found.p, "n": found.n}
        return {
            "claim": self.claim["key"],
            "outcome": self.outcome,
            **figures,
            "p_holm": self.p_holm,
            "power_before": self.power,
            "here": self.here,
            "why": self.why,
            "diverged_runs": self.diverged,
        }


@dataclass(frozen=True)
class Reproduction:
    """document: of sweep.json."""

    document: Mapping[str, Any]

    @property
    def plan(self) -> Mapping[str, Any]:
        plan: Mapping[str, Any] = self.document["request"]["plan"]
        return plan

    @property
    def hash(self) -> str:
        return str(self.document["request"]["hash"])

    def evidence(self, claim: Mapping[str, Any]) -> Evidence:
        """What the claim may be tested on."""
        return Evidence(self.document, claim.get("seeds"))

    @cached_property
    def judged(self) -> Sequence[Judged]:
        """Every claim in the plan's order. Claims are corrected together, those that wait for runs counted in, so that
        looking early is never easier than waiting."""
        before = self.document["facts"]["before"]
        found: dict[str, Finding | None] = {}
        waiting: dict[str, str] = {}
        for claim in self.plan["claims"]:
            key = claim["key"]
            if not before[key]["tested"]:
                continue
            if missing := self._missing(claim):
                waiting[key] = missing
            else:
                found[key] = _module(claim).judge(settings_of(claim), self.evidence(claim))
        never = Finding(0.0, None, None, 1.0, False, 0)
        decided = outcomes({**found, **dict.fromkeys(waiting, never)})
        return [self._row(claim, before[claim["key"]], found, waiting, decided) for claim in self.plan["claims"]]

    def counted(self) -> dict[Outcome, int]:
        every = [each.outcome for each in self.judged]
        return {outcome: every.count(outcome) for outcome in ORDER if outcome in every}

    def _missing(self, claim: Mapping[str, Any]) -> str:
        """What a claim waits for, in words; empty where nothing is missing."""
        module, settings, evidence = _module(claim), settings_of(claim), self.evidence(claim)
        waits = evidence.waiting(module.runs(settings))
        benches = [key for key in module.benches(settings) if key not in evidence.benches]
        words = [_waits(waits)] if waits else []
        words += [f"the bench {key}" for key in benches]
        return " and ".join(words)

    def _row(
        self,
        claim: Mapping[str, Any],
        before: Mapping[str, Any],
        found: Mapping[str, Finding | None],
        waiting: Mapping[str, str],
        decided: Mapping[str, tuple[Outcome, float | None]],
    ) -> Judged:
        key, power = claim["key"], before["power"]
        if not before["tested"]:
            assumed = claim["assumed"]
            why = f"power {power:.0%} for an effect of {assumed['effect']:g} (spread {assumed['standard_deviation']:g})"
            return Judged(claim, "needs larger scale", power, why=why)
        if key in waiting:
            return Judged(claim, "not finished", power, why=f"waits for {waiting[key]}")
        outcome, p_holm = decided[key]
        diverged = self.evidence(claim).diverged(_module(claim).runs(settings_of(claim)))
        why = "fewer than three seeds have every run it needs" if outcome == "too few" else ""
        if diverged and is_about_more_than_loss(claim) and outcome != "too few":
            # What is left is what trained, in both arms; that is no sample of what the claim is about.
            outcome = "not shown"
            why = f"{counted(diverged, 'run')} diverged and left no such figure, so that the others decide nothing"
        return Judged(claim, outcome, power, found[key], p_holm, why, diverged)


def settings_of(claim: Mapping[str, Any]) -> Any:
    """The keys of a claim's test, as the test's model."""
    own = {key: value for key, value in claim.items() if key not in COMMON_KEYS}
    return _module(claim).Settings.model_validate(own)


def is_about_more_than_loss(claim: Mapping[str, Any]) -> bool:
    """Whether a run that diverged has nothing that could stand for the claim's figure."""
    return getattr(settings_of(claim), "figure", LOSS) != LOSS


def _module(claim: Mapping[str, Any]) -> Any:
    return load("report.claims", claim["test"], what="test of a claim")


def _waits(runs: Sequence[str]) -> str:
    return f"{counted(len(runs), 'run')}, {runs[0]}" + (" first" if len(runs) > 1 else "")
