"""Logit lens: the loss when the model is closed after each transformer block."""

from __future__ import annotations

from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Picture
from attnres_cli.report.pictures._over_depth import BLOCKS_PASSED
from attnres_cli.report.pictures._over_probes import Measure, build_measure
from attnres_cli.report.pictures._series import on_fitting_scale

ORDER = 80
LENS = Measure(
    "lens", "Loss when the model is closed early", "lens", "loss_after_block", BLOCKS_PASSED,
    Axis("loss", "nats per token"), "the final norm and the head are put after each transformer block",
)  # fmt: skip


def build(comparison: Comparison) -> list[Picture]:
    return [scaled for each in build_measure(comparison, LENS) for scaled in on_fitting_scale([each])]
