"""What an arm looks like in every picture, and the colour scales: one place for characters, images and pages.

The colours follow the idea of Okabe and Ito (2008): hues that people with a colour vision deficiency tell apart. They
were chosen so that every two of them differ under simulated protanopia, deuteranopia and tritanopia (Machado, Oliveira
and Fernandes 2009), and so that each reaches a contrast of 3 : 1 against its background (WCAG 2, 1.4.11). Colour never
tells alone: each arm has a marker too, and from the ninth on the colours come back with another dash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnres_cli.report.heat import ANCHORS, Rgb

Dash = Literal["solid", "dash", "dot", "dashdot"]
Marker = Literal["circle", "square", "triangle", "diamond", "cross", "plus", "star", "pentagon"]

# What pictures stand on.
LIGHT_BACKGROUND = "#fdfcf9"
DARK_BACKGROUND = "#15171a"

# The baseline is the colour of ink; the others stand out from it. (light, dark)
_COLOURS: tuple[tuple[str, str], ...] = (
    ("#2f3437", "#e3e5e8"),  # ink
    ("#1c4fd6", "#6f86ff"),  # blue
    ("#d96a15", "#de6427"),  # orange
    ("#2f9c68", "#4fe09a"),  # green
    ("#9e3997", "#b870b4"),  # purple
    ("#632305", "#ffac2b"),  # brown; amber on a dark background
    ("#6685f5", "#9fc8ff"),  # sky
    ("#8b6430", "#c4f076"),  # olive; lime on a dark background
)
_MARKERS: tuple[Marker, ...] = ("circle", "square", "triangle", "diamond", "cross", "plus", "star", "pentagon")
_DASHES: tuple[Dash, ...] = ("solid", "dot", "dashdot")
# A second curve of the same arm (Series.dashed), in whatever dash the first one is.
SECOND_DASH: Dash = "dash"

# How many arms have a colour of their own.
MOST_COLOURS = len(_COLOURS)

# Magnitudes: rises evenly in lightness (report/heat.py).
SEQUENTIAL: tuple[Rgb, ...] = ANCHORS
# Differences: blue below zero, orange above, both equally dark at their ends.
DIVERGING: tuple[Rgb, ...] = (
    (24, 54, 140),
    (84, 120, 200),
    (166, 188, 226),
    (240, 238, 232),
    (240, 190, 148),
    (212, 120, 52),
    (134, 60, 6),
)


@dataclass(frozen=True)
class ArmStyle:
    """light, dark: the colour on either background, "#rrggbb"."""

    light: str
    dark: str
    marker: Marker
    dash: Dash


def arm_style(place: int) -> ArmStyle:
    """The look of the arm at this place of the comparison, 0 for the baseline."""
    assert place >= 0, "places count from 0"
    turn, index = divmod(place, MOST_COLOURS)
    light, dark = _COLOURS[index]
    return ArmStyle(light, dark, _MARKERS[index], _DASHES[turn % len(_DASHES)])


def css(colour: Rgb) -> str:
    """ "#rrggbb"."""
    return "#" + "".join(f"{part:02x}" for part in colour)
