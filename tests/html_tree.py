"""HTML as a tree, read by the parser of the standard library, for tests of what a page says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "link", "img", "hr"}


@dataclass
class Element:
    name: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, name: str | None = None, **attributes: str) -> Iterator[Element]:
        """Every element below with this name and these attributes, in reading order."""
        for child in self.children:
            if isinstance(child, Element):
                fits = all(child.attributes.get(key.strip("_")) == value for key, value in attributes.items())
                if name in (None, child.name) and fits:
                    yield child
                yield from child.all(name, **attributes)

    def one(self, name: str | None = None, **attributes: str) -> Element:
        (found,) = self.all(name, **attributes)
        return found


def parse(html: str) -> Element:
    """The whole document. Raises AssertionError where an element is not closed in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert len(reader.open) == 1, f"never closed: {[each.name for each in reader.open[1:]]}"
    return reader.open[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> where </{self.open[-1].name}> was due"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)
