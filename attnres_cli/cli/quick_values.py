"""Words of the command line become text, paths, numbers and lists without pydantic.

Typer 0.29 reads every value through pydantic (even the absent value of --help), which takes longer to import than
`attnres runs ls` takes in all. The types that nearly all options of this program have need no such help. So the
parameters' `process_value`, the step of the parser that reads a value, tries the quick way first; what that cannot
read, or must not accept, goes the parser's own way, which raises the parser's error. Parameters of an older typer,
which knows no pydantic, are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

_READERS: dict[Any, Callable[[Any], Any]] = {
    str: str,
    int: int,
    float: float,
    Path: Path,
    list[str]: lambda words: [str(word) for word in words],
    list[Path]: lambda words: [Path(word) for word in words],
}
# What an option may ask of a path beyond being one: typer's own reader knows how to check it.
_CHECKS_OF_PATHS = ("exists", "writable", "resolve_path", "allow_dash")


def read_quickly(command: Any) -> None:
    """Let the parameters of `command` and of its subcommands, and their --help, be read the quick way."""
    for parameter in command.params:
        _quicken(parameter)
    own_help_option = command.get_help_option

    def help_option(context: Any) -> Any:
        option = own_help_option(context)
        if option is not None:
            _quicken(option)
        return option

    command.get_help_option = help_option
    for subcommand in getattr(command, "commands", {}).values():
        read_quickly(subcommand)


def _quicken(parameter: Any) -> None:
    described = getattr(parameter, "type_descriptor", None)
    if described is None or "process_value" in vars(parameter):
        return
    takes_many = parameter.multiple or parameter.nargs == -1
    read = None if _asks_for_more(described.parameter_info) else _READERS.get(described.annotation)
    process_slowly = parameter.process_value

    def process_value(context: Any, value: Any) -> Any:
        if value is None or (takes_many and not value):
            if parameter.required and not context.resilient_parsing:
                return process_slowly(context, value)
            found = () if takes_many else None
        elif read is None or isinstance(value, bool):
            return process_slowly(context, value)
        else:
            try:
                found = read(value)
            except ValueError:
                return process_slowly(context, value)
            if not _is_in_range(found, parameter):
                return process_slowly(context, value)
        return found if parameter.callback is None else parameter.callback(context, parameter, found)

    parameter.process_value = process_value


def _is_in_range(value: Any, parameter: Any) -> bool:
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    return (low is None or value >= low) and (high is None or value <= high)


def _asks_for_more(info: Any) -> bool:
    """Whether the option has a parser of its own or checks that only typer's reader makes."""
    has_parser = getattr(info, "parser", None) is not None or getattr(info, "click_type", None) is not None
    checks_path = any(getattr(info, name, False) for name in _CHECKS_OF_PATHS)
    only_one_kind = not getattr(info, "file_okay", True) or not getattr(info, "dir_okay", True)
    return has_parser or checks_path or only_one_kind
