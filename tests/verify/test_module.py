"""`attnres verify --module`: a faithful module passes, and every published way of getting it wrong is named.

Each mutant is the shipped example with one thing changed. It has to fail the property that it breaks, and nothing but
what follows from it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from tests.verify.modules import FAITHFUL_VARIANTS, MIXING
from tests.verify.wrong_modules import MUTANTS

Capture = pytest.CaptureFixture[str]


def verified(text: str, folder: Path, capsys: Capture, code: int) -> dict[str, dict[str, Any]]:
    """Finding by aspect of the class in this text; the command has to end with `code`."""
    file = folder / "mine.py"
    file.write_text(text, encoding="utf-8")
    ended = run(["verify", "--module", f"{file}:BlockAttnRes", "--json"])
    streams = capsys.readouterr()
    assert ended == code, streams.err + streams.out
    payload = json.loads(streams.out)
    assert payload["schema"] == "attnres.verify/1"
    found = [finding for check in payload["checks"] for finding in check["findings"]]
    assert payload["failed"] == sum(finding["status"] == "fails" for finding in found)
    return {finding["aspect"]: finding for finding in found}


@pytest.mark.parametrize("text", FAITHFUL_VARIANTS.values(), ids=FAITHFUL_VARIANTS.keys())
def test_a_faithful_module_passes(text: str, tmp_path: Path, capsys: Capture) -> None:
    found = verified(text, tmp_path, capsys, ExitCode.DONE)
    assert found[MIXING]["status"] == "ok"
    judged = [each for each in found.values() if each["status"] in ("ok", "fails")]
    assert len(judged) >= 15


def test_what_a_module_does_not_offer_is_listed_with_the_reason(tmp_path: Path, capsys: Capture) -> None:
    found = verified(FAITHFUL_VARIANTS["without a walk"], tmp_path, capsys, ExitCode.DONE)
    assert found["the embedding is one source"]["status"] == "does not apply"
    assert found["the embedding is one source"]["detail"] == "the class has no walk()"


def test_the_epsilon_is_found_out_where_it_is_not_declared(tmp_path: Path, capsys: Capture) -> None:
    found = verified(FAITHFUL_VARIANTS["epsilon not declared"], tmp_path, capsys, ExitCode.DONE)
    assert found["epsilon of the key norm"]["measured"] == 1e-5


@pytest.mark.parametrize(("text", "must", "may", "told"), MUTANTS.values(), ids=MUTANTS.keys())
def test_a_fault_is_named(text: str, must: set[str], may: set[str], told: str, tmp_path: Path, capsys: Capture) -> None:
    found = verified(text, tmp_path, capsys, ExitCode.THRESHOLD)
    failed = {aspect for aspect, each in found.items() if each["status"] == "fails"}
    assert must <= failed <= must | may, {aspect: found[aspect] for aspect in failed ^ must}
    assert any(told in found[aspect]["detail"] for aspect in must), [found[aspect]["detail"] for aspect in must]
