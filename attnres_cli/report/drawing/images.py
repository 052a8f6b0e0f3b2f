"""Pictures as image files: PNG for slides, SVG and PDF for papers, through matplotlib (the extra `report`).

An image is as wide as one column of a two-column paper and legible at that size. The same picture gives the same bytes
with the same matplotlib: no dates, no random names. A file holds its alternative text, too: as `title` and `desc` of an
SVG, and in the metadata of a PNG or PDF.
"""

from __future__ import annotations

import io
import re
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, get_args
from xml.sax.saxutils import escape

from attnres_cli.errors import UserError
from attnres_cli.report.picture import Heat, Lines
from attnres_cli.report.visible import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ImageFormat = Literal["png", "svg", "pdf"]
FORMATS: tuple[ImageFormat, ...] = get_args(ImageFormat)
DOTS_PER_INCH = 300

# Names are names: nothing in them is mathematics. DejaVu Sans comes with matplotlib, so that every machine has it.
SETTINGS: dict[str, Any] = {
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": "DejaVu Sans",
    "svg.fonttype": "path",
    "svg.hashsalt": "attnres",
    "pdf.fonttype": 42,
    "path.simplify": True,
}


def check_installed() -> None:
    """Raises UserError with the pip line where matplotlib is missing; asked before anything is read."""
    if find_spec("matplotlib") is None:
        raise UserError(
            "Drawing images needs matplotlib, which is not installed.", hint="pip install 'attnres-cli[report]'"
        )


def draw(picture: Lines | Heat, image_format: ImageFormat, *, bare: bool = False) -> bytes:
    """The whole file. bare: without title and caption, for a paper that has its own."""
    from matplotlib import style

    with warnings.catch_warnings(), style.context(["default", SETTINGS], after_reset=True):
        # A name in a script that the font lacks is drawn as boxes; the alternative text has it.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        return _file(_figure(picture, bare=bare), picture, image_format)


def _figure(picture: Lines | Heat, *, bare: bool) -> Figure:
    if isinstance(picture, Heat):
        from attnres_cli.report.drawing._image_grid import draw_grid

        return draw_grid(picture, bare=bare)
    if picture.x.names:
        from attnres_cli.report.drawing._image_points import draw_points

        return draw_points(picture, bare=bare)
    from attnres_cli.report.drawing._image_curves import draw_curves

    return draw_curves(picture, bare=bare)


def _file(figure: Figure, picture: Lines | Heat, image_format: ImageFormat) -> bytes:
    title, words = visible(picture.title), visible(picture.alternative)
    by_format: dict[ImageFormat, dict[str, Any]] = {
        "png": {"Title": title, "Description": words, "Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"Title": title, "Subject": words, "Creator": None, "Producer": None, "CreationDate": None},
    }
    buffer = io.BytesIO()
    figure.savefig(buffer, format=image_format, dpi=DOTS_PER_INCH, metadata=by_format[image_format])
    content = buffer.getvalue()
    return _with_words(content, title, words) if image_format == "svg" else content


def _with_words(svg: bytes, title: str, words: str) -> bytes:
    """The SVG with what a screen reader says of it."""
    head = re.search(rb"<svg\b[^>]*>", svg)
    assert head is not None, "matplotlib wrote no SVG"
    opening = head.group(0).replace(b"<svg", b'<svg role="img"', 1)
    said = f"\n <title>{escape(title)}</title>\n <desc>{escape(words)}</desc>".encode()
    return svg[: head.start()] + opening + said + svg[head.end() :]
