"""One Chromium and one report for all tests of the page. Without Chromium they are skipped, and say so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


class Opened:
    """A page with everything that the browser had to say about it. requests: other than the file itself."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page, self.said, self.requests, self.dialogs = page, list[str](), list[str](), list[str]()
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"uncaught: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self._dismiss)
        page.goto(path.as_uri())
        page.locator(":root[data-scripted]").wait_for(state="attached")
        self.requests.remove(path.as_uri())

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
def window(chromium: Browser, report: Path) -> Iterator[Opened]:
    """The report in one window for all tests, everything drawn: to open it anew for each would take most of the
    time."""
    context = chromium.new_context(viewport=WIDE)
    opened = Opened(context.new_page(), report)
    opened.draw_everything()
    yield opened
    context.close()


@pytest.fixture
def opened(window: Opened) -> Iterator[Opened]:
    """The report as it was opened. A test leaves its controls as it found them; the rest is put back here."""
    yield window
    page = window.page
    page.emulate_media(media="screen", color_scheme="light")
    page.set_viewport_size(WIDE)
    page.evaluate("document.querySelectorAll('details.data').forEach((details) => (details.open = false))")
