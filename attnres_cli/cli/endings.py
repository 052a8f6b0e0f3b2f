"""Every ending of a command as a message on stderr and an exit code (docs/exit-codes.md)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import typer

from attnres_cli.cli import interruption
from attnres_cli.cli.console import show_error, show_error_as_json
from attnres_cli.errors import ExitCode, Fault, Interrupted, UserError, is_out_of_memory


def code_of(ending: SystemExit) -> int:
    """What Python itself would return for it: 0 for none, 1 with a message."""
    if ending.code is None or isinstance(ending.code, int):
        return ending.code or ExitCode.DONE
    sys.stderr.write(f"{ending.code}\n")
    return ExitCode.UNEXPECTED


def report_interruption(ending: BaseException, words: Sequence[str]) -> int:
    """Say that the command was interrupted; where the command knows, what was kept and how to go on."""
    interruption.forget()
    known = next((each for each in (ending, ending.__cause__) if isinstance(each, Interrupted)), None)
    what, hint = (known.what, known.hint) if known is not None else ("Interrupted.", None)
    if wants_json(words):
        show_error_as_json((Fault(what, hint=hint),), ExitCode.INTERRUPTED)
    else:
        sys.stderr.write(f"{what}\n" + (f"{hint}\n" if hint else ""))
    return ExitCode.INTERRUPTED


def report_error(error: Exception, words: Sequence[str], *, debug: bool, completing: bool) -> int:
    """Show `error` of the command line `words` on stderr and return the exit code that it stands for.

    completing: a shell asks for completions, and would print a message into the user's line.
    """
    from attnres_cli.cli.usage import ParserError, explain_usage, is_help_request

    if completing and not debug:
        return ExitCode.UNEXPECTED
    if is_help_request(error):  # `attnres presets` alone
        typer.echo(str(error))
        return ExitCode.USAGE
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, ParserError):
        error = explain_usage(error, words)
    elif is_out_of_memory(error):
        error = _explain_out_of_memory(error)
    elif not isinstance(error, UserError):
        error = _explain_unexpected(error)
    if wants_json(words):
        show_error_as_json(error.faults, error.exit_code)
    else:
        show_error(error)
    return error.exit_code


def wants_json(words: Sequence[str]) -> bool:
    """Whether the command line asks for JSON: --json or --format json, before a `--`."""
    words = list(words)
    words = words[: words.index("--")] if "--" in words else words
    pairs = zip(words, words[1:], strict=False)
    return "--json" in words or "--format=json" in words or ("--format", "json") in pairs


def flush_or_leave(code: int, code_without_reader: int) -> int:
    """Write out what is buffered; when nobody reads it any more, end without a word and without a second attempt."""
    try:
        sys.stdout.flush()
        return int(code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code_without_reader


def _explain_out_of_memory(error: Exception) -> UserError:
    amount = re.search(r"[Tt]ried to allocate ([\d.]+ \w+)", str(error))
    return UserError(
        f"Out of memory: {amount.group(1)} could not be allocated." if amount else "Out of memory.",
        expected="a smaller model, context or micro-batch; `attnres plan` estimates the peak",
        hint="--set train.micro_batch_sequences=1",
        exit_code=ExitCode.OUT_OF_MEMORY,
    )


def _explain_unexpected(error: Exception) -> UserError:
    return UserError(
        f"Unexpected {type(error).__name__}: {error}",
        where="a fault of attnres, not of your input",
        hint="the same command with --debug, which shows the traceback",
        exit_code=ExitCode.UNEXPECTED,
    )
