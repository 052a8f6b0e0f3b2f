"""`--install-completion` and `--show-completion` for a shell that is named, beside typer's guess of the current one.

Typer takes both as flags and looks at the parent process, which is not the shell the user means in a script, in a
container, or when preparing another account.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        typer.echo(get_completion_script(prog_name="attnres", complete_var=variable, shell=shell))
    else:
        _, path = install(shell=shell, prog_name="attnres", complete_var=variable)
        typer.echo(f"Completion for {shell} is installed in {path}; it works in the next shell you start.")
    return True
