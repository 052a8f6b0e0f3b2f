"""How sure is a share that was counted? The exact interval of a binomial proportion.

Clopper and Pearson, The use of confidence or fiducial limits illustrated in the case of the binomial, 1934: it holds
the true share with at least the stated confidence at every n, and is a little wide for it.
"""

from __future__ import annotations


def share_interval(hits: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """(low, high) of the share behind `hits` of `n` independent trials.

    Raises ValueError where hits are not between 0 and n, and for no trials.
    """
    if n < 1 or not 0 <= hits <= n:
        raise ValueError(f"a share needs hits of at least one trial, not {hits} of {n}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
    from scipy.special import betaincinv

    tail = 0.5 * (1.0 - confidence)
    low = 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits == n else float(betaincinv(hits + 1, n - hits, 1.0 - tail))
    return low, high
