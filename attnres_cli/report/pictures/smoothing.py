"""Over-smoothing: how alike the tokens' states become through depth, and how alike what consecutive sublayers see."""

from __future__ import annotations

from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Picture
from attnres_cli.report.pictures._over_depth import BLOCKS_PASSED
from attnres_cli.report.pictures._over_probes import Measure, build_measure
from attnres_cli.report.pictures._series import on_fitting_scale

ORDER = 90
MEASURES = (
    Measure(
        "token-cosine", "Similarity of tokens by depth", "smoothing", "token_cosine", BLOCKS_PASSED,
        Axis("cosine between the states of two tokens"), "mean over pairs of tokens of a sequence; 1: all alike",
    ),
    Measure(
        "state-rank", "Effective rank of the states by depth", "smoothing", "effective_rank", BLOCKS_PASSED,
        Axis("effective rank of a sequence's states"), "how many directions the states of a sequence really use",
    ),
    Measure(
        "input-cosine", "Similarity of consecutive sublayer inputs", "smoothing", "input_cosine",
        Axis("sublayer before", "first: 0"), Axis("cosine to the next one's input"),
        "what a sublayer is given beside what the next one is given",
    ),
)  # fmt: skip


def build(comparison: Comparison) -> list[Picture]:
    found = [each for measure in MEASURES for each in build_measure(comparison, measure)]
    return [scaled for each in found for scaled in on_fitting_scale([each], linear=True)]
