"""How precise the numbers in the cells of a grid are, however it is drawn."""

from __future__ import annotations

import math

from attnres_cli.report.picture import Heat

MOST_DECIMALS = 5
# What schemes do to a loss is seen in its third decimal.
LOSS_DECIMALS = 3


def cell_decimals(picture: Heat) -> int:
    """So many decimals that the cells can be told apart: two digits of the spread of the values."""
    values = [value for row in picture.values for value in row if value is not None]
    spread = max(values) - min(values) or max(abs(value) for value in values) or 1.0
    decimals = min(MOST_DECIMALS, max(0, math.ceil(-math.log10(spread / 1.001)) + 1))
    return max(LOSS_DECIMALS, decimals) if "nats" in picture.value.unit else decimals
