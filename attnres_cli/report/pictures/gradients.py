"""Gradients through depth: of each transformer block's parameters, and of the stream after it."""

from __future__ import annotations

from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Picture
from attnres_cli.report.pictures._over_depth import BLOCKS, BLOCKS_PASSED, Figure, build_figure

ORDER = 30
FIGURES = (
    Figure(
        "parameter-gradients", "Parameter gradients by depth", "gradients", "parameter_grad_norm", BLOCKS,
        Axis("gradient norm of a block's parameters"), "L2 norm before clipping, on a fixed validation batch",
    ),
    Figure(
        "activation-gradients", "Activation gradients by depth", "gradients", "activation_grad_norm", BLOCKS_PASSED,
        Axis("gradient norm of the stream"),
        "L2 norm of the loss's gradient with respect to the stream after each transformer block", first=1,
    ),
)  # fmt: skip


def build(comparison: Comparison) -> list[Picture]:
    return [picture for figure in FIGURES for picture in build_figure(comparison, figure)]
