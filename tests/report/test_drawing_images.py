"""Pictures as image files: valid, the same every time, and indifferent to whatever names hold."""

from __future__ import annotations

import math
import struct
import warnings
import zlib
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from attnres_cli.errors import UserError
from attnres_cli.report.drawing import images
from attnres_cli.report.drawing.images import FORMATS, check_installed, draw
from attnres_cli.report.picture import Axis, Heat, Lines, Series
from tests.report.test_drawing_terminal import curve, importance, losses, weights

pytest.importorskip("matplotlib")

CURVES = losses(curve("prenorm", 0, spread=0.1), curve("attnres-block", 1, floor=1.2), y_range=(1.0, 3.0))
PICTURES = {"curves": CURVES, "grid": weights(5, 4, marked=frozenset({(3, 1)})), "points": importance("a", "b", "c")}
SVG = "{http://www.w3.org/2000/svg}"


def size_of(png: bytes) -> tuple[int, int]:
    """(width, height) in pixels; every chunk of the file is checked on the way."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    place, names = 8, []
    while place < len(png):
        length, name = struct.unpack(">I4s", png[place : place + 8])
        content = png[place + 8 : place + 8 + length]
        (checksum,) = struct.unpack(">I", png[place + 8 + length : place + 12 + length])
        assert zlib.crc32(name + content) == checksum
        names.append(name)
        place += 12 + length
    assert names[-1] == b"IEND"
    return struct.unpack(">II", png[16:24])


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_every_format_is_valid_and_the_same_every_time(picture: Lines | Heat) -> None:
    for image_format in FORMATS if picture is CURVES else ("png", "svg"):
        first = draw(picture, image_format)
        if image_format == "png":
            width, height = size_of(first)
            assert width == round(3.4 * 300)
            assert 0 < height < 2000
        elif image_format == "svg":
            ElementTree.fromstring(first)
        else:
            assert first.startswith(b"%PDF-")
            assert first.rstrip().endswith(b"%%EOF")
            assert b"CreationDate" not in first
        assert draw(picture, image_format) == first


def test_words_for_those_who_cannot_see_it_are_in_the_file() -> None:
    picture = replace(CURVES, title="Loss of <b> & co", alternative='It falls from 5 to "1.5" & stays > 1.')
    root = ElementTree.fromstring(draw(picture, "svg"))
    assert root.get("role") == "img"
    assert [(each.tag, each.text) for each in root][:2] == [
        (f"{SVG}title", picture.title),
        (f"{SVG}desc", picture.alternative),
    ]
    assert picture.alternative.encode() in draw(picture, "png")


def test_bare_images_have_no_title_and_caption() -> None:
    whole, bare = (size_of(draw(CURVES, "png", bare=each)) for each in (False, True))
    assert bare[0] == whole[0]
    assert bare[1] < whole[1] - 60


STRANGE = ("$x_1$", "$\\frac{", "[bold]", "<script>", "_hidden", "a" * 90, "日本語", "\x1b[2J", "100 %", "")


def test_a_name_is_just_a_name() -> None:
    """Mathematics, markup, what libraries hide, and what no font has."""
    series = tuple(replace(curve(name, place), label=name) for place, name in enumerate(STRANGE))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for picture in (
            replace(CURVES, series=series, title=" ".join(STRANGE), caption=" ".join(STRANGE)),
            importance(*STRANGE),
            replace(weights(10, 10), rows=STRANGE, columns=STRANGE, value=Axis(STRANGE[0], STRANGE[1])),
        ):
            ElementTree.fromstring(draw(picture, "svg"))
        assert draw(importance(*STRANGE), "pdf").startswith(b"%PDF-")


def test_every_name_in_a_legend_is_drawn() -> None:
    """Matplotlib would leave out what begins with an underscore, and read mathematics into dollars."""

    def drawn(*labels: str) -> int:
        series = tuple(replace(curve("x", place), label=label) for place, label in enumerate(labels))
        return draw(replace(CURVES, series=series), "svg").count(b"<use ")

    assert drawn("_xx", "b") == drawn("yxx", "b")
    assert drawn("$x$", "b") == drawn("yxy", "b")


def test_the_users_own_settings_change_nothing() -> None:
    import matplotlib as mpl

    before = draw(CURVES, "svg")
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "lines.linewidth": 9, "axes.facecolor": "red"}):
        assert draw(CURVES, "svg") == before


def test_gaps_and_single_points_and_equal_values_can_be_drawn() -> None:
    flat = Series("a", 0, (0.0, 1.0, 2.0), (1.0, None, 1.0), (1.0, None, 1.0), (1.0, None, 1.0))
    nothing = Series("b", 1, (0.0, 1.0), (None, None))
    one = Series("c", 2, (5.0,), (1.0,), (0.5,), (1.5,), joined=False)
    for picture in (losses(flat), losses(nothing), losses(one, zero=True), losses(), losses(flat, nothing, one)):
        ElementTree.fromstring(draw(picture, "svg"))
    empty = weights(2, 2, values=((None, None), (None, None)))
    equal = weights(1, 1, values=((1.0,),), low=1.0, high=1.0)
    narrow = weights(2, 2, low=100408.94921875, high=100408.949218751)
    for heat in (empty, equal, narrow, weights(97, 97)):
        ElementTree.fromstring(draw(heat, "svg"))
    named = losses(replace(nothing, joined=False), x=Axis("x", names=("p", "q")))
    ElementTree.fromstring(draw(named, "svg"))


def test_logarithmic_axes_have_few_round_ticks() -> None:
    from attnres_cli.report.drawing._image_scales import logarithmic_ticks, tick_text

    assert logarithmic_ticks((0.02, 4.0), ()) == pytest.approx([0.03, 0.1, 0.3, 1.0, 3.0])
    assert logarithmic_ticks((1e13, 1e16), ()) == [1e13, 1e14, 1e15, 1e16]
    assert logarithmic_ticks((3.9, 16.1), (4.0, 8.0, 16.0)) == [4.0, 8.0, 16.0], "few values are the ticks"
    for low, high in ((2.3, 3.6), (1e-9, 1e9), (0.5, 0.51), (1.0, 100.0)):
        ticks = logarithmic_ticks((low, high), ())
        assert 1 <= len(ticks) <= 7
        assert all(low <= tick <= high for tick in ticks)
        assert all(left < right for left, right in pairwise(ticks))
    assert tick_text(1e15, Axis("compute", "FLOPs")) == "10¹⁵"
    assert tick_text(2.5e-9, Axis("norm")) == "2.5·10⁻⁹"
    assert tick_text(204_800, Axis("training tokens")) == "205k"
    assert tick_text(-0.05, Axis("Δ loss")) == "−0.05"


def test_a_missing_library_is_one_sentence_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="needs matplotlib, which is not installed") as failure:
        check_installed()
    assert failure.value.faults[0].hint == "pip install 'attnres-cli[report]'"


def test_lines_are_broken_where_they_are_full() -> None:
    from attnres_cli.report.drawing._image_page import inches_of, shortened, wrapped

    text = "word " * 200 + "95 % " * 50
    lines = wrapped(text, 6.0)
    assert max(inches_of(line, 6.0) for line in lines) <= 3.4 - 0.12 + 0.02
    assert math.isclose(len("".join(lines).split("%")), 51)
    assert not any(line.startswith("%") for line in lines)
    assert shortened("attnres-block num_blocks=4", 7.0, 1.0).endswith("=4")
    assert inches_of(shortened("a" * 300, 7.0, 1.0), 7.0) <= 1.0
