"""Ctrl-C, SIGTERM or SIGHUP while data is being prepared: what is kept, and how to go on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from attnres_cli.cli.interruption import raise_again
from attnres_cli.errors import Interrupted


@contextmanager
def saying_what_is_kept() -> Iterator[None]:
    """Turn a KeyboardInterrupt of the body, which prepares data, into an Interrupted that says so."""
    try:
        raise_again()
        yield
    except KeyboardInterrupt as ending:
        raise Interrupted(
            "Interrupted while preparing the data: no data prepared in part is kept.",
            hint=f"start again with: {shlex.join(['attnres', *sys.argv[1:]])}",
        ) from ending
