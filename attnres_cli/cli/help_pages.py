"""Help pages in plain text, as a newcomer reads them: PRESET and N instead of <str> and <int range>.

Boxes and colours would cost twice the start-up time.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# What stands for a value whose option does not say: by the type of the value.
_METAVARS: dict[Any, str] = {int: "N", float: "X", Path: "FILE", str: "TEXT", list[str]: "TEXT", list[Path]: "FILE"}


def in_plain_words(command: Any) -> None:
    """Give `command` and its subcommands plain help pages.

    Subcommands are listed with their whole first sentence, where the parser would cut it to fit one line.
    """
    command.rich_markup_mode = None
    for parameter in command.params:
        _name_value(parameter)
        _describe_plainly(parameter)
    for subcommand in getattr(command, "commands", {}).values():
        subcommand.short_help = subcommand.short_help or _first_sentence(subcommand.help or "")
        in_plain_words(subcommand)


def _name_value(parameter: Any) -> None:
    """A metavar for an option that takes a value and has none."""
    described = getattr(parameter, "type_descriptor", None)
    if parameter.metavar is not None or described is None or getattr(parameter, "is_flag", False):
        return
    if parameter.param_type_name == "option":
        choices = "|".join(str(getattr(choice, "value", choice)) for choice in described.choices or ())
        parameter.metavar = choices or _METAVARS.get(described.annotation)


def _describe_plainly(parameter: Any) -> None:
    """Lines of the help page and pieces of the usage line without types and braces."""
    record_of = parameter.get_help_record

    def help_record(context: Any) -> tuple[str, str] | None:
        record = record_of(context)
        if record is None:
            return None
        name, text = record
        letter = parameter.metavar if (parameter.metavar or "").isidentifier() else "x"
        return re.sub(r" <[^>]*>$", "", name), re.sub(r"\bx(?=[<>]=)", letter, text)

    parameter.get_help_record = help_record
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
        whole = name if parameter.required else f"[{name}]"
        parameter.get_usage_pieces = lambda context: [whole + "..." * (parameter.nargs != 1)]


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?;]) ", paragraph, maxsplit=1)[0].rstrip(".;")
