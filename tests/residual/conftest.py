"""Small models take every path of the large ones."""

from __future__ import annotations

import pytest

from attnres_cli.residual import fused


@pytest.fixture(autouse=True)
def rows_are_shared_however_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_WORTH_SHARING", 0)
