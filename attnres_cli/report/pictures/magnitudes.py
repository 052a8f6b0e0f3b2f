"""Magnitudes through depth: the stream, what every sublayer adds to it, and outliers where they were probed."""

from __future__ import annotations

from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Picture
from attnres_cli.report.pictures._over_depth import BLOCKS_PASSED, SUBLAYERS, Figure, build_figure

ORDER = 20
STREAM_IS = "what the stream is differs by scheme (docs/residuals.md)"
FIGURES = (
    Figure(
        "stream-rms", "Stream magnitude by depth", "magnitudes", "stream_rms", BLOCKS_PASSED, Axis("stream", "RMS"),
        f"root mean square of the scheme's stream over the tokens of a fixed validation batch; {STREAM_IS}",
    ),
    Figure(
        "output-rms", "Sublayer output magnitude by depth", "magnitudes", "output_rms", SUBLAYERS,
        Axis("sublayer output", "RMS"), "root mean square of what each sublayer computes",
    ),
    Figure(
        "update-share", "Update share by depth", "magnitudes", "update_share", SUBLAYERS,
        Axis("output / stream before it", "RMS ratio"),
        "how large a sublayer's output is beside the stream that it meets",
    ),
    Figure(
        "stream-largest", "Largest stream activation by depth", "magnitudes", "stream_max_abs", BLOCKS_PASSED,
        Axis("largest |activation| of the stream"), "over all probed tokens and channels",
    ),
    Figure(
        "output-kurtosis", "Outliers in sublayer outputs by depth", "magnitudes", "output_kurtosis", SUBLAYERS,
        Axis("kurtosis", "normal: 3"), "over all probed tokens and channels; far above 3: a few channels carry it",
    ),
)  # fmt: skip


def build(comparison: Comparison) -> list[Picture]:
    return [picture for figure in FIGURES for picture in build_figure(comparison, figure)]
