"""The slow loop from the paper, by hand; and that the fast recipes and walks are the same, and no two faults alike."""

from __future__ import annotations

import ast
import math
from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnres_cli.verify import equations
from attnres_cli.verify.bookkeeping import Walk, walks
from attnres_cli.verify.equations import Rows, block_sizes, depth_attention, rms_norm, source_counts
from attnres_cli.verify.recipes import Recipe, recipes
from tests.residual import slow_loop


def test_it_shares_nothing_with_what_it_is_held_against() -> None:
    tree = ast.parse(Path(equations.__file__).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert imported <= {"__future__", "math", "collections.abc"}


def test_norm_by_hand() -> None:
    assert rms_norm([3.0, 4.0], None, 0.0) == pytest.approx([3 / math.sqrt(12.5), 4 / math.sqrt(12.5)])
    assert rms_norm([1.0, 1.0], [2.0, 3.0], 3.0) == pytest.approx([1.0, 1.5])


def test_two_sources_by_hand() -> None:
    """Keys (√2, 0) and (0, √2); query (ln 3 / √2, 0): weights 3 to 1."""
    mixed, weights = depth_attention([[[8.0, 0.0]], [[0.0, 4.0]]], [math.log(3) / math.sqrt(2), 0.0], None, 0.0)
    assert weights[0] == pytest.approx([0.75, 0.25])
    assert mixed[0] == pytest.approx([6.0, 1.0])


def test_a_zero_query_gives_the_mean() -> None:
    mixed, weights = depth_attention([[[8.0, 0.0]], [[0.0, 4.0]]], [0.0, 0.0], [5.0, 7.0], 1e-6)
    assert (mixed[0], weights[0]) == ([4.0, 2.0], [0.5, 0.5])


@pytest.mark.parametrize(
    ("sublayers", "blocks", "size", "sizes"),
    [
        (12, None, 4, [4, 4, 4]),
        (10, None, 3, [3, 3, 3, 1]),
        (10, 3, None, [3, 3, 4]),
        (10, 1, None, [10]),
        (3, None, None, [1, 1, 1]),
    ],
)
def test_blocks(sublayers: int, blocks: int | None, size: int | None, sizes: list[int]) -> None:
    assert block_sizes(sublayers, blocks, size) == sizes


def test_source_counts_of_the_papers_order() -> None:
    assert source_counts([4, 4, 4]) == [1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]
    assert source_counts([1] * 4) == [1, 2, 3, 4, 5]


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_two_loops_by_different_hands_agree() -> None:
    sources, query, gain = drawn(4, 2, 3, 5), drawn(5, seed=2), drawn(5, seed=3)
    expected, weights = slow_loop.depth_attention(list(sources), query, gain, 1e-3)
    rows: list[Rows] = [source.flatten(0, 1).tolist() for source in sources]
    mixed, alphas = depth_attention(rows, query.tolist(), gain.tolist(), 1e-3)
    torch.testing.assert_close(torch.tensor(mixed, dtype=torch.float64).view(2, 3, 5), expected)
    torch.testing.assert_close(torch.tensor(alphas, dtype=torch.float64).T.reshape(4, 2, 3), weights)
    torch.testing.assert_close(Recipe().mix(sources, query[None], gain[None], 1e-3)[0], expected)


def test_no_two_ways_of_mixing_are_alike() -> None:
    """Else a fault could be taken for another one, or for none."""
    sources, queries, gains = drawn(4, 2, 5, 6), drawn(1, 6, seed=2), 1 + 0.5 * drawn(1, 6, seed=3)
    results = {
        "; ".join(fault.told for fault in faults): recipe.mix(sources, queries, gains, 1e-6)
        for faults, recipe in recipes(True)
    }
    assert len(results) == len(recipes(True))
    for (name, one), (other_name, other) in combinations(results.items(), 2):
        assert (one - other).abs().max() > 1e-6, (name, other_name)


def test_no_two_single_ways_of_walking_are_alike() -> None:
    queries = drawn(9, 6, seed=2)

    def run(walk: Walk) -> Tensor:
        def mix(sources: list[Tensor], ordinal: int) -> Tensor:
            return Recipe().mix(torch.stack(sources), queries[ordinal : ordinal + 1], None, 1e-6)[0]

        seen: list[Tensor] = []

        def sublayer(number: int, x: Tensor) -> Tensor:
            seen.append(x)
            return torch.tanh(x.roll(number, -1)) * (number + 1)

        functions = [lambda x, number=number: sublayer(number, x) for number in range(8)]
        end = walk.run(mix, drawn(2, 4, 6), functions, [3, 3, 2])  # type: ignore[arg-type]
        return torch.stack([*seen, end])

    results = {"; ".join(fault.told for fault in faults): run(walk) for faults, walk in walks() if len(faults) < 2}
    for (name, one), (other_name, other) in combinations(results.items(), 2):
        assert (one - other).abs().max() > 1e-6, (name, other_name)
