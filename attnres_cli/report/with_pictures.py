"""A comparison's document with pictures drawn in characters at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnres_cli.report.comparison import Comparison
from attnres_cli.report.document import Document
from attnres_cli.report.drawing.terminal import chart
from attnres_cli.report.picture import still, to_dict
from attnres_cli.report.pictures import chosen, pictures


def with_pictures(
    document: Document,
    comparison: Comparison,
    patterns: Sequence[str],
    *,
    width_columns: int | None,
    colour: bool,
) -> Document:
    """patterns: keys of pictures, or patterns of keys. JSON gets the pictures as data, every view of them.

    Raises UserError for a pattern that no picture fits.
    """
    found = chosen(pictures(comparison), patterns, where="--picture")
    charts = tuple(chart(still(picture), width_columns, colour=colour) for picture in found)
    payload = {**document.payload, "pictures": [to_dict(picture) for picture in found]}
    return replace(document, blocks=(*document.blocks, *charts), payload=payload)
