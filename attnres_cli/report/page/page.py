"""The whole file: one page that needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from attnres_cli import __version__
from attnres_cli.report import palette
from attnres_cli.report.contents import Item, Report, Section, all_pictures
from attnres_cli.report.document import Notice
from attnres_cli.report.drawing import interactive
from attnres_cli.report.page.elements import Html, joined, lines_of, tag
from attnres_cli.report.page.figures import picture_block, picture_data
from attnres_cli.report.page.tables import notice_block, table_block
from attnres_cli.report.page.verdict import verdict_block
from attnres_cli.report.table import Table
from attnres_cli.runs.files import json_text

_FOLDER = Path(__file__).parent
# One script: the first two hold what the last one calls.
_SCRIPT_FILES = ("names.js", "paper.js", "page.js")


def page(report: Report, plotly_js: str, *, command: str, written: datetime | None = None) -> str:
    """The report as HTML. plotly_js: the source of the library that draws. command: what wrote the page.

    The page is forbidden every network request, and every script but its own three by their hashes.
    """
    pictures = {picture.key: picture_data(picture) for picture in all_pictures(report)}
    data = {"colours": interactive.colours(), "pictures": pictures}
    script = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPT_FILES)
    scripts = [*([plotly_js] if pictures else []), script]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"attnres {__version__}"),
        tag("title", report.title),
        Html(f"<style>{_colours_css()}{(_FOLDER / 'page.css').read_text(encoding='utf-8')}</style>"),
    )
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#main", class_="skip"),
        _banner(report, written or datetime.now(UTC)),
        tag("div", _contents(report), _main(report, command), class_="columns"),
        _footer(written or datetime.now(UTC)),
        Html(f'<script type="text/plain" id="data">{_packed(data)}</script>'),
        *(Html(f"<script>{script}</script>") for script in scripts),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


# ---------------------------------------------------------------------- safety


def _policy(scripts: list[str]) -> str:
    """Plotly and the figures set styles on elements, so these are allowed; nothing may be fetched or sent."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _packed(data: Any) -> str:
    """JSON, compressed, in an alphabet that cannot end the script element that it stands in: a fifth of its size, so
    that pictures of deep models at many steps leave the page below what a mail takes."""
    return base64.b64encode(zlib.compress(json_text(data).encode(), 6)).decode()


def _colours_css() -> str:
    """The palette as variables, so that legends and strips have the colours of the drawings."""

    def variables(theme: str) -> str:
        arms = [palette.arm_style(place) for place in range(palette.MOST_COLOURS)]
        return "".join(
            f"--arm-{place}:{style.light if theme == 'light' else style.dark};" for place, style in enumerate(arms)
        )

    dark = variables("dark") + f"--ground:{palette.DARK_BACKGROUND};"
    light = variables("light") + f"--ground:{palette.LIGHT_BACKGROUND};"
    return (
        f":root{{{light}}}@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}@media print{{:root:root:root{{{light}}}}}"
    )


# ---------------------------------------------------------------------- landmarks


def _banner(report: Report, written: datetime) -> Html:
    themes = [
        tag(
            "label",
            tag("input", type="radio", name="theme", value=value, checked=value == "system"),
            tag("span", value[0].upper() + value[1:]),
        )
        for value in ("system", "light", "dark")
    ]
    facts = [tag("div", tag("dt", what), tag("dd", value)) for what, value in report.facts]
    return tag(
        "header",
        tag("p", f"attnres report, {written:%d %B %Y}", class_="eyebrow"),
        tag("fieldset", tag("legend", "Colours"), *themes, class_="controls buttons theme js-only"),
        tag("h1", report.title),
        tag("dl", *facts, class_="facts") if facts else None,
    )


def _contents(report: Report) -> Html:
    links = [("verdict", "Verdict"), *((section.anchor, section.heading) for section in report.sections)]
    links.append(("reproduce", "Reproduce it"))
    items = [tag("li", tag("a", heading, href=f"#{anchor}")) for anchor, heading in links]
    return tag("nav", tag("ul", *items), aria_label="Sections")


def _main(report: Report, command: str) -> Html:
    sections = [_section(section) for section in report.sections]
    return tag("main", verdict_block(report), *sections, _reproduce(report, command), id="main", tabindex="-1")


def _section(section: Section) -> Html:
    return tag(
        "section",
        tag("h2", section.heading, id=section.anchor),
        tag("p", section.lead, class_="lead") if section.lead else None,
        *_items(section.items),
        aria_labelledby=section.anchor,
    )


def _items(items: Sequence[Item]) -> Iterator[Html]:
    """Pictures that follow each other stand side by side where there is room."""
    for is_picture, group in groupby(items, key=lambda item: not isinstance(item, Table | Notice)):
        blocks = [_item(item) for item in group]
        yield tag("div", *blocks, class_="pictures") if is_picture else joined(*blocks)


def _item(item: Item) -> Html:
    if isinstance(item, Table):
        return table_block(item)
    if isinstance(item, Notice):
        return notice_block(item)
    return picture_block(item)


def _reproduce(report: Report, command: str) -> Html:
    """Commands, versions and hashes, and the resolved presets whole."""
    known = report.provenance
    shared = [tag("div", tag("dt", what), tag("dd", value)) for what, value in known.shared]
    presets = [
        tag("details", tag("summary", f"Resolved preset of {title}"), _code(toml, f"preset-{number}"))
        for number, (title, toml) in enumerate(known.presets.items())
    ]
    return tag(
        "section",
        tag("h2", "Reproduce it", id="reproduce"),
        tag("h3", "Commands"),
        _code("\n".join((*known.commands, *report.checks, command)), "commands"),
        tag("h3", "The same for all runs") if shared else None,
        tag("dl", *shared, class_="provenance") if shared else None,
        table_block(known.apart) if known.apart else None,
        tag("h3", "Presets") if presets else None,
        *presets,
        aria_labelledby="reproduce",
    )


def _code(words: str, name: str) -> Html:
    """Text to be copied, with a button for it."""
    return tag(
        "div",
        tag("button", "Copy", type="button", class_="copy js-only", data_copy=name),
        tag("pre", tag("code", lines_of(words), id=name), tabindex="0", role="region", aria_label="To be copied"),
        class_="code",
    )


def _footer(written: datetime) -> Html:
    words = f"Written by attnres {__version__} on {written:%Y-%m-%d at %H:%M} UTC. This file holds all it shows."
    return tag("footer", tag("p", words), tag("p", "", role="status", id="status", class_="status"))
