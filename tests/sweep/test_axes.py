from __future__ import annotations

import pytest

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.sweep.axes import Coordinates, grid, parse_ratios


def test_ratios_are_sorted_numbers() -> None:
    assert parse_ratios("32,8, 16", "--ratios") == (8.0, 16.0, 32.0)
    assert parse_ratios("0.5", "--head-ratios") == (0.5,)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "'' is no number"),
        ("8,,16", "'' is no number"),
        ("8;16", "'8;16' is no number"),
        ("8,wide", "'wide' is no number"),
        ("8,0", "'0' is not positive and finite"),
        ("-8", "'-8' is not positive and finite"),
        ("nan", "'nan' is not positive and finite"),
        ("inf", "'inf' is not positive and finite"),
        ("8,16,8.0", "'8.0' is given twice"),
    ],
)
def test_anything_else_is_refused_with_the_word_that_is_wrong(text: str, fault: str) -> None:
    with pytest.raises(UserError, match="--ratios") as caught:
        parse_ratios(text, "--ratios")
    assert fault in str(caught.value)
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_grid_lists_its_cells_row_by_row() -> None:
    assert [cell.key for cell in grid((16, 8))] == ["r8", "r16"]
    assert [cell.key for cell in grid((8, 16), (1, 0.5))] == ["r8-h0.5", "r16-h0.5", "r8-h1", "r16-h1"]
    assert str(Coordinates(8, 0.5)) == "d_model/L_b 8, heads/L_b 0.5"
