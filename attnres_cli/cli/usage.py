"""A malformed command line, said the way every other error is said.

The parser's exceptions belong to typer's private copy of click (0.29 and later) or to click itself (before), so nothing
is imported from either: the base class is found through typer's public API, the rest is read by attribute.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer

from attnres_cli.errors import ExitCode, UserError, nearest_name

# What the parser raises, whichever package it lives in.
ParserError: type[Exception] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")


def is_help_request(error: Exception) -> bool:
    """Whether `error` is the help page of a group that was called without a command."""
    return type(error).__name__ == "NoArgsIsHelpError"


def explain_usage(error: Exception, words: Sequence[str]) -> UserError:
    """The parser's `error` about the command line `words` as a UserError.

    It says what is wrong, in which command, what was expected (choices, subcommands or the usage line), the nearest
    valid name and where to read on.
    """
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else " ".join(["attnres", *words[:1]])
    choices = _choices(error, context)
    return UserError(
        _sentence(error, context, words),
        where=path,
        expected=", ".join(choices) if choices else _number_words(error) or _usage_line(context),
        nearest=_nearest(error, context, words),
        hint=f"{path} --help",
        exit_code=ExitCode.USAGE,
    )


def _sentence(error: Any, context: Any, words: Sequence[str]) -> str:
    kind = type(error).__name__
    parameter = getattr(error, "param", None)
    if kind == "NoSuchOption":
        return f"There is no option '{error.option_name}'."
    if kind == "MissingParameter" and parameter is not None:
        return f"The {parameter.param_type_name} {_spelling(parameter)} is missing."
    unknown = _unknown_command(error, context)
    if unknown is not None:
        return f"There is no command '{unknown}'."
    message = str(getattr(error, "message", "") or error).removeprefix("Value error, ")
    if kind == "BadParameter" and parameter is not None:
        given = _given(parameter, words)
        if given is not None and _number_words(error) is not None:
            message = _wrong_number(given, parameter)
        return f"{_spelling(parameter)}{f' {given}' if given else ''}: {message}"
    return message


def _spelling(parameter: Any) -> str:
    """How the user types it: `--set` or `PRESET`."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def _given(parameter: Any, words: Sequence[str]) -> str | None:
    """The value that `words` give to an option, None for an argument or where the environment gave it."""
    for name in parameter.opts if parameter.param_type_name == "option" else ():
        for word, following in zip(words, [*words[1:], ""], strict=True):
            if word == name:
                return following
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
    return None


def _number_words(error: Any) -> str | None:
    """What number the option of a bad value takes, None where it takes none: "a whole number, at least 1"."""
    parameter = getattr(error, "param", None)
    kind = _number_type(parameter)
    if type(error).__name__ != "BadParameter" or kind is None:
        return None
    low, high = (_bound(parameter, name) for name in ("min", "max"))
    bounds = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
    return ", ".join(["a whole number" if kind is int else "a number", *bounds])


def _wrong_number(given: str, parameter: Any) -> str:
    kind = _number_type(parameter)
    assert kind is not None
    try:
        kind(given)
    except ValueError:
        return "this is no whole number." if kind is int else "this is no number."
    return "the number is out of range."


def _number_type(parameter: Any) -> type[int] | type[float] | None:
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if annotation in (int, float):
        return annotation  # type: ignore[no-any-return]
    name = str(getattr(getattr(parameter, "type", None), "name", ""))  # click's own, in a typer before 0.29
    return int if name.startswith("integer") else float if name.startswith("float") else None


def _bound(parameter: Any, name: str) -> Any:
    return getattr(parameter, name, getattr(getattr(parameter, "type", None), name, None))


def _usage_line(context: Any) -> str | None:
    return None if context is None else " ".join(context.get_usage().split()).removeprefix("Usage: ")


def _choices(error: Any, context: Any) -> list[str]:
    """The valid names where the parser knows them all: subcommands of a group, values of a choice."""
    message = str(getattr(error, "message", ""))
    if _unknown_command(error, context) is not None or message.startswith("Missing command"):
        return list(context.command.list_commands(context)) if context is not None else []
    _, is_choice, names = message.partition(" is not one of ")
    return re.findall(r"'(.*?)'", names) if is_choice else []


def _nearest(error: Any, context: Any, words: Sequence[str]) -> str | None:
    if type(error).__name__ == "NoSuchOption" and context is not None:
        options = [name for parameter in context.command.get_params(context) for name in _long_names(parameter)]
        return nearest_name(error.option_name, options)
    parameter = getattr(error, "param", None)
    wrong = _unknown_command(error, context) or (_given(parameter, words) if parameter is not None else None)
    return nearest_name(wrong, _choices(error, context)) if wrong else None


def _long_names(parameter: Any) -> list[str]:
    return [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--")]


def _unknown_command(error: Any, context: Any) -> str | None:
    """The name in "No such command 'lss'.", which is all that a group says of it."""
    if context is None or not hasattr(context.command, "list_commands"):
        return None
    match = re.match(r"No such command '(.*?)'", str(getattr(error, "message", "")))
    return match.group(1) if match else None
