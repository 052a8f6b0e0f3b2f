"""The `attnres` program: maps a command to its module lazily, and turns every ending into an exit code.

Only the module of the command that runs is imported, and no module imports torch before its command does: the help page
and completion must answer at once, and torch takes seconds to load.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from attnres_cli.cli import quick_values
from attnres_cli.cli.completion import for_named_shell
from attnres_cli.cli.console import show_error
from attnres_cli.errors import ExitCode, UserError, is_out_of_memory, nearest_name

quick_values.install()

# command → (module with a typer `app`, one-line summary, section of the help page). The order is the help page's.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "train": ("train", "Train a model from a preset.", "The three verbs"),
    "compare": ("compare", "Compare finished runs: loss, magnitudes, depth weights, cost.", "The three verbs"),
    "sweep": ("sweep", "Train a grid of shapes, baseline beside AttnRes, and print it.", "The three verbs"),
    "demo": ("demo", "Train baseline and AttnRes on real text and compare them (minutes).", "First steps"),
    "doctor": ("doctor", "Check this machine: versions, device, threads, caches, a self-test.", "First steps"),
    "presets": ("presets", "List, show, copy, check and compare presets.", "Before a run"),
    "plan": ("plan", "Parameters, FLOPs, memory and time of a preset; trains nothing.", "Before a run"),
    "data": ("data", "Prepare and inspect corpora; train a tokenizer.", "Before a run"),
    "runs": ("runs", "List, show and remove runs.", "After a run"),
}

# Set by a shell while it asks for completions; its name follows from the program's.
COMPLETION_VARIABLE = "_ATTNRES_COMPLETE"

# What a shell reports of a program whose reader went away (128 + SIGPIPE), as in `attnres runs ls | head -1`.
PIPE_CLOSED = 141


class LazyGroup(TyperGroup):
    """A command group whose commands are imported when they run, not when their names are listed."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Name and summary only, for the help page and for completion of the command's name; nothing is imported."""
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The help page's list of commands, in sections, summaries whole."""
        for section in dict.fromkeys(section for _, _, section in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text, its) in COMMANDS.items() if its == section])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` begins with, imported, as (name, command, remaining arguments)."""
        name = args[0]
        if name in COMMANDS:
            return name, load_command(name), args[1:]
        if ctx.resilient_parsing:  # completion of a line that begins with an unknown word
            return None, None, args[1:]
        nearest = nearest_name(name, COMMANDS)
        raise UserError(
            f"There is no command '{name}'.",
            expected=", ".join(COMMANDS),
            nearest=nearest,
            hint=f"attnres {nearest} --help" if nearest else "attnres --help",
            exit_code=ExitCode.USAGE,
        )


def load_command(name: str) -> Any:
    """Import the module of command `name` and return its click command (a group where it has subcommands)."""
    module_name, summary, _ = COMMANDS[name]
    module = importlib.import_module(f"attnres_cli.cli.{module_name}")
    command = get_command(module.app)
    command.name = name
    command.help = command.help or summary
    # Typer offers to install completion on every app it is given; the root's offer is enough.
    command.params = [each for each in command.params if each.name not in ("install_completion", "show_completion")]
    return _plain_help(command)


def _plain_help(command: Any) -> Any:
    """`command` (and its subcommands) with help pages in plain text: boxes and colours cost twice the start-up time.

    Subcommands are listed with their whole first sentence, where click would cut it to fit one line.
    """
    command.rich_markup_mode = None
    for subcommand in getattr(command, "commands", {}).values():
        subcommand.short_help = subcommand.short_help or _first_sentence(subcommand.help or "")
        _plain_help(subcommand)
    return command


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?;]) ", paragraph, maxsplit=1)[0].rstrip(".;")


app = typer.Typer(
    cls=LazyGroup,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Does replacing the residual connection pay, at your size, on your data, on your machine? "
    "Train transformers that differ in nothing but how layers pass information through depth, and compare them.",
    epilog="Start with `attnres demo`, or `attnres train cpu-tiny`.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from attnres_cli import __version__

        typer.echo(f"attnres {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show a traceback when something fails; accepted anywhere.")
    ] = False,
) -> None:
    """Options of every command; `--debug` is taken off the command line before it is parsed (see `run`)."""


def main() -> None:
    """Run the program on the command line and exit: the entry point of `attnres` and of `python -m attnres_cli`."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show "Δ" shows "?" and does not end the program
            stream.reconfigure(errors="replace")
    code = run(sys.argv[1:])
    sys.exit(_flush_or_leave(code))


def run(argv: Sequence[str]) -> int:
    """Run the program on `argv` (without the program's name) and return its exit code (see errors.ExitCode).

    The only place that turns an exception into a message: a user's error into a panel, anything unexpected into a panel
    that names `--debug`, which shows the traceback.
    """
    words, debug = _take_debug(argv)
    try:
        if for_named_shell(words, COMPLETION_VARIABLE):
            return ExitCode.DONE
        program = _plain_help(get_command(app))
        result = program.main(args=words or ["--help"], prog_name="attnres", standalone_mode=False)
        if not words:  # nothing was asked for; a script whose variable is empty should notice
            return ExitCode.USAGE
        return int(result) if isinstance(result, int) and not isinstance(result, bool) else ExitCode.DONE
    except SystemExit as ending:  # completion, and a reader that went away in the middle of a table
        if isinstance(ending.__context__, BrokenPipeError):
            return PIPE_CLOSED
        return _code_of(ending)
    except BrokenPipeError:
        return PIPE_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("Interrupted.\n")
        return ExitCode.INTERRUPTED
    except Exception as error:
        return _report(error, words, debug)


def _code_of(ending: SystemExit) -> int:
    """What Python itself would return for it: 0 for none, 1 with a message."""
    if ending.code is None or isinstance(ending.code, int):
        return ending.code or ExitCode.DONE
    sys.stderr.write(f"{ending.code}\n")
    return ExitCode.UNEXPECTED


def _take_debug(argv: Sequence[str]) -> tuple[list[str], bool]:
    """`argv` without `--debug`, wherever it stood before a `--`, and whether it was there."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--debug"]
    return kept + words[end:], len(kept) != end


def _report(error: Exception, words: Sequence[str], debug: bool) -> int:
    """Show `error` on stderr and return the exit code that it stands for."""
    from attnres_cli.cli.usage import ParserError, explain_usage, is_help_request

    if COMPLETION_VARIABLE in os.environ and not debug:  # the shell would print the message into the user's line
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
    show_error(error)
    return error.exit_code


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


def _flush_or_leave(code: int) -> int:
    """Write out what is buffered; when nobody reads it any more, end without a word and without a second attempt."""
    try:
        sys.stdout.flush()
        return int(code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
