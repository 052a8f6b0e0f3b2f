"""Every scheme has its walk and its place in the documentation, and is named nowhere but at home."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attnres_cli import discovery
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.registry import scheme_names
from tests.package_sources import MODULES, NAME_OF_A_SCHEME, SCHEMES, facts
from tests.small import small_model

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "residuals.md").read_text(encoding="utf-8")
# Names of schemes that are words of the trade, or the paper's own table, and may stand anywhere.
WORDS = {"highway", "unet", "mhc"}


def file_name(scheme: str) -> str:
    return scheme.replace("-", "_") + ".py"


@pytest.mark.parametrize("scheme", scheme_names())
def test_a_walk_of_its_own(scheme: str) -> None:
    """A test file that walks the trunk by the scheme's formula, sharing no code with it."""
    text = (ROOT / "tests" / "residual" / "schemes" / f"test_{file_name(scheme)}").read_text(encoding="utf-8")
    assert "assert_walks_as" in text


@pytest.mark.parametrize("scheme", scheme_names())
def test_a_line_and_a_reference_on_the_page(scheme: str) -> None:
    row = re.search(rf"^\| `{scheme}` \| .+ \| .+ \| .+ \| .+ \| (.+) \|$", PAGE, re.M)
    assert row, "a row of the table"
    module = discovery.load("residual.schemes", scheme, what="residual scheme").Scheme
    assert module.formula
    cited = re.findall(r"\d{4}\.\d{5}|github\.com/\S+?(?=[,)\s]|$)", module.citation)
    assert cited, "the citation names an arXiv number or a repository"
    assert all(each in PAGE for each in cited)
    assert row[1].split(", ") == [each.rpartition("/")[2] for each in cited], "the row's reference"


@pytest.mark.parametrize("scheme", scheme_names())
def test_the_page_says_what_it_equals_at_first(scheme: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{scheme}` |"))
    said = re.split(r"(?<!\\)\|", row)[3].strip()
    equal = small_model({"scheme": scheme, **({"block_sublayers": 3} if scheme == "haares" else {})})
    claimed = equal.residual.equals_at_initialisation
    assert said.startswith(f"`{claimed}`" if claimed else ("–" if scheme == BASELINE else "nothing")), said


def test_no_scheme_is_named_outside_its_file() -> None:
    """In code: comments and docstrings may speak of them."""
    assert set(scheme_names()) == SCHEMES
    for path in MODULES:
        own = path.stem.replace("_", "-") if path.parent.name == "schemes" else None
        for line, value in facts(path).strings:
            named = set(NAME_OF_A_SCHEME.findall(value)) - WORDS - {own}
            assert not named, f"{path.relative_to(ROOT)}:{line} names {named}"
