"""What typer's completion leaves open: a shell that is named, and values after an equals sign in bash.

Typer takes `--install-completion` and `--show-completion` as flags and looks at the parent process, which is not the
shell the user means in a script, in a container, or when preparing another account.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

import typer

from attnres_cli.errors import ExitCode, UserError, nearest_name

SHELLS = ("bash", "zsh", "fish")
OPTIONS = ("--install-completion", "--show-completion")


def for_named_shell(words: Sequence[str], variable: str) -> bool:
    """Do what `words` ask when they are one of the two options and a shell; False when they are anything else.

    variable: the environment variable by which the shell asks the program for completions.
    """
    if len(words) != 2 or words[0] not in OPTIONS:
        return False
    option, shell = words
    if shell not in SHELLS:
        raise UserError(
            f"Completion for '{shell}' is not supported.",
            where=option,
            expected=", ".join(SHELLS),
            nearest=nearest_name(shell, SHELLS),
            exit_code=ExitCode.USAGE,
        )
    from typer.completion import get_completion_script, install  # type: ignore[attr-defined]

    if option == "--show-completion":
        typer.echo(_without_space(get_completion_script(prog_name="attnres", complete_var=variable, shell=shell)))
    else:
        _, path = install(shell=shell, prog_name="attnres", complete_var=variable)
        script = path.read_text(encoding="utf-8")
        if shell == "bash" and _without_space(script) != script:
            path.write_text(_without_space(script), encoding="utf-8")
        typer.echo(f"Completion for {shell} is installed in {path}; it works in the next shell you start.")
    return True


def _without_space(script: str) -> str:
    """The script for bash, made to leave the cursor right after a candidate that ends in "="; others as they are."""
    end = "    return 0\n"
    return script.replace(end, f"    [[ $COMPREPLY == *= ]] && compopt -o nospace 2>/dev/null\n{end}")


@contextmanager
def whole_words_in_bash(variable: str) -> Iterator[None]:
    """Let the body, which answers a shell's request for completions, see `section.key=value` as one word.

    Bash breaks words at "=" and replaces only what follows it. So the words are put together again, and what the body
    prints is cut at the front by as much.
    """
    front = _put_together() if os.environ.get(variable) == "complete_bash" else ""
    if not front:
        yield
        return
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        sys.stdout.write("".join(line.removeprefix(front) for line in printed.getvalue().splitlines(keepends=True)))


def _put_together() -> str:
    """Join the words in bash's environment variables at "="; returns what of the last word bash takes as given."""
    text, position = os.environ.get("COMP_WORDS", ""), int(os.environ.get("COMP_CWORD", "0"))
    separator = "\n" if "\n" in text else " "
    words = text.split(separator)[: position + 1]
    joined: list[str] = []
    for index, word in enumerate(words):
        if joined and (word == "=" or (index and words[index - 1] == "=")):
            joined[-1] += word
        else:
            joined.append(word)
    if len(joined) == len(words):
        return ""
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = separator.join(joined), str(len(joined) - 1)
    was_broken = "=" in words[-2:]
    return joined[-1].rpartition("=")[0] + "=" if was_broken else ""
