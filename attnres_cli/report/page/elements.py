"""HTML that cannot be broken by a name: every text is escaped unless it is markup that was made here."""

from __future__ import annotations

from html import escape

from attnres_cli.report.visible import visible

_VOID = ("meta", "input", "br")
# Of drawings: these end themselves, or what follows would stand inside them.
_SHAPES = ("line", "circle", "path")


class Html(str):
    """Markup, as opposed to text."""

    __slots__ = ()


Child = str | None


def text(words: object) -> Html:
    """Words as they are, with invisible characters written out."""
    return Html(escape(visible(words)))


def lines_of(words: str) -> Html:
    """The same for words of several lines, which stay lines."""
    return Html("\n".join(text(line) for line in words.split("\n")))


def tag(element: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """`<element …>children</element>`; a child that is no Html is text, None is left out.

    An attribute's underscores become hyphens (aria_label, class_); True stands alone, False and None are left out.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if element in _VOID or element in _SHAPES:
        assert not children, f"<{element}> holds nothing"
        return Html(f"<{element}{written}{'/' if element in _SHAPES else ''}>")
    return Html(f"<{element}{written}>{joined(*children)}</{element}>")


def joined(*children: Child) -> Html:
    return Html("".join(child if isinstance(child, Html) else text(child) for child in children if child is not None))


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.strip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{text(value)}"'
