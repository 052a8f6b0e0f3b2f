"""The sentences of a verdict on an arm of several runs: what was found, with every figure, and what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnres_cli.analysis.paired import PairedDifference
from attnres_cli.report.phrases import counted, interval, listed, nats, probability, times
from attnres_cli.report.study import ALPHA

if TYPE_CHECKING:
    from attnres_cli.report.paired_verdicts import PairedVerdict


def sentence(verdict: PairedVerdict) -> str:
    if not verdict.has_verdict:
        return (
            f"{verdict.arm}: no verdict against {verdict.baseline} ({verdict.outcome}): {'; '.join(verdict.reasons)}."
        )
    difference = verdict.difference
    assert difference is not None, "tested"
    parts = [_finding(verdict, difference)]
    if verdict.outcome in ("better", "worse"):
        parts.append(_survival(verdict))
    if verdict.exploratory:
        parts.append(f"Exploratory: {'; '.join(verdict.exploratory)}.")
    return " ".join([*parts, *verdict.caveats, *verdict.remarks])


def _finding(verdict: PairedVerdict, difference: PairedDifference) -> str:
    assert verdict.tokens is not None, "tested"
    assert verdict.p_holm is not None, "tested"
    assert verdict.smallest_detectable is not None, "tested"
    end = f"at {verdict.tokens:,} tokens, the end of the schedule"
    pairs = counted(difference.n, "pair")
    if verdict.outcome == "equal":
        same = f"the same validation loss to the last bit in all {pairs} {end}"
        return f"{verdict.arm}: equal to {verdict.baseline}: {same}."
    p = f"p {probability(difference.p)}"
    if verdict.tested > 1:
        p += f", p {probability(verdict.p_holm)} after Holm's correction over {verdict.tested} arms"
        p += f", counting {listed(verdict.counted_in)}" if verdict.counted_in else ""
    figures = (
        f"{nats(difference.mean, signed=True)} nats {end} (95 % interval {interval(difference.low, difference.high)}; "
        f"paired t, {pairs}, {p})"
    )
    finds = f"{nats(verdict.smallest_detectable)} nats or more"
    if verdict.outcome == "not shown":
        alone = "; alone it would be shown" if difference.p < ALPHA else ""
        return (
            f"{verdict.arm}: ~ no difference from {verdict.baseline} is shown: {figures}{alone}. With this spread "
            f"{pairs} find a difference of {finds} four times in five; a smaller one may be there."
        )
    return (
        f"{verdict.arm}: shown to be {verdict.outcome} than {verdict.baseline}: {figures}. With this spread {pairs} "
        f"find {finds} four times in five."
    )


def _survival(verdict: PairedVerdict) -> str:
    """One sentence: whether the sign survives equal FLOPs and equal seconds, too; and one that says how it was read."""
    survives = verdict.survives or {}
    kept = ["equal tokens", *(f"equal {budget}" for budget, held in survives.items() if held)]
    lost = [f"equal {budget}" for budget, held in survives.items() if held is False]
    unknown = [f"equal {budget}" for budget, held in survives.items() if held is None]
    if not lost and not unknown:
        text = "The sign survives all three: equal tokens, equal FLOPs, equal seconds."
    else:
        clauses = [f"holds at {' and '.join(kept)}"]
        clauses += [f"but is not shown at {' and '.join(lost)}"] if lost else []
        clauses += [f"{'and' if lost else 'but'} is not known at {' and '.join(unknown)}"] if unknown else []
        text = f"The sign {', '.join(clauses)}."
    return " ".join([text, *_how_read(verdict)])


def _how_read(verdict: PairedVerdict) -> list[str]:
    costs = [f"{times(each.cost)} the {each.budget}" for each in verdict.at_equal if each.cost]
    if not costs:
        return []
    takes = f"{verdict.arm} takes {' and '.join(costs)} per token"
    early = [each for each in verdict.at_equal if each.tokens is not None]
    if not early:
        return [f"{takes}."]
    where = " and ".join(f"at {each.tokens:,} tokens" for each in early)
    return [
        f"{takes}, so {early[0].early} is read early there ({where}), before its learning rate had decayed: that can "
        "hide an advantage, not invent one."
    ]
