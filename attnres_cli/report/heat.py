"""Heat colours that also people with a colour vision deficiency can tell apart: dark blue (low) over grey to yellow
(high).

The scale rises evenly in lightness, so that it also survives a black-and-white print. It follows cividis (Nuñez,
Anderton and Renslow 2018) at a few anchors with straight lines between them.
"""

from __future__ import annotations

from collections.abc import Sequence

Rgb = tuple[int, int, int]

ANCHORS: tuple[Rgb, ...] = (
    (0, 34, 78),
    (53, 69, 108),
    (102, 105, 112),
    (148, 142, 119),
    (200, 184, 102),
    (254, 232, 56),
)
_BLACK: Rgb = (0, 0, 0)
_WHITE: Rgb = (255, 255, 255)


def heat_colours(heat: float, anchors: Sequence[Rgb] = ANCHORS) -> tuple[Rgb, Rgb]:
    """(background, text) for a value between 0 and 1 on the scale through these colours."""
    position = min(1.0, max(0.0, heat)) * (len(anchors) - 1)
    index = min(int(position), len(anchors) - 2)
    share = position - index
    red, green, blue = (
        round(low + share * (high - low)) for low, high in zip(anchors[index], anchors[index + 1], strict=True)
    )
    background = (red, green, blue)
    return background, text_colour(background)


def text_colour(background: Rgb) -> Rgb:
    """Black or white, whichever contrasts more."""
    # Contrast ratio (L1 + 0.05) / (L2 + 0.05) is equal for black and white text at a luminance of 0.179.
    return _BLACK if _luminance(background) > 0.179 else _WHITE


def _luminance(colour: Rgb) -> float:
    """Relative luminance as WCAG 2 defines it, 0 to 1."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (each / 255 for each in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
