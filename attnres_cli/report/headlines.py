"""What a comparison comes to, short enough to be read at a glance: the sentences of a verdict have the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attnres_cli.report.comparison import Comparison
from attnres_cli.report.document import Notice
from attnres_cli.report.paired_verdicts import PairedVerdict, paired_verdicts
from attnres_cli.report.phrases import counted, interval, nats
from attnres_cli.report.verdicts import Verdict, verdicts

# "lower", "higher": of single runs, which show no spread and so decide nothing.
# "said": a sentence of a sweep, which is what it is.
Kind = Literal["better", "worse", "same", "not shown", "lower", "higher", "said", "no verdict"]
LONGEST_HEADLINE = 90


@dataclass(frozen=True)
class Claim:
    """One arm against the baseline.

    words: the finding, without figures. figures: its difference with the interval, or why there is none. sentence: all
    of it, with every caveat. differences: nats of every pair, from which mean, low and high come; empty for a single
    run and where there is no verdict to draw.
    """

    kind: Kind
    words: str
    figures: str
    sentence: str = ""
    arm: str = ""
    place: int = 1
    differences: tuple[float, ...] = ()
    mean: float | None = None
    low: float | None = None
    high: float | None = None


def claims(comparison: Comparison) -> list[Claim]:
    """One per arm but the baseline, in the order of the arms."""
    if comparison.by_seed:
        return [_paired(verdict, place) for place, verdict in enumerate(paired_verdicts(comparison), start=1)]
    titles = {arm.label: arm.title for arm in comparison.arms}
    found = enumerate(verdicts(comparison), start=1)
    return [_single(verdict, titles[verdict.label], titles[verdict.baseline], place) for place, verdict in found]


def headline(found: Sequence[Claim], baseline: str, noun: str = "arm") -> str:
    """One sentence over all of them; that of the only one where there is one. noun: what each is about."""
    if len(found) == 1:
        return found[0].words
    counts = Counter(claim.kind for claim in found)
    words = {
        "better": f"better than {baseline}",
        "worse": f"worse than {baseline}",
        "same": f"equal to {baseline}",
        "not shown": "not shown to differ",
        "lower": f"lower than {baseline} in one run of each, which shows no spread",
        "higher": f"higher than {baseline} in one run of each, which shows no spread",
        "no verdict": "without a verdict",
    }
    parts = [f"{counts[kind]} {said}" for kind, said in words.items() if counts[kind]]  # type: ignore[index]
    return f"Of {counted(len(found), noun)}: {', '.join(parts)}."


def claims_of_notices(notices: Sequence[Notice]) -> list[Claim]:
    """What the sentences that stand out in a sweep's document come to: one claim per sentence."""
    return [Claim("said", line, "") for notice in notices for line in notice.lines]


def headline_of(found: Sequence[Claim], otherwise: str) -> str:
    """The first of some claims where it is short enough to be one."""
    return found[0].words if found and len(found[0].words) <= LONGEST_HEADLINE else otherwise


def _paired(verdict: PairedVerdict, place: int) -> Claim:
    arm, baseline, found = verdict.arm, verdict.baseline, verdict.difference
    words = {
        "better": ("better", f"{arm} is shown to be better than {baseline}."),
        "worse": ("worse", f"{arm} is shown to be worse than {baseline}."),
        "equal": ("same", f"{arm} has the loss of {baseline}, to the last bit."),
        "not shown": ("not shown", f"No difference between {arm} and {baseline} is shown."),
    }
    kind, said = words.get(verdict.outcome, ("no verdict", f"No verdict on {arm} against {baseline}."))
    if not verdict.has_verdict:
        return Claim(
            "no verdict", said, f"{verdict.outcome}: {'; '.join(verdict.reasons)}", verdict.sentence, arm, place
        )
    assert found is not None, "a verdict has a difference"
    figures = (
        f"{nats(found.mean, signed=True)} nats of validation loss, 95 % interval {interval(found.low, found.high)}, "
        f"{counted(found.n, 'pair')}"
    ) + (", exploratory" if verdict.exploratory else "")
    return Claim(
        kind,  # type: ignore[arg-type]
        said,
        figures,
        verdict.sentence,
        arm,
        place,
        tuple(found.differences),
        found.mean,
        found.low,
        found.high,
    )


def _single(verdict: Verdict, title: str, baseline: str, place: int) -> Claim:
    if verdict.outcome == "refused":
        words, figures = f"No verdict on {title} against {baseline}.", "; ".join(verdict.reasons)
        return Claim("no verdict", words, figures, verdict.sentence, title, place)
    assert verdict.delta_nats is not None, "not refused"
    figures = f"{nats(verdict.delta_nats, signed=True)} nats of validation loss, one run of each: no interval"
    if verdict.outcome == "equal":
        return Claim(
            "same", f"{title} has the loss of {baseline}, to the last bit.", figures, verdict.sentence, title, place
        )
    words = f"{title} ends {verdict.outcome} than {baseline}, in one run of each."
    return Claim(verdict.outcome, words, figures, verdict.sentence, title, place)
