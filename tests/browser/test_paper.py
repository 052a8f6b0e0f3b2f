"""The report on paper: what is wider than a sheet, and what nobody can switch there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from attnres_cli.report.page.tables import MOST_PRINTED_COLUMNS, MOST_UNSCRIPTED_COLUMNS
from tests.browser.conftest import Tab, written
from tests.fabricated_probes import fabricate_probes
from tests.fabricated_runs import BLOCK_SCHEME, fabricate_arm

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

# A4 within the margins of page.css, at 96 pixels an inch.
SHEET: ViewportSize = {"width": 688, "height": 1001}
LONG = "W" * 60
# As many columns of sources, one of names, and the output beside two sublayers of a block.
DEEP, DEEPER = 12, 24
BEFORE, AFTER = (f"window.dispatchEvent(new Event('{each}print'))" for each in ("before", "after"))
LEFT_OUT = re.compile(r"Not printed: this table of (\d+) columns is wider than the paper")


@pytest.fixture(scope="module")
def deep_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grids of two depths, and an arm whose name has no place to break."""
    root = tmp_path_factory.mktemp("deep")
    arms: dict[str, dict[str, Any]] = {
        "prenorm": {"change": {"model.transformer_blocks": DEEP}},
        "block": {"change": {"model.transformer_blocks": DEEPER}, "residual": BLOCK_SCHEME},
        "long": {"residual": {"scheme": LONG}},
    }
    for began, (name, how) in enumerate(arms.items()):
        for run in fabricate_arm(root / "deep", name, better_by=(0.01 * began, 0.012 * began), began=began, **how):
            fabricate_probes(run, only=("mixing",))
    return written(root, "deep")


@pytest.fixture
def paper(tab: Tab, deep_report: Path) -> Page:
    """The page as it is while it is printed."""
    if tab.open(deep_report, SHEET):
        tab.page.emulate_media(media="print")
        tab.page.evaluate(BEFORE)
    return tab.page


def cells_off_the_sheet(page: Page) -> list[str]:
    found: list[str] = page.evaluate(
        """(width) => [...document.querySelectorAll("th, td")].filter((cell) => cell.checkVisibility())
            .filter((cell) => {
                const { left, right } = cell.getBoundingClientRect();
                return left < 0 || right > width || cell.scrollWidth > cell.clientWidth + 1;
            }).map((cell) => cell.textContent)""",
        SHEET["width"],
    )
    return found


def broken_words(page: Page) -> list[str]:
    """Words of at most a dozen letters, in names of rows and columns and in cells of numbers, that are broken."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("th, td.n")].filter((cell) => cell.checkVisibility()).flatMap((cell) => {
            const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
            while (walker.nextNode()) {
                for (const { index, 0: word } of walker.currentNode.data.matchAll(/[^\\s-]{2,12}(?![^\\s-])/g)) {
                    const range = document.createRange();
                    range.setStart(walker.currentNode, index);
                    range.setEnd(walker.currentNode, index + word.length);
                    const isStart = index === 0 || /[\\s-]/.test(walker.currentNode.data[index - 1]);
                    const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
                    if (isStart && lines.size > 1) broken.push(word);
                }
            }
            return broken;
        })"""
    )
    return found


def test_every_number_that_is_printed_stands_on_the_sheet(paper: Page) -> None:
    assert cells_off_the_sheet(paper) == []
    assert paper.evaluate("document.documentElement.scrollWidth") <= SHEET["width"]


def test_names_on_paper_are_not_broken_by_letter(paper: Page) -> None:
    assert broken_words(paper) == []
    letters_a_line = paper.evaluate(
        """(name) => [...document.querySelectorAll("tbody th")].filter((cell) => cell.textContent.includes(name))
            .map((cell) => {
                const range = document.createRange();
                range.selectNodeContents(cell);
                return cell.textContent.length / new Set([...range.getClientRects()].map(({ top }) => top)).size;
            })""",
        LONG,
    )
    assert letters_a_line
    assert min(letters_a_line) >= 8


def test_a_wide_table_is_printed_in_parts_with_every_column(paper: Page) -> None:
    box = paper.locator("[data-picture='mixing-prenorm'] .scroll")
    parts = box.locator("table")
    captions = box.locator(".part").all_inner_texts()
    assert captions == [f"Part {number + 1} of {parts.count()}" for number in range(parts.count())]
    assert parts.count() > 1
    heads = [part.locator("thead th").all_inner_texts() for part in parts.all()]
    assert {head[0] for head in heads} == {heads[0][0]}
    columns = [name for head in heads for name in head[1:]]
    assert len(columns) == len(set(columns)) == 2 * DEEP + 1
    rows = [part.locator("tbody tr").count() for part in parts.all()]
    assert set(rows) == {2 * DEEP + 1}
    assert not paper.locator("[data-picture='mixing-prenorm'] .left-out").is_visible()


def test_a_table_of_too_many_columns_is_left_out_and_says_where_its_numbers_are(paper: Page) -> None:
    figure = paper.locator("[data-picture='mixing-attnres-block']")
    assert not figure.locator("table").is_visible()
    said = LEFT_OUT.search(figure.locator(".left-out").inner_text())
    assert said
    assert int(said[1]) == 2 * DEEPER + 2 > MOST_PRINTED_COLUMNS


def test_without_a_script_a_wide_table_is_left_out_and_says_so(unscripted: Page, deep_report: Path) -> None:
    page = unscripted
    page.set_viewport_size(SHEET)
    page.emulate_media(media="print")
    page.goto(deep_report.as_uri())
    counted = [int(each) for each in LEFT_OUT.findall(page.locator("body").inner_text())]
    assert min(counted) > MOST_UNSCRIPTED_COLUMNS
    assert {2 * DEEP + 2, 2 * DEEPER + 2} <= set(counted)
    assert page.locator(".chosen").locator("visible=true").count() == page.locator(".chosen").count()
    # On a phone the same names are broken where the page ends.
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_the_sheets_of_a_browser(paper: Page, tmp_path: Path) -> None:
    """The file that a browser prints, where a program that reads it is installed."""
    try:
        subprocess.run(["pdftotext", "-v"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no pdftotext is installed (apt-get install poppler-utils)")
    paper.evaluate(AFTER)
    printed = tmp_path / "report.pdf"
    paper.pdf(path=printed, format="A4", prefer_css_page_size=True)
    text = subprocess.run(["pdftotext", "-layout", printed, "-"], check=True, capture_output=True, text=True).stdout
    assert "Part 2 of " in text
    assert LEFT_OUT.search(" ".join(text.split()))
    assert "attention 9" in text
    paper.evaluate(BEFORE)


def test_paper_says_which_view_it_shows(opened: Tab) -> None:
    page = opened.page
    lines = page.locator(".chosen")
    assert lines.count() > 1
    assert not lines.locator("visible=true").count()
    figure = page.locator("[data-picture=loss]")
    choices = figure.locator(".buttons input")
    choices.last.check()
    page.emulate_media(media="print")
    words = figure.locator(".chosen").inner_text()
    name = figure.locator(".buttons label span").last.text_content()
    assert words.startswith(f"Horizontal axis: {name}; the HTML file switches between {choices.count()} ")
    page.emulate_media(media="screen")
    choices.first.check()


def test_a_printed_table_is_put_back_whole(opened: Tab) -> None:
    page = opened.page
    tables = "[...document.querySelectorAll('.scroll')].map((box) => box.innerHTML)"
    before = page.evaluate(tables)
    page.evaluate(BEFORE)
    assert page.evaluate(tables) != before
    page.evaluate(AFTER)
    assert page.evaluate(tables) == before
