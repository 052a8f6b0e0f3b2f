"""How L sublayers are cut into blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.errors import UserError
from attnres_cli.residual.block_sums import block_sizes


@given(st.integers(1, 300), st.data())
def test_num_blocks_gives_exactly_that_many(sublayers: int, data: st.DataObject) -> None:
    blocks = data.draw(st.integers(1, sublayers))
    sizes = block_sizes(sublayers, blocks, None)
    assert len(sizes) == blocks
    assert sum(sizes) == sublayers
    assert set(sizes[:-1]) <= {sublayers // blocks}
    assert sizes[-1] == sublayers // blocks + sublayers % blocks


@given(st.integers(1, 300), st.data())
def test_block_sublayers_leaves_the_rest_for_the_last(sublayers: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, sublayers))
    sizes = block_sizes(sublayers, None, size)
    assert sum(sizes) == sublayers
    assert set(sizes[:-1]) <= {size}
    assert sizes[-1] == (sublayers % size or size)


def test_more_blocks_than_sublayers_names_both_numbers() -> None:
    with pytest.raises(UserError, match=r"9 is more than the model's 8 sublayers"):
        block_sizes(8, 9, None)


def test_blocks_longer_than_the_model_are_one_block() -> None:
    """So that a block size can be put on a model of any depth."""
    assert block_sizes(8, None, 9) == block_sizes(8, None, 8) == (8,)


def test_the_default_is_eight_blocks_or_one_per_sublayer() -> None:
    assert block_sizes(48, None, None) == (6,) * 8
    assert block_sizes(4, None, None) == (1,) * 4
