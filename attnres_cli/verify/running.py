"""Runs every file of a folder of checks, each timed, in order; a check that breaks down is a failure like any other."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attnres_cli import discovery
from attnres_cli.errors import UserError, is_out_of_memory
from attnres_cli.verify.finding import Finding

CHECKS = "verify.checks"
PROPERTIES = "verify.properties"


@dataclass(frozen=True)
class Checked:
    """One check: the name of its file, its title, what it found, and how long it took."""

    name: str
    title: str
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def failed(self) -> bool:
        return any(finding.status == "fails" for finding in self.findings)


def run_all(package: str, argument: Any, begin: Callable[[str], None] = lambda title: None) -> Iterator[Checked]:
    """Every check of `package` (a folder in the room, as `discovery` names it) on `argument`; begin: told each title
    before it runs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # everything is small: threads would wait for one another
    try:
        yield from _run_all(package, argument, begin)
    finally:
        torch.set_num_threads(threads)


def _run_all(package: str, argument: Any, begin: Callable[[str], None]) -> Iterator[Checked]:
    modules = {name: discovery.load(package, name, what="check") for name in discovery.names(package)}
    for name, module in sorted(modules.items(), key=lambda item: (item[1].ORDER, item[0])):
        begin(module.TITLE)
        started = time.perf_counter()
        findings = tuple(_whatever_happens(module.check, argument))
        yield Checked(name, module.TITLE, findings, time.perf_counter() - started)


def _whatever_happens(check: Callable[[Any], Iterator[Finding]], argument: Any) -> Iterator[Finding]:
    try:
        yield from check(argument)
    except UserError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        said = str(error).splitlines()[0] if str(error) else "no message"
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        yield Finding("runs to its end", "fails", detail=f"{type(error).__name__} at {place}: {said}")
