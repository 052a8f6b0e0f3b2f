"""The `attnres` program: maps a command to its module lazily, and turns every ending into an exit code.

Only the module of the command that runs is imported, and no module imports torch before its command does: the help page
and completion must answer at once, and torch takes seconds to load.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from attnres_cli.cli import interruption, streams
from attnres_cli.cli.completion import for_named_shell, whole_words_in_bash
from attnres_cli.cli.endings import code_of, flush_or_leave, report_error, report_interruption
from attnres_cli.cli.help_pages import in_plain_words
from attnres_cli.cli.quick_values import read_quickly
from attnres_cli.errors import ExitCode, UserError, nearest_name

# command → (module with a typer `app`, one-line summary, section of the help page). The order is the help page's.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "train": ("train", "Train a model from a preset.", "The three verbs"),
    "compare": ("compare", "Compare finished runs: loss, magnitudes, depth weights, cost.", "The three verbs"),
    "sweep": ("sweep", "Train many runs (schemes, ablations, shapes, sizes) and print them.", "The three verbs"),
    "demo": ("demo", "Train baseline and AttnRes on real text and compare them (minutes).", "First steps"),
    "doctor": ("doctor", "Check this machine: versions, device, threads, caches, a self-test.", "First steps"),
    "presets": ("presets", "List, show, copy, check and compare presets.", "Before a run"),
    "verify": ("verify", "Hold the schemes, or a class of yours, against the paper.", "Before a run"),
    "plan": ("plan", "Parameters, FLOPs, memory and time of a preset; trains nothing.", "Before a run"),
    "bench": ("bench", "Time and memory of the residual schemes here, side by side.", "Before a run"),
    "tune": ("tune", "Find the learning rate of every residual scheme, fairly.", "Before a run"),
    "study": ("study", "Freeze the plan of a comparison before its first run; train it.", "Before a run"),
    "reproduce": ("reproduce", "Test the paper's claims here, by one fixed plan, in one table.", "Before a run"),
    "data": ("data", "Prepare and inspect corpora; train a tokenizer.", "Before a run"),
    "watch": ("watch", "Follow runs that are training in other terminals.", "After a run"),
    "runs": ("runs", "List, show and remove runs.", "After a run"),
    "report": ("report", "Write runs or a sweep as one page to send; Markdown, LaTeX.", "After a run"),
    "figures": ("figures", "Draw runs or a sweep as images: PNG, SVG, PDF.", "After a run"),
    "probe": ("probe", "Look inside trained models: magnitudes, depth weights, removal.", "After a run"),
    "generate": ("generate", "Continue a text with a trained run.", "After a run"),
}

# Set by a shell while it asks for completions; its name follows from the program's.
COMPLETION_VARIABLE = "_ATTNRES_COMPLETE"

# What a shell reports of a program whose reader went away (128 + SIGPIPE), as in `attnres runs ls | head -1`.
PIPE_CLOSED = 141


class Stopped(BaseException):
    """Carries a KeyboardInterrupt, its cause, out of the parser."""


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

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises Stopped for a KeyboardInterrupt, of which the parser would make a mute exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as ending:
            raise Stopped from ending

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
    return _prepared(command)


def _prepared(command: Any) -> Any:
    """`command` with plain help pages, and with values read the quick way."""
    in_plain_words(command)
    read_quickly(command)
    return command


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
    streams.take_over()
    interruption.install()
    code = run(sys.argv[1:])
    sys.exit(flush_or_leave(code, PIPE_CLOSED, sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Run the program on `argv` (without the program's name) and return its exit code (see errors.ExitCode).

    The only place that turns an exception into a message: a user's error into a panel, anything unexpected into a panel
    that names `--debug`, which shows the traceback.
    """
    words, debug = _take_debug(argv)
    try:
        if for_named_shell(words, COMPLETION_VARIABLE):
            return ExitCode.DONE
        program = _prepared(get_command(app))
        with whole_words_in_bash(COMPLETION_VARIABLE):
            result = program.main(args=words or ["--help"], prog_name="attnres", standalone_mode=False)
        if not words:  # nothing was asked for; a script whose variable is empty should notice
            return ExitCode.USAGE
        return int(result) if isinstance(result, int) and not isinstance(result, bool) else ExitCode.DONE
    except SystemExit as ending:  # completion, and a reader that went away in the middle of a table
        if isinstance(ending.__context__, BrokenPipeError):
            return PIPE_CLOSED
        return code_of(ending)
    except BrokenPipeError:
        return PIPE_CLOSED
    except (KeyboardInterrupt, Stopped, typer.Abort) as ending:
        return report_interruption(ending, words)
    except Exception as error:
        return report_error(error, words, debug=debug, completing=COMPLETION_VARIABLE in os.environ)


def _take_debug(argv: Sequence[str]) -> tuple[list[str], bool]:
    """`argv` without `--debug`, wherever it stood before a `--`, and whether it was there."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--debug"]
    return kept + words[end:], len(kept) != end
