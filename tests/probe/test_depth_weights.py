"""Depth weights against the scheme's own at each site, token by token; sinks against weights made by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from attnres_cli.probe.probes import depth_weights
from tests.probe.walked import all_tokens, subject, walk

MIXING = ("3 blocks", "full", "multi-gate", "dual-attnres", "delta-attnres", "sigmoid", "window")


@pytest.mark.parametrize("name", MIXING)
def test_every_site(name: str) -> None:
    seen = subject(name, stir=0.7)
    found = depth_weights.measure(seen)
    assert found is not None
    tokens, _ = all_tokens(seen)
    residual = seen.model.residual
    with torch.no_grad():
        reference = walk(seen.model, tokens)
        states = [*reference.states, reference.closing]
        asked = [(ordinal, residual.depth_weights(state, ordinal)) for ordinal, state in enumerate(states)]
    expected = [(ordinal, *weights) for ordinal, weights in asked if weights is not None]
    assert [site["ordinal"] for site in found.summary["sites"]] == [ordinal for ordinal, _, _ in expected]
    for row, site, (_, sources, weights) in zip(
        found.arrays["mean_weight"], found.summary["sites"], expected, strict=True
    ):
        by_source = [[float(w) for w in per_token.flatten()] for per_token in weights]
        means = [sum(each) / len(each) for each in by_source]
        deviations = [
            math.sqrt(sum((w - mean) ** 2 for w in each) / len(each))
            for each, mean in zip(by_source, means, strict=True)
        ]
        entropies = [-sum(w * math.log(w) for w in token if w > 0) for token in zip(*by_source, strict=True)]
        assert site["sources"] == list(sources)
        assert site["mean"] == pytest.approx(means, rel=1e-9)
        assert site["token_deviation"] == pytest.approx(deviations, rel=1e-6, abs=1e-12)
        assert site["entropy"] == pytest.approx(sum(entropies) / len(entropies), rel=1e-9, abs=1e-12)
        assert row[: len(means)].tolist() == pytest.approx(means, rel=1e-9)
        assert not row[len(means) :].any()


def test_means_by_kind_are_over_sites_with_a_choice() -> None:
    found = depth_weights.measure(subject("3 blocks"))
    assert found is not None
    sites = [site for site in found.summary["sites"] if site["kind"] == "attention" and len(site["sources"]) > 1]
    by_kind = found.summary["by_kind"]["attention"]
    assert by_kind["sites"] == len(sites) == 3  # the first attention has nothing to choose from
    assert by_kind["embedding_share"] == pytest.approx(sum(site["mean"][0] for site in sites) / 3)
    spreads = [sum(site["token_deviation"]) / len(site["token_deviation"]) for site in sites]
    assert by_kind["token_deviation"] == pytest.approx(sum(spreads) / 3)


def test_a_scheme_without_depth_weights() -> None:
    assert depth_weights.measure(subject("prenorm")) is None


def site(weights: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """source → (mean, deviation), oldest first."""
    return {
        "sources": list(weights),
        "mean": [mean for mean, _ in weights.values()],
        "token_deviation": [deviation for _, deviation in weights.values()],
    }


def test_sinks_by_their_definition() -> None:
    sites = [
        site({"embedding": (1.0, 0.0)}),
        site({"embedding": (0.8, 0.1), "a": (0.2, 0.1)}),
        site({"embedding": (0.6, 0.1), "a": (0.1, 0.01), "b": (0.3, 0.05)}),
        site({"embedding": (0.2, 0.01), "a": (0.1, 0.01), "b": (0.4, 0.3), "c": (0.3, 0.0)}),
        site({"embedding": (0.5, 0.01), "a": (0.1, 0.01), "b": (0.1, 0.3), "c": (0.2, 0.0), "d": (0.1, 0.0)}),
    ]
    # The embedding: at three of the four sites that could choose it and where it is not the newest. b varies with the
    # token; c and d are chosen at fewer than two sites where they are not the newest; the newest never counts.
    (only,) = depth_weights.sinks(sites)
    assert (only["source"], only["sites"], only["of_sites"]) == ("embedding", 3, 4)
    assert only["mean_weight"] == pytest.approx((0.8 + 0.6 + 0.2 + 0.5) / 4)
    assert only["token_deviation"] == pytest.approx((0.1 + 0.1 + 0.01 + 0.01) / 4)


def test_even_weights_have_no_sinks() -> None:
    found = depth_weights.measure(subject("full", stir=0.0))
    assert found is not None
    assert found.summary["sinks"] == []
