"""The default arms are schemes that exist, two or more, each once."""

from __future__ import annotations

import tomllib

import pytest

from attnres_cli import discovery
from attnres_cli.residual.arms import ARMS_FILE, BASELINE, default_arms

COMMANDS = sorted(tomllib.loads(ARMS_FILE.read_text(encoding="utf-8")).keys() - {"baseline"})


@pytest.mark.parametrize("command", COMMANDS)
def test_default_arms_exist(command: str) -> None:
    arms = default_arms(command)
    assert len(arms) >= 2
    assert len(set(arms)) == len(arms)
    assert set(arms) <= set(discovery.names("residual.schemes"))
    assert arms[0] == BASELINE
