"""The mixing matrix M (§6.2 of the paper): what each sublayer's input holds of the embedding and of every sublayer's
output, whatever the scheme."""

from __future__ import annotations

from collections.abc import Sequence

from attnres_cli.report.arms import Arm
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Heat, Numbers, Picture
from attnres_cli.report.pictures._over_probes import probed_runs
from attnres_cli.report.pictures._probed import Probed, partly_words, probe_words
from attnres_cli.report.pictures._series import in_order, key_for, mean_curve, sentences

ORDER = 50
Matrix = tuple[Numbers, ...]


def build(comparison: Comparison) -> list[Picture]:
    """One heat map per probed arm, all on one colour scale."""
    found = [
        (arm, runs, matrix)
        for arm in in_order(comparison)
        if (runs := probed_runs(arm, "mixing")) and (matrix := _mean_matrix(runs))
    ]
    values = [value for _, _, matrix in found for row in matrix for value in row if value is not None]
    if not values:
        return []
    low, high = min(0.0, *values), max(values)
    if low < 0:
        low, high = -max(-low, high), max(-low, high)
    return [_heat(comparison, arm, runs, matrix, (low, high)) for arm, runs, matrix in found]


def _mean_matrix(runs: Sequence[Probed]) -> Matrix | None:
    """Over the runs; what lies above the diagonal (sources that do not exist yet) is empty."""
    matrices = [rows for each in runs if (rows := each.rows("matrix"))]
    if not matrices or any(len(each) != len(matrices[0]) for each in matrices):
        return None
    mean = [mean_curve([matrix[site] for matrix in matrices]).y for site in range(len(matrices[0]))]
    return tuple(
        tuple(value if source <= site else None for source, value in enumerate(row)) for site, row in enumerate(mean)
    )


def _heat(
    comparison: Comparison, arm: Arm, runs: Sequence[Probed], matrix: Matrix, scale: tuple[float, float]
) -> Heat:  # fmt: skip
    outputs = [f"{('attention', 'feed-forward')[index % 2]} {index // 2}" for index in range(len(matrix) - 1)]
    columns, rows = ("embedding", *outputs), (*outputs, "output")
    title = f"Mixing matrix of {arm.title}"
    ranks = [rank for each in runs if (rank := each.number("effective_rank")) is not None]
    ranked = f"effective rank {sum(ranks) / len(ranks):.3g} of {len(matrix)}" if ranks else ""
    largest, source, site = max(
        (value, column, row)
        for row, of_row in zip(rows, matrix, strict=True)
        for column, value in zip(columns, of_row, strict=True)
        if value is not None
    )
    caption = sentences(
        "coefficient of each output in what a sublayer reads, before its norm; mean over tokens",
        f"mean over {len(runs)} runs" if len(runs) > 1 else "",
        ranked,
        "colour scale shared by all arms" if len(comparison.arms) > 1 else "",
        probe_words(runs),
        partly_words(arm, runs),
    )
    alternative = (
        f"{title}, {len(rows)} sites by {len(columns)} sources{', ' if ranked else ''}{ranked}. The largest "
        f"coefficient is {largest:.3g}, of {source} at {site}."
    )
    return Heat(
        key_for("mixing", comparison, arm), title, Axis("output of"), Axis("read by"), columns, rows, matrix,
        Axis("coefficient"), *scale, alternative, caption, diverging=scale[0] < 0,
    )  # fmt: skip
