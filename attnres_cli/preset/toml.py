"""TOML text in and out: parse with a sentence for every syntax error, and write values back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnres_cli.errors import Fault, UserError

try:
    import tomli as toml_parser
except ModuleNotFoundError:  # the same parser, from the standard library
    import tomllib as toml_parser  # type: ignore[no-redef]

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
# Assignment of an unquoted word, the commonest slip: scheme = attnres-full
_UNQUOTED = re.compile(r"^\s*([\w.\-\"']+)\s*=\s*([A-Za-z_~/.][^\s#\"'\[\]{},]*)\s*(#.*)?$")
_PLAINER = {
    "Illegal character '\\n'": "A string is not closed on this line.",
    "Illegal character '\\r'": "A string is not closed on this line.",
    "Expected '=' after a key in a key/value pair": "A key needs an equals sign and a value.",
}
_GIVEN_TWICE = ("Cannot overwrite a value", "Cannot declare", "Duplicate inline table key")


class BareWord(str):
    """Text without quotes from the command line that is no TOML value: right for a key that takes text."""


def read_text(path: Path, shown_as: str) -> str:
    """The text of a preset file; line endings as they are, a byte order mark removed.

    Raises UserError where the file cannot be read or is not UTF-8.
    """
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        raise UserError(
            f"{shown_as} is a folder.", expected="a TOML file", hint=f"attnres presets ls; ls {shown_as}"
        ) from None
    except OSError as error:
        raise UserError(f"{shown_as} cannot be read: {error.strerror}.", where=shown_as) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            "The file is not UTF-8 text.", where=f"{shown_as}:{line}", expected="a TOML file, saved as UTF-8"
        ) from None


def parse(text: str, shown_as: str) -> dict[str, Any]:
    """The document in `text`; a syntax error is a UserError with `shown_as` and the line."""
    try:
        return toml_parser.loads(text)
    except toml_parser.TOMLDecodeError as error:
        raise UserError([_syntax_fault(str(error), text, shown_as)]) from None


def parse_value(text: str) -> Any:
    """The one TOML value in `text`, e.g. from the command line. Raises ValueError where it is not exactly one."""
    from attnres_cli.preset.positions import value_end

    document: dict[str, Any] = toml_parser.loads(f"value = {text}")
    if list(document) != ["value"] or text[value_end(text) :].strip():
        raise ValueError("more than one value")
    return document["value"]


def _syntax_fault(message: str, text: str, shown_as: str) -> Fault:
    position = _POSITION.search(message)
    reason = message[: position.start()] if position else message
    lines = text.split("\n")
    number = int(position[1]) if position and position[1] else len(text.rstrip().split("\n"))
    line = lines[number - 1].rstrip() if number <= len(lines) else ""
    if reason.startswith(_GIVEN_TWICE):
        column = int(position[2]) - 1 if position and position[2] else len(line)
        said = "\n".join([*lines[: number - 1], lines[number - 1][:column]])
        return _given_twice(said, "[{}]" if reason.startswith("Cannot declare") else "'{}'", shown_as, number)
    unquoted = _UNQUOTED.match(line)
    plainer = next((sentence for start, sentence in _PLAINER.items() if reason.startswith(start)), None)
    return Fault(
        what=plainer or f"This is not TOML: {reason[:1].lower()}{reason[1:]}.",
        where=f"{shown_as}:{number}",
        expected=None if plainer else _expected_instead(unquoted, line),
        hint="attnres presets show cpu-tiny" if not plainer and not unquoted else None,
    )


def _given_twice(text: str, form: str, shown_as: str, number: int) -> Fault:
    """text: up to the end of what is given again. form: how its name is written. number: the line, where no name is
    found."""
    from attnres_cli.preset.positions import named_again

    found = named_again(text)
    if found is None:
        return Fault("This is given a second time.", f"{shown_as}:{number}")
    path, first, second = found
    name = form.format(".".join(part for part in path if isinstance(part, str)))
    return Fault(
        f"{name} is given a second time.",
        f"{shown_as}:{second}",
        expected=f"one of the two; the first one is {shown_as}:{first}",
    )


def _expected_instead(unquoted: re.Match[str] | None, line: str) -> str | None:
    if unquoted is None:
        return f"[section] and key = value lines, not: {line.strip()}" if line.strip() else None
    key, word = unquoted[1], unquoted[2]
    if word.lower() in ("true", "false"):
        return f"{key} = {word.lower()}"
    return f'{key} = "{word}" (text stands in quotes)'


def format_value(value: Any) -> str:
    """`value` (whatever a parser can return) as TOML on one line; reading it back gives an equal value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return re.sub(r"e([+-]?)0*", lambda sign: f"e{sign[1].strip('+')}", repr(value))  # 1e-8 rather than 1e-08
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{format_key(key)} = {format_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(format_value(item) for item in value) + "]"
    return str(value)  # dates and times


def format_key(key: str) -> str:
    """`key` bare where TOML allows it, else quoted."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _quoted(key)


def _quoted(text: str) -> str:
    short = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return (
        '"'
        + "".join(short.get(char) or (char if _is_printable(char) else f"\\u{ord(char):04x}") for char in text)
        + '"'
    )


def _is_printable(char: str) -> bool:
    return ord(char) >= 0x20 and ord(char) != 0x7F
