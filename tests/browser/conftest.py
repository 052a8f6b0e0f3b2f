"""One Chromium and one tab of it for all tests of pages. Without Chromium they are skipped, and say so.

A page shares most of its scripts with the one before it in its tab, which has read and compiled them: a second tab, or
a second context, takes five times as long to open.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from attnres_cli.cli.app import run
from tests.reported_runs import arms_of_three, hostile_arms

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

# Set where a missing browser must not pass unnoticed (.ci/run).
REQUIRED = "ATTNRES_REQUIRE_CHROMIUM"
MOST_WAIT_MILLISECONDS = 60_000
WIDE: ViewportSize = {"width": 1280, "height": 900}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's package, driven by playwright; nothing is downloaded."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        if os.environ.get(REQUIRED):
            pytest.fail("no Chromium is installed: apt-get install chromium")
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Root has no sandbox of its own; the page is one that was just made here.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with pictures of every kind: curves, points, grids; over steps and over axes."""
    root = tmp_path_factory.mktemp("reported")
    arms_of_three(root / "three", probes=("importance", "lens"))
    return written(root, "three")


@pytest.fixture(scope="session")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of runs whose names, schemes and commands are markup, templates and scripts."""
    root = tmp_path_factory.mktemp("hostile")
    hostile_arms(root / "group")
    return written(root, "group", "--title", "<script>alert(1)</script>")


def written(root: Path, *words: str) -> Path:
    page = root / "report.html"
    assert run(["report", *words, "--runs-dir", str(root), "--no-bench", "-o", str(page)]) == 0
    return page


def until(page: Page, holds: str, argument: object = None) -> None:
    """Wait, frame by frame, until a function of JavaScript says true; a page that never does fails the test."""
    became_true = page.evaluate(
        f"""async (argument) => {{
            const end = performance.now() + {MOST_WAIT_MILLISECONDS};
            while (performance.now() < end) {{
                if (({holds})(argument)) return true;
                await new Promise(requestAnimationFrame);
            }}
            return false;
        }}""",
        argument,
    )
    assert became_true, f"never true: {holds}"


class Tab:
    """The tab, and everything that the browser had to say about the page that is open in it. requests: other than the
    file itself."""

    def __init__(self, page: Page) -> None:
        self.page, self.said, self.requests, self.dialogs = page, list[str](), list[str](), list[str]()
        self.path: Path | None = None
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"uncaught: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self._dismiss)

    def open(self, path: Path, viewport: ViewportSize = WIDE, media: Literal["screen", "print"] = "screen") -> bool:
        """The page of this file, loaded anew unless it is the one that is open. Returns whether it was loaded."""
        if self.path == path:
            return False
        self.path = None
        self.page.goto("about:blank")
        for each in (self.said, self.requests, self.dialogs):
            each.clear()
        self.page.emulate_media(media=media, color_scheme="light")
        self.page.set_viewport_size(viewport)
        self.page.goto(path.as_uri())
        self.page.locator(":root[data-scripted]").wait_for(state="attached")
        self.requests.remove(path.as_uri())
        self.path = path
        return True

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def draw_everything(self) -> None:
        """As a reader does who goes through the page."""
        for number in range(self.page.locator(".plot").count()):
            until(
                self.page,
                """(number) => {
                    const plot = document.querySelectorAll(".plot")[number];
                    plot.scrollIntoView();
                    return plot.querySelector(".main-svg") !== null;
                }""",
                number,
            )


@pytest.fixture(scope="session")
def tab(chromium: Browser) -> Iterator[Tab]:
    context = chromium.new_context()
    yield Tab(context.new_page())
    context.close()


@pytest.fixture(scope="session")
def unscripted(chromium: Browser) -> Iterator[Page]:
    """A tab in which no script runs."""
    context = chromium.new_context(java_script_enabled=False)
    yield context.new_page()
    context.close()


@pytest.fixture
def opened(tab: Tab, report: Path) -> Iterator[Tab]:
    """The report as it was opened, everything drawn; it stays so for the next test, too, which would otherwise take
    most of its time for that. A test leaves its controls as it found them; the rest is put back here."""
    if tab.open(report):
        tab.draw_everything()
    yield tab
    page = tab.page
    page.emulate_media(media="screen", color_scheme="light")
    page.set_viewport_size(WIDE)
    page.evaluate("document.querySelectorAll('details.data').forEach((details) => (details.open = false))")
