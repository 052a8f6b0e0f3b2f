"""Pictures in characters, for a terminal of any width and for plain text.

Nothing depends on colour: curves are drawn with letters, grids with numbers or digits. Where colours are wanted, the
chart also says which cells have which (report/renderers/).
"""

from __future__ import annotations

from attnres_cli.report.document import Chart
from attnres_cli.report.drawing._terminal_curves import draw_curves
from attnres_cli.report.drawing._terminal_grid import draw_grid
from attnres_cli.report.drawing._terminal_points import draw_points
from attnres_cli.report.picture import Heat, Lines
from attnres_cli.report.visible import visible

# Curves are no clearer on a wider terminal.
WIDEST_COLUMNS = 100
NARROWEST_COLUMNS = 40
# Where nobody says how wide: in a pipe, in a file.
PLAIN_COLUMNS = 76


def chart(picture: Lines | Heat, width_columns: int | None = None, *, colour: bool = False) -> Chart:
    """The picture in lines of at most so many columns (at least 40).

    width_columns: of the terminal, None where nobody wraps: then curves are 76 columns wide, and a grid has all its
    rows and columns in numbers. On a terminal a grid with too many of them is thinned, and says so. colour: whether
    colours will be seen; then the scale of a grid is shown, too.
    """
    width = None if width_columns is None else max(NARROWEST_COLUMNS, width_columns)
    curve_width = PLAIN_COLUMNS if width is None else min(width, WIDEST_COLUMNS)
    if isinstance(picture, Heat):
        lines, heats = draw_grid(picture, width, colour=colour)
        return Chart(visible(picture.title), lines, heats=heats)
    lines, markers = (draw_points if picture.x.names else draw_curves)(picture, curve_width)
    return Chart(visible(picture.title), lines, markers)
