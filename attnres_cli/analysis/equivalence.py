"""Are two arms the same for all practical purposes? Two one-sided tests (Schuirmann 1987).

"No difference shown" is no evidence of equality: a small study shows nothing. Equality within a margin is a claim of
its own: that the true mean difference lies above −margin and below +margin, each tested at alpha. Both hold exactly
when the 1 − 2·alpha interval of the mean lies inside the margin.
"""

from __future__ import annotations

import math

from attnres_cli.analysis.paired import PairedDifference


def equivalence_p(difference: PairedDifference, margin: float) -> float:
    """p of "the arms differ by `margin` (same unit as the differences) or more"; below 0.05: equivalent within it."""
    from scipy.special import stdtr

    if not (math.isfinite(margin) and margin > 0.0):
        raise ValueError(f"a margin of equivalence is a number above zero, not {margin}")
    if difference.standard_deviation == 0.0:
        return 0.0 if abs(difference.mean) < margin else 1.0
    degrees = difference.n - 1
    above_lower = (difference.mean + margin) / difference.standard_error
    below_upper = (margin - difference.mean) / difference.standard_error
    return float(max(stdtr(degrees, -above_lower), stdtr(degrees, -below_upper)))
