"""A reproduction: every claim of the paper with what was found here, and how it was tested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnres_cli.report.document import Block, Notice
from attnres_cli.report.phrases import counted
from attnres_cli.report.reproduction import Judged, Reproduction, is_about_more_than_loss
from attnres_cli.report.sweep_price import price_sentence
from attnres_cli.report.sweep_results import SweepDocument
from attnres_cli.report.table import Cell, Column, Row, Table

SHOWS_IMPOSSIBLE = False
SHOWN_DIGITS = 12
LEFT_OUT = "needs larger scale"


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    found = Reproduction(document)
    tested = [each for each in found.judged if each.outcome != LEFT_OUT]
    left_out = [each for each in found.judged if each.outcome == LEFT_OUT]
    tables = [_claims(tested), *([_left_out(left_out)] if left_out else []), _tests(tested)]
    return [*tables, _summary(found)]


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    """Every claim with what it needs and the power of its test, and the price of all of it."""
    found = Reproduction(document)
    plan = found.plan
    lines = [str(plan["summary"]), price_sentence(document), f"Plan: {found.hash}"]
    return [_planned(found), Notice("The plan", tuple(lines), "result")]


def payload(document: SweepDocument) -> dict[str, Any]:
    found = Reproduction(document)
    return {"claims": [each.to_dict() for each in found.judged], "outcomes": found.counted(), "plan_hash": found.hash}


def _claims(tested: Sequence[Judged]) -> Table:
    rows: list[Row] = [
        {
            "outcome": Cell(each.outcome, note=each.why and f"{each.why[:1].upper()}{each.why[1:]}." or None),
            "here": each.here or None,
            "paper": each.claim["paper"],
            "claim": each.claim["claim"],
        }
        for each in tested
    ]
    return Table(
        "claims",
        "The paper's claims, tested here",
        (Column("outcome", "outcome"), Column("here", "here"), Column("paper", "paper"), Column("claim", "claim")),
        tuple(rows),
        caption="here: the mean over seeds with its 95 % interval, losses in nats per token; outcomes: p below 5 % "
        "after Holm's correction over all of these claims",
    )


def _left_out(claims: Sequence[Judged]) -> Table:
    rows: list[Row] = [
        {
            "power": each.power,
            "effect": each.claim["assumed"]["effect"],
            "spread": each.claim["assumed"]["standard_deviation"],
            "paper": each.claim["paper"],
            "claim": each.claim["claim"],
        }
        for each in claims
    ]
    return Table(
        "claims_left_out",
        "Not tested: needs larger scale",
        (
            Column("power", "power", "", "number", decimals=2),
            Column("effect", "effect", "assumed", "number", digits=2),
            Column("spread", "spread", "assumed", "number", digits=2),
            Column("paper", "paper"),
            Column("claim", "claim"),
        ),
        tuple(rows),
        caption="power: probability, calculated before the first run, of showing the assumed effect with this spread "
        "over seeds (of a bench: over its rounds); below 80 %",
    )


def _tests(tested: Sequence[Judged]) -> Table:
    """How each claim was tested; the plan has the rest."""
    rows: list[Row] = [
        {
            "claim": each.claim["key"],
            "source": each.claim["source"],
            "n": each.finding.n if each.finding else None,
            "power": each.power,
            "p": each.finding.p if each.finding else None,
            "p_holm": each.p_holm,
            "diverged": each.diverged or None,
        }
        for each in tested
    ]
    some_diverged = any(each.diverged for each in tested)
    return Table(
        "claim_tests",
        "Their tests",
        (
            Column("claim", "claim"),
            Column("n", "n", "pairs", "count"),
            Column("power", "power", "before", "number", decimals=2),
            Column("p", "p", "", "number", digits=2),
            Column("p_holm", "p", "Holm", "number", digits=2),
            *((Column("diverged", "diverged", "runs", "count"),) if some_diverged else ()),
            Column("source", "in the paper"),
        ),
        tuple(rows),
        caption="power: of the design for the effect that was assumed before the first run",
    )


def _planned(found: Reproduction) -> Table:
    rows: list[Row] = []
    for claim in found.plan["claims"]:
        before, assumed = found.document["facts"]["before"][claim["key"]], claim.get("assumed") or {}
        rows.append(
            {
                "power": before["power"],
                "effect": assumed.get("effect"),
                "spread": assumed.get("standard_deviation"),
                "decided": "tested" if before["tested"] else "needs larger scale",
                "claim": claim["claim"],
            }
        )
    return Table(
        "planned_claims",
        "What is tested",
        (
            Column("decided", "before"),
            Column("power", "power", "", "number", decimals=2),
            Column("effect", "effect", "assumed", "number", digits=2),
            Column("spread", "spread", "assumed", "number", digits=2),
            Column("claim", "claim"),
        ),
        tuple(rows),
        caption="power: probability that the test shows the assumed effect with this spread over seeds (of a bench: "
        "over its rounds), corrected over all claims that are tested; below 80 % a claim is left out",
    )


def _summary(found: Reproduction) -> Notice:
    words = [f"{number} {_plural(outcome, number)}" for outcome, number in found.counted().items()]
    lines = [f"{', '.join(words)}.", *_doubts(found.judged)]
    lines.append(f"Plan {found.hash[:SHOWN_DIGITS]}: {found.plan['summary']}")
    return Notice(f"Of {counted(len(found.judged), 'claim')}", tuple(lines), "result")


def _doubts(judged: Sequence[Judged]) -> list[str]:
    lost = [each for each in judged if each.diverged and each.finding and not is_about_more_than_loss(each.claim)]
    if not lost:
        return []
    names = ", ".join(each.claim["key"] for each in lost)
    return [f"Runs that diverged count with the loss of a model that knows nothing, ln(vocabulary): {names}."]


def _plural(outcome: str, number: int) -> str:
    return outcome.replace("needs", "need") if number != 1 else outcome
