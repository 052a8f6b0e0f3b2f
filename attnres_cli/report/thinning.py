"""Long curves with fewer points that look the same: what stands out stays."""

from __future__ import annotations

from collections.abc import Sequence

# Per stretch of a curve: its lowest point, its highest one, and a gap.
_KEPT_PER_STRETCH = 3


def thinned(values: Sequence[float | None], most: int) -> list[int]:
    """Places of at most `most` of the values, ascending; all of them where they are no more.

    The values are cut into equally long stretches, and of each its lowest and its highest one are kept, so that no
    spike is lost and none is invented. The first and the last value stay, and so does a gap (None) in every stretch
    that has one, so that a line does not run across it.
    """
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = max(1, (most - 2) // _KEPT_PER_STRETCH)
    inner = count - 2
    kept = {0, count - 1}
    for index in range(stretches):
        stretch = range(1 + index * inner // stretches, 1 + (index + 1) * inner // stretches)
        known = [place for place in stretch if values[place] is not None]
        if known:
            kept |= {min(known, key=values.__getitem__), max(known, key=values.__getitem__)}  # type: ignore[arg-type]
        if len(known) < len(stretch):
            kept.add(next(place for place in stretch if values[place] is None))
    return sorted(kept)
