"""The report in a real browser: what it says, what its controls do, and who can use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from attnres_cli.report import palette
from tests.browser.conftest import WIDE, Tab, until
from tests.reported_runs import HOSTILE, STEPS

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

WIDTH = 400


def picture(page: Page, key: str) -> Locator:
    found = page.locator(f"[data-picture='{key}']")
    found.scroll_into_view_if_needed()
    found.locator(".main-svg").first.wait_for()
    return found


def drawn(figure: Locator) -> list[dict[str, Any]]:
    """The curves that stand in a plot now: name and values."""
    traces: list[dict[str, Any]] = figure.locator(".plot").evaluate(
        "(plot) => plot.data.filter((trace) => trace.visible && trace.name)"
        ".map(({ name, x, y, line }) => ({ name, x, y, colour: line.color }))"
    )
    return traces


# ------------------------------------------------------------------ it opens


def test_it_opens_without_a_word_and_asks_for_nothing(opened: Tab) -> None:
    assert opened.page.locator("[data-picture]").count() > 10
    assert opened.said == []
    assert opened.requests == []


def test_nothing_can_be_fetched_or_run_from_it(opened: Tab) -> None:
    refused = opened.page.evaluate(
        """async () => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            const fetched = await fetch("https://example.org/").then(() => true, () => false);
            return { ran: window.ran === true, fetched };
        }"""
    )
    assert refused == {"ran": False, "fetched": False}
    assert opened.said
    assert all("Content Security Policy" in each for each in opened.said)
    opened.said.clear()


def test_without_a_script_every_number_is_there(unscripted: Page, report: Path) -> None:
    page = unscripted
    page.set_viewport_size(WIDE)
    page.emulate_media(media="screen")
    page.goto(report.as_uri())
    assert page.locator(".headline").is_visible()
    assert page.locator("#table-verdict").is_visible()
    pictures = page.locator("[data-picture]")
    assert pictures.count() == pictures.locator("details.data table").count() > 10
    assert pictures.first.locator("details.data table").is_visible()
    assert not page.locator(".controls, .plot, .copy").locator("visible=true").count()
    page.keyboard.press("Tab")
    assert page.locator(":focus").get_attribute("class") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    assert page.locator(":focus").get_attribute("id") == "main"


# ------------------------------------------------------------------ controls


def test_the_slider_goes_through_training(opened: Tab) -> None:
    figure = picture(opened.page, "stream-rms")
    slider, output = figure.locator("input[type=range]"), figure.locator("output")
    assert output.inner_text() == str(STEPS[-1])
    last, words = drawn(figure), figure.locator(".takeaway").inner_text()
    slider.focus()
    opened.page.keyboard.press("Home")
    assert output.inner_text() == str(STEPS[0])
    assert slider.get_attribute("aria-valuetext") == f"Training step {STEPS[0]}"
    first = drawn(figure)
    assert [curve["name"] for curve in first] == [curve["name"] for curve in last]
    assert [curve["y"] for curve in first] != [curve["y"] for curve in last]
    assert figure.locator(".takeaway").inner_text() != words
    figure.locator("summary").click()
    table = figure.locator("details.data table")
    shown = [float(text) for text in table.locator("tbody tr:last-child td").all_inner_texts()]
    assert shown[0] == pytest.approx(first[0]["y"][-1], rel=1e-3)
    slider.focus()
    opened.page.keyboard.press("End")
    assert drawn(figure) == last


def test_the_horizontal_axis_is_switched_from_the_keyboard(opened: Tab) -> None:
    figure = picture(opened.page, "loss")
    tokens = drawn(figure)[0]["x"]
    figure.locator("input[type=radio]").first.focus()
    opened.page.keyboard.press("ArrowRight")
    assert figure.locator("input:checked[type=radio]").get_attribute("value") == "1"
    flops = drawn(figure)[0]["x"]
    assert flops[-1] == pytest.approx(1e6 * tokens[-1])
    assert "FLOPs" in (figure.locator(".xtitle").text_content() or "")
    opened.page.keyboard.press("ArrowLeft")
    assert drawn(figure)[0]["x"] == tokens


def test_a_curve_can_be_hidden_with_its_interval(opened: Tab) -> None:
    figure = picture(opened.page, "loss")
    areas = "(plot) => plot.data.filter((trace) => trace.fill === 'toself' && trace.visible).length"
    names, before = [curve["name"] for curve in drawn(figure)], figure.locator(".plot").evaluate(areas)
    figure.get_by_role("checkbox").first.uncheck()
    assert [curve["name"] for curve in drawn(figure)] == names[1:]
    assert figure.locator(".plot").evaluate(areas) == before - 1
    figure.get_by_role("checkbox").first.check()
    assert [curve["name"] for curve in drawn(figure)] == names


def test_light_and_dark(opened: Tab) -> None:
    """Chosen by the reader, or by the system where the reader leaves it so; page and plots together."""
    page, figure = opened.page, picture(opened.page, "loss")
    grounds = {"light": palette.LIGHT_BACKGROUND, "dark": palette.DARK_BACKGROUND}
    baseline = palette.arm_style(0)

    def check(theme: str) -> None:
        # A plot is drawn anew after the page has changed, when it can be seen.
        until(
            page,
            """(ground) => {
                const plot = document.querySelector("[data-picture=loss] .plot");
                plot.scrollIntoView();
                return plot.layout.paper_bgcolor === ground;
            }""",
            grounds[theme],
        )
        assert drawn(figure)[0]["colour"] == getattr(baseline, theme)
        red, green, blue = (int(grounds[theme][start : start + 2], 16) for start in (1, 3, 5))
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == f"rgb({red}, {green}, {blue})"

    check("light")
    page.get_by_role("radio", name="Dark").check()
    check("dark")
    page.get_by_role("radio", name="System").check()
    check("light")
    page.emulate_media(color_scheme="dark")
    check("dark")
    page.get_by_role("radio", name="Light").check()
    check("light")
    page.get_by_role("radio", name="System").check()


def test_the_commands_can_be_copied(opened: Tab) -> None:
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.page.locator("[data-copy=commands]").click()
    opened.page.get_by_text("Copied.", exact=True).wait_for()
    copied = opened.page.evaluate("navigator.clipboard.readText()")
    assert copied == opened.page.locator("#commands").inner_text()
    assert copied.startswith("attnres train cpu-tiny\n")


def test_hovering_a_cell_shows_its_number(opened: Tab) -> None:
    figure = picture(opened.page, "depth-weights-attnres-block")
    box = figure.locator(".nsewdrag").bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + 10, box["y"] + box["height"] - 5)
    hover = figure.locator(".hovertext")
    hover.wait_for()
    values = figure.locator(".plot").evaluate("(plot) => plot.data[0].z.at(-1)")
    said = hover.text_content() or ""
    assert "output" in said
    assert f"{values[0]:.5g}" in said


# ------------------------------------------------------------------ who can use it


def test_the_keyboard_reaches_everything(opened: Tab) -> None:
    page = opened.page
    reached: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, select, summary, [tabindex='0']")]
            .filter((each) => each.tabIndex >= 0 && each.checkVisibility())
            .map((each) => { each.focus(); return [document.activeElement === each, each.outerHTML.slice(0, 60)]; })
            .filter(([isReached]) => !isReached).map(([, html]) => html)"""
    )
    assert reached == []


def test_a_phone_scrolls_up_and_down_only(opened: Tab) -> None:
    page = opened.page
    page.set_viewport_size({"width": WIDTH, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    until(
        page, "() => [...document.querySelectorAll('.main-svg')].every((svg) => svg.clientWidth <= window.innerWidth)"
    )
    assert page.evaluate("document.documentElement.scrollWidth") == WIDTH
    # A wide table scrolls in its own box, which the keyboard can scroll, too.
    boxes = page.evaluate(
        """() => [...document.querySelectorAll(".scroll")]
            .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.tabIndex)"""
    )
    assert boxes
    assert set(boxes) == {0}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened: Tab, theme: Literal["light", "dark"]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened.page.emulate_media(color_scheme=theme)
    opened.page.evaluate(
        "document.querySelectorAll('[data-picture=loss] details').forEach((each) => (each.open = true))"
    )
    # What is inside a plot is one image with a description to everybody who asks.
    context = {"exclude": [[".svg-container"]]}
    options = {} if theme == "light" else {"runOnly": ["color-contrast"]}
    found = Axe().run(opened.page, context, options).response
    serious = [
        f"{each['id']}: {node['html'][:120]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
    assert serious == []
    assert [each["id"] for each in found["passes"] if each["id"] == "color-contrast"]


def test_paper_shows_everything_in_light_colours(opened: Tab) -> None:
    page = opened.page
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.locator(".plot .main-svg").count() >= page.locator(".plot").count() > 10
    assert not page.locator(".controls, .copy, nav, .skip").locator("visible=true").count()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    colour = page.locator("[data-picture=loss] .plot").evaluate("(plot) => plot.layout.paper_bgcolor")
    assert colour == palette.LIGHT_BACKGROUND
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.data[open]").count() == 0


# ------------------------------------------------------------------ other names


def test_names_are_just_names(tab: Tab, hostile_report: Path) -> None:
    tab.open(hostile_report)
    tab.draw_everything()
    assert (tab.dialogs, tab.said, tab.requests) == ([], [], [])
    page = tab.page
    assert page.title() == page.locator("h1").inner_text() == "<script>alert(1)</script>"
    labels = page.locator("[data-picture='loss'] .legend label").all_inner_texts()
    names = [name for name in HOSTILE if any(name in label for label in labels)]
    assert len(names) == len(HOSTILE)
    plot = picture(page, "loss").locator(".plot")
    plot.hover()
    plot.locator(".hoverlayer .legendtext").first.wait_for()
    hovered = " ".join(plot.locator(".hoverlayer .legendtext").all_text_contents())
    assert [name for name in HOSTILE if name in hovered] == list(HOSTILE)
