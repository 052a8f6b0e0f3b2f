"""Causal importance against walks in which sources are hidden, written out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from attnres_cli.probe.probes import importance
from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.residual.registry import scheme_names
from attnres_cli.train.observers.depth_weights import weights_by_site
from tests.probe.by_hand import interval_by_hand, losses_by_hand, over_sources, subject_of

Hidden = Callable[[int, int], bool]


@pytest.fixture(scope="module")
def full() -> tuple[Subject, Findings]:
    subject = subject_of({"scheme": "attnres-full"})
    found = importance.measure(subject)
    assert found is not None
    return subject, found


def row_of(found: Findings, kind: str, name: str) -> dict[str, Any]:
    (row,) = [row for row in found.summary[kind] if row["source"] == name]
    return row


def assert_row(row: dict[str, Any], subject: Subject, hidden: Hidden) -> None:
    whole = losses_by_hand(subject, over_sources(subject.model, range(8)))
    without = losses_by_hand(subject, over_sources(subject.model, range(8), hidden))
    expected = interval_by_hand(without, whole)
    assert (row["delta"], row["low"], row["high"]) == pytest.approx(expected, rel=1e-9, abs=1e-11)


def test_every_source_of_full(full: tuple[Subject, Findings]) -> None:
    subject, found = full
    kinds = ("attention", "feed_forward")
    names = ["embedding", *(f"{kinds[ordinal % 2]} {ordinal // 2}" for ordinal in range(8))]
    assert [row["source"] for row in found.summary["sources"]] == names
    for ordinal, row in enumerate(found.summary["sources"], -1):
        assert_row(row, subject, lambda site, source, ordinal=ordinal: source == ordinal)


def test_families_of_full(full: tuple[Subject, Findings]) -> None:
    subject, found = full
    hidden: dict[str, Hidden] = {
        "embedding": lambda site, source: source == -1,
        "early attention": lambda site, source: source in (0, 2),
        "early feed-forward": lambda site, source: source in (1, 3),
        "late attention": lambda site, source: source in (4, 6),
        "late feed-forward": lambda site, source: source in (5, 7),
    }
    assert [row["source"] for row in found.summary["families"]] == list(hidden)
    for name, each in hidden.items():
        assert_row(row_of(found, "families", name), subject, each)


def test_the_first_site_keeps_its_only_source(full: tuple[Subject, Findings]) -> None:
    embedding = row_of(full[1], "sources", "embedding")
    assert (embedding["sites"], embedding["spared"]) == (8, [0])
    last = row_of(full[1], "sources", "feed_forward 3")
    assert (last["sites"], last["spared"]) == (1, [])


def test_mean_weights_are_those_of_the_sites_that_lose_it(full: tuple[Subject, Findings]) -> None:
    """Over all tokens; of a family the sum of its members'."""
    subject, found = full
    totals: dict[str, list[float]] = {}
    tokens = subject.tokens
    for site in range(1, 9):
        sums: dict[str, float] = {}
        for batch, _ in subject.batches:
            weights = weights_by_site(subject.model, batch, "fp32")[site]
            for name, row in zip(weights.sources, weights.weights, strict=True):
                sums[name] = sums.get(name, 0.0) + float(row.sum()) / tokens
        for name, weight in sums.items():
            totals.setdefault(name, []).append(weight)
    for name, values in totals.items():
        assert row_of(found, "sources", name)["mean_weight"] == pytest.approx(sum(values) / len(values), rel=1e-12)
    # Sites 5 to 8 can choose attention 2, and 7 and 8 attention 3: a family's sum at each of the four.
    both = [sum(totals["attention 2"]), sum(totals["attention 3"])]
    assert row_of(found, "families", "late attention")["mean_weight"] == pytest.approx(sum(both) / 4, rel=1e-12)


def test_the_running_sum_is_ablated_where_it_runs() -> None:
    found = importance.measure(subject_of({"scheme": "attnres-block", "block_sublayers": 3}))
    assert found is not None
    assert [row["source"] for row in found.summary["sources"]] == ["embedding", "block 1", "block 2", "block 3"]
    sites = {row["source"]: row["sites"] for row in found.summary["families"]}
    # Sums grow at sites 1, 2 | 4, 5 | 7; finished ones are block 1 at 3 to 8 and 2 at 6 to 8, and block 3 at 8.
    assert sites == {"embedding": 8, "running sum": 5, "early sums": 6, "late sums": 1}


def test_one_sequence_has_no_interval() -> None:
    subject = subject_of({"scheme": "attnres-full"}, **{"model.transformer_blocks": 1})
    batch = tuple(part[:1] for part in subject.batches[0])
    found = importance.measure(Subject(subject.model, (batch,), "fp32"))  # type: ignore[arg-type]
    assert found is not None
    assert {row["low"] for row in found.summary["sources"]} == {None}
    json.dumps(found.summary, allow_nan=False)


@pytest.mark.parametrize("scheme", scheme_names())
def test_every_scheme(scheme: str) -> None:
    """Each source that a site can do without, with a finite Δ; nothing for a scheme that does not choose."""
    subject = subject_of({"scheme": scheme}, **{"model.transformer_blocks": 2})
    found = importance.measure(subject)
    sites = weights_by_site(subject.model, subject.batches[0][0], "fp32")
    assert (found is None) == (not sites)
    if found is not None:
        chosen = dict.fromkeys(name for site in sites if len(site.sources) > 1 for name in site.sources)
        assert [row["source"] for row in found.summary["sources"]] == list(chosen)
        assert any(row["delta"] != 0 for row in found.summary["sources"])
        json.dumps(found.summary, allow_nan=False)
