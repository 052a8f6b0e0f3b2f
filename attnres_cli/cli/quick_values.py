"""Words of the command line become str, Path, bool and lists without pydantic.

Typer 0.29 reads every value through pydantic (even the absent value of --help), which takes longer to import than
`attnres runs ls` takes in all. The types that nearly all options of this program have need no such help, so typer's
builder of readers is preceded by one for them. A version of typer that has no such builder stays as it is, only slower.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer.core

_READERS: dict[Any, Callable[[Any], Any]] = {
    str: str,
    Path: Path,
    list[str]: lambda words: [str(word) for word in words],
    list[Path]: lambda words: [Path(word) for word in words],
}
# What an option may ask of a path beyond being one: typer's own reader knows how to check it.
_CHECKS_OF_PATHS = ("exists", "writable", "resolve_path", "allow_dash")


class _Reader:
    """Stands where typer has its reader of one parameter; `otherwise` builds that one."""

    def __init__(self, read: Callable[[Any], Any] | None, otherwise: Callable[[], Any]) -> None:
        self._read, self._otherwise = read, otherwise

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._read is None:
            return self._otherwise().coerce(value, param=param, ctx=ctx)
        return self._read(value)


def install() -> None:
    """Put the quick readers before typer's own; once."""
    build = getattr(typer.core, "build_runtime_param", None)
    if build is None or getattr(build, "is_quick", False):
        return

    def build_quickly(described: Any) -> Any:
        plain = not _asks_for_more(described.parameter_info)
        return _Reader(_READERS.get(described.annotation) if plain else None, lambda: build(described))

    build_quickly.is_quick = True  # type: ignore[attr-defined]
    setattr(typer.core, "build_runtime_param", build_quickly)  # noqa: B010 (the attribute is typer's own, not in its interface)


def _asks_for_more(info: Any) -> bool:
    """Whether the option has a parser of its own or checks that only typer's reader makes."""
    has_parser = getattr(info, "parser", None) is not None or getattr(info, "click_type", None) is not None
    checks_path = any(getattr(info, name, False) for name in _CHECKS_OF_PATHS)
    only_one_kind = not getattr(info, "file_okay", True) or not getattr(info, "dir_okay", True)
    return has_parser or checks_path or only_one_kind
