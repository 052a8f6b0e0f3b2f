"""Every ending of a command as a message on stderr and an exit code (docs/exit-codes.md)."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence

import typer

from attnres_cli.cli import interruption
from attnres_cli.cli.console import show_error, show_error_as_json
from attnres_cli.cli.streams import STDOUT
from attnres_cli.errors import ExitCode, Fault, Interrupted, UserError, is_out_of_memory, storage_trouble


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
        error = _explain_stdout(error) or _explain_storage(error) or _explain_unexpected(error)
    return _show(error, words)


def _show(error: UserError, words: Sequence[str]) -> int:
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


def flush_or_leave(code: int, code_without_reader: int, words: Sequence[str] = ()) -> int:
    """Write out what is buffered; when nobody reads it any more, end without a word and without a second attempt; when
    it cannot be written, say so."""
    try:
        sys.stdout.flush()
        return int(code)
    except BrokenPipeError:
        _discard_stdout()
        return code_without_reader
    except OSError as error:
        unwritten = _explain_stdout(error)
        return int(code) if unwritten is None else _show(unwritten, words)


def _discard_stdout() -> None:
    """Nothing that is still buffered is tried again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain_stdout(error: Exception) -> UserError | None:
    """The fault of a result that cannot be written to stdout; None where `error` is of another file."""
    if not isinstance(error, OSError) or error.filename != STDOUT:
        return None
    _discard_stdout()
    reasons = {errno.ENOSPC: "there is no room left on its disk", errno.EBADF: "it is closed"}
    reason = reasons.get(error.errno or 0, error.strerror)
    return UserError(
        f"The result cannot be written to stdout: {reason}.",
        where="stdout",
        hint="the same command with stdout on a terminal, a pipe or a disk that has room",
    )


def _explain_storage(error: Exception) -> UserError | None:
    """The fault of a disk that is full, or of a folder that may not be written."""
    trouble = storage_trouble(error)
    if trouble is None:
        return None
    return UserError(
        f"{trouble[0]}.",
        expected="what was saved before is whole",
        hint=f"{trouble[1]}, then run the same command again",
    )


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
