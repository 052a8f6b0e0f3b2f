"""Layer removal against walks through the sublayers that are left, written out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from attnres_cli.probe.altered import altered_losses
from attnres_cli.probe.probes import removal
from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.residual.alteration import UNALTERED, Alteration
from attnres_cli.residual.registry import scheme_names
from tests.probe.by_hand import WalkOfPieces, interval_by_hand, losses_by_hand, over_sources, plain, subject_of

Losses = Callable[[Sequence[int]], list[float]]


@pytest.fixture(scope="module", params=["prenorm", "attnres-full"])
def probed(request: pytest.FixtureRequest) -> tuple[Findings, Losses]:
    """What the probe found, and the losses with these transformer blocks in this order, by hand."""
    subject = subject_of({"scheme": request.param})

    def through(ordinals: Sequence[int]) -> WalkOfPieces:
        return plain(ordinals) if request.param == "prenorm" else over_sources(subject.model, ordinals)

    def losses(blocks: Sequence[int]) -> list[float]:
        return losses_by_hand(subject, through([ordinal for block in blocks for ordinal in (2 * block, 2 * block + 1)]))

    return removal.measure(subject), losses


def assert_curve(found: Findings, name: str, losses: Losses, left: Sequence[Sequence[int]]) -> None:
    """The array and its interval are those of the blocks that are left at each place."""
    whole = losses(range(4))
    expected = np.array([interval_by_hand(losses(blocks), whole) for blocks in left]).T
    for array, values in zip((name, f"{name}_low", f"{name}_high"), expected, strict=True):
        np.testing.assert_allclose(found.arrays[array], values, rtol=1e-9, atol=1e-11)


def test_one_block_skipped(probed: tuple[Findings, Losses]) -> None:
    found, losses = probed
    assert_curve(found, "skip_delta", losses, [[b for b in range(4) if b != skipped] for skipped in range(4)])


def test_the_last_blocks_cut(probed: tuple[Findings, Losses]) -> None:
    found, losses = probed
    assert_curve(found, "truncate_delta", losses, [range(left) for left in (3, 2, 1, 0)])


def test_neighbours_swapped(probed: tuple[Findings, Losses]) -> None:
    found, losses = probed
    assert_curve(found, "swap_delta", losses, [[1, 0, 2, 3], [0, 2, 1, 3], [0, 1, 3, 2]])


def test_greedy_pruning(probed: tuple[Findings, Losses]) -> None:
    """Every candidate tried anew, with a walk of its own, in every round."""
    found, losses = probed
    whole = float(np.mean(losses(range(4))))
    left, order, after = [0, 1, 2, 3], [], []
    while left:
        tried = {block: float(np.mean(losses([other for other in left if other != block]))) for block in left}
        best = min(tried, key=lambda block: tried[block])
        left.remove(best)
        order.append(best)
        after.append(tried[best])
    assert found.summary["pruning_order"] == order
    assert_curve(found, "pruning_delta", losses, [sorted(set(range(4)) - set(order[:k])) for k in range(1, 5)])
    removable = max([0, *(k for k, loss in enumerate(after, 1) if loss <= 1.01 * whole)])
    assert found.summary["removable_blocks"] == removable
    assert found.summary["share_of_depth_that_matters"] == 1 - removable / 4
    assert found.summary["whole_loss"] == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    ("pruned", "removable"),
    [
        ([2.1, 2.2, 2.3], 0),
        ([2.02, 2.0201, 3.0], 1),  # 1 % of 2.0 exactly, and a little more
        ([1.9, 1.95, 2.01], 3),
        ([2.01, 2.05, 2.015, 2.5], 3),  # the largest k, whatever lies between
    ],
)
def test_how_many_blocks_can_go(pruned: list[float], removable: int) -> None:
    assert removal.removable_blocks(2.0, pruned) == removable


def test_of_equal_blocks_the_first_goes() -> None:
    subject = subject_of({"scheme": "prenorm"})
    with torch.no_grad():
        for block in subject.model.blocks:  # nothing is written, so that nothing is lost
            block.attention.output.weight.zero_()
            block.feed_forward.down.weight.zero_()
    found = removal.measure(subject)
    assert found.summary["pruning_order"] == [0, 1, 2, 3]
    assert found.summary["removable_blocks"] == 4
    assert found.summary["share_of_depth_that_matters"] == 0.0
    assert not found.arrays["skip_delta"].any()


def test_one_sequence_has_no_interval() -> None:
    subject = subject_of({"scheme": "prenorm"}, **{"model.transformer_blocks": 1})
    alone = Subject(subject.model, (tuple(part[:1] for part in subject.batches[0]),), "fp32")  # type: ignore[arg-type]
    found = removal.measure(alone)
    assert np.isfinite(found.arrays["skip_delta"]).all()
    assert np.isnan(found.arrays["skip_delta_low"]).all()
    assert found.arrays["swap_delta"].shape == (0,)


@torch.no_grad()
@pytest.mark.parametrize("scheme", scheme_names())
def test_every_scheme(scheme: str) -> None:
    """Numbers of the right shapes, the model as it was, and walks that go on from common states bit for bit."""
    subject = subject_of({"scheme": scheme}, **{"model.transformer_blocks": 2})
    before = {name: tensor.clone() for name, tensor in subject.model.state_dict().items()}
    found = removal.measure(subject)
    for name, shape in {"skip_delta": 2, "truncate_delta": 2, "swap_delta": 1, "pruning_delta": 2}.items():
        assert np.isfinite(found.arrays[name]).all()
        assert found.arrays[name].shape == (shape,)
    assert all(torch.equal(tensor, before[name]) for name, tensor in subject.model.state_dict().items())
    assert sorted(found.summary["pruning_order"]) == [0, 1]
    last = Alteration(removed=frozenset((2, 3)))
    losses = altered_losses(subject, [UNALTERED, last])
    for alteration, given in losses.items():
        assert torch.equal(given, subject.sequence_losses(subject.model.altered(alteration).walk))


def test_findings_are_plain_numbers(probed: tuple[Findings, Any]) -> None:
    import json

    json.dumps(probed[0].summary, allow_nan=False)
    assert {array.dtype for array in probed[0].arrays.values()} == {np.dtype(np.float64)}
