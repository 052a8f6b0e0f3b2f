"""The document of `attnres probe`, from findings made by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from attnres_cli import discovery
from attnres_cli.report.document import Document, Notice, formats, render
from attnres_cli.report.probe import PACKAGE, probe_document
from attnres_cli.report.probed_run import ProbedRun, read_probed_run
from attnres_cli.report.probes._side_by_side import estimate
from tests.fabricated_probes import ALL, fabricate_probes
from tests.fabricated_runs import BLOCK_SCHEME, FULL_SCHEME, fabricate
from tests.golden_files import check_golden


def probed(root: Path, name: str, label: str, better_by: float, **how: object) -> ProbedRun:
    run = fabricate_probes(fabricate(root, name, better_by=better_by, **how), better_by=better_by)  # type: ignore[arg-type]
    return read_probed_run(run, label, name, 100, ALL)


@pytest.fixture
def three(tmp_path: Path) -> list[ProbedRun]:
    return [
        probed(tmp_path, "baseline", "A", 0.0),
        probed(tmp_path, "block", "B", 0.05, residual=BLOCK_SCHEME),
        probed(tmp_path, "full", "C", 0.08, residual=FULL_SCHEME),
    ]


@pytest.fixture
def document(three: list[ProbedRun]) -> Document:
    return probe_document(three, ALL)


def test_on_a_terminal_of_80_columns(document: Document) -> None:
    text = render(document, "table", width_columns=80)
    assert max(map(len, text.splitlines())) <= 80
    check_golden("probe_80.txt", text)


def test_one_run(three: list[ProbedRun]) -> None:
    check_golden("probe-one_80.txt", render(probe_document(three[1:2], ALL), "table", width_columns=80))


def test_markdown(document: Document) -> None:
    check_golden("probe.md", render(document, "markdown"))


def test_every_probe_has_its_tables() -> None:
    assert set(discovery.names(PACKAGE)) == set(ALL) == set(discovery.names("probe.probes"))


def test_every_format_takes_it(document: Document) -> None:
    for name in formats():
        assert render(document, name).endswith("\n")


def test_json_has_every_number_in_full(document: Document, three: list[ProbedRun]) -> None:
    found = json.loads(render(document, "json"))
    assert found["schema"] == "attnres.probe/1"
    for written, run in zip(found["runs"], three, strict=True):
        assert written["name"] == run.name
        for name in ALL:
            assert written["probes"][name]["summary"] == run.found[name]["summary"]
            assert written["probes"][name]["arrays"] == run.arrays[name]


def test_csv_columns_are_the_runs_letters(document: Document, three: list[ProbedRun]) -> None:
    table = render(document.only_tables(["stream_rms"]), "csv")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert rows[3]["blocks_passed"] == "3"
    assert [float(row["B"]) for row in rows] == three[1].numbers("magnitudes", "stream_rms")


def test_only_the_probes_that_were_asked_for(three: list[ProbedRun]) -> None:
    tables = probe_document(three, ("lens", "smoothing")).tables
    assert list(tables) == ["runs", "lens", "lens_by_depth", "smoothing", "token_cosine", "state_rank"]


def test_runs_that_have_nothing_of_the_kind_are_named(document: Document) -> None:
    notices = [block for block in document.blocks if isinstance(block, Notice)]
    assert [notice.lines for notice in notices] == [("A: this scheme has nothing of the kind",)] * 2
    weights = document.tables["depth_weights"]
    assert {row["run"] for row in weights.rows} == {"B", "C"}


def test_runs_of_different_depth_stand_side_by_side(tmp_path: Path) -> None:
    runs = [
        probed(tmp_path, "deep", "A", 0.0),
        probed(tmp_path, "shallow", "B", 0.0, change={"model.transformer_blocks": 3}),
    ]
    rows = probe_document(runs, ("lens",)).tables["lens_by_depth"].rows
    assert len(rows) == 6
    assert rows[3].keys() == {"blocks_passed", "A", "B"}
    assert rows[4].keys() == {"blocks_passed", "A"}


def test_a_name_is_just_a_name(tmp_path: Path) -> None:
    run = probed(tmp_path, "[bold]", "A", 0.0)
    text = render(probe_document([run], ALL), "table", width_columns=80, colour=True)
    assert "[bold]" in text


def test_a_run_that_was_probed_in_part(tmp_path: Path) -> None:
    run = fabricate_probes(fabricate(tmp_path, "part"), only=("lens",))
    part = read_probed_run(run, "A", "part", 100, ALL)
    assert list(probe_document([part], ALL).tables) == ["runs", "lens", "lens_by_depth"]


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.5, 0.25, 0.75), "+0.5000 [+0.2500, +0.7500]"),
        ((0.5, -0.25, 1.25), "~ +0.5000 [-0.2500, +1.2500]"),
        ((-0.5, -0.75, -0.25), "-0.5000 [-0.7500, -0.2500]"),
        ((0.5, None, None), None),
    ],
)
def test_a_difference_that_is_not_shown_says_so(ends: tuple[float, ...], text: str | None) -> None:
    assert estimate(*ends).text == text
    assert estimate(*ends).value == ends[0]


def test_a_run_called_as_a_column_is_called(tmp_path: Path) -> None:
    runs = [probed(tmp_path, "block", "A", 0.0), probed(tmp_path, "kind", "B", 0.1)]
    rows = probe_document(runs, ("gradients",)).tables["gradient_by_block"].rows
    assert [row["block"] for row in rows] == [0, 1, 2, 3, 4]
