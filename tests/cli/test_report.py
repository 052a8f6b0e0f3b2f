"""`attnres report` through the real entry point."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from tests.fabricated_runs import BLOCK_SCHEME, fabricate
from tests.fabricated_sweep import arms_document, sweep_document
from tests.html_tree import Element, parse
from tests.report.groups import baseline as baseline_runs
from tests.report.groups import block as block_runs


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs"
    baseline_runs(root / "group", 3)
    block_runs(root / "group", (0.05, 0.06, 0.045))
    return root


@pytest.fixture
def plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's source, which is large and which these tests do not run."""
    pytest.importorskip("plotly", reason="plotly is not installed")
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "window.Plotly = {};")


def report(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command prints on stdout; it has to succeed."""
    code = run(["report", *words, "--no-bench"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run(["report", *words])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return code, " ".join(captured.err.split())


def read_page(path: str) -> Element:
    return parse(Path(path).read_text(encoding="utf-8"))


# ------------------------------------------------------------------ what it writes


@pytest.mark.usefixtures("plotly")
def test_a_page_of_a_group(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(capsys, "group", "-o", "out.html") == ""
    tree = read_page("out.html")
    assert tree.one("h1").text == "attnres-block against prenorm"
    assert tree.one("p", class_="headline").text == "attnres-block is shown to be better than prenorm."
    commands = tree.one("code", id="commands").text
    assert "attnres compare group" in commands


@pytest.mark.usefixtures("root", "plotly")
def test_title_baseline_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--title", "A <b>title</b>", "--baseline", "attnres-block", "--table", "verdict", "--table", "loss")
    report(capsys, "group", "-o", "out.htm", *words)
    tree = read_page("out.htm")
    assert tree.one("title").text == "A <b>title</b>"
    assert tree.one("p", class_="headline").text == "prenorm is shown to be worse than attnres-block."
    assert [each.attributes["id"] for each in tree.all("h3") if "table-" in (each.attributes.get("id") or "")] == [
        "table-verdict", "table-loss", "table-provenance",
    ]  # fmt: skip
    assert not [each for each in tree.all("figure") if "data-picture" in each.attributes]


@pytest.mark.usefixtures("root")
def test_markdown_and_latex_go_to_stdout_or_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    markdown = report(capsys, "group", "--format", "markdown")
    assert markdown.startswith(
        "## attnres-block against prenorm\n\n- attnres-block is shown to be better than prenorm."
    )
    assert "| attnres-block | 5 |" not in markdown
    assert "Validation loss: prenorm from" in markdown
    report(capsys, "group", "-o", "out.tex")
    text = Path("out.tex").read_text()
    assert text.startswith("% \\usepackage{booktabs}\n")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") > 5
    only = report(capsys, "group", "--format", "latex", "--table", "verdict")
    assert only.count(r"\begin{table}") == 1


@pytest.mark.usefixtures("root")
def test_json_has_the_figures_of_compare(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(report(capsys, "group", "--json"))
    assert found["schema"] == "attnres.report/1"
    assert found["headline"] == "attnres-block is shown to be better than prenorm."
    assert run(["compare", "group", "--json", "--no-bench"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert found["verdicts"] == compared["verdicts"]
    assert found["tables"]["verdict"] == compared["tables"]["verdict"]
    assert found["claims"][0]["mean"] == compared["verdicts"][0]["difference"]["mean"]


def test_a_sweep_of_several_cells(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = sweep_document({(None, 8.0): (3.2, 3.1), (None, 16.0): (3.0, 2.9)})
    _write_sweep(root / "grid", document)
    text = report(capsys, "grid", "--format", "markdown")
    assert "- 4 of 4 runs finished.\n" in text
    assert "Lowest cell" not in text  # its sentences are the summary
    assert r"mixing: lowest at d\_model/L\_b 16" in text
    assert "attnres sweep show grid" in text
    code, said = refused(capsys, "grid", "--format", "markdown", "--baseline", "mixing")
    assert code == ExitCode.USAGE
    assert "A sweep of several cells has the reference it was started with." in said


def test_a_sweep_of_one_cell_is_a_comparison_too(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = ("prenorm", "attnres-block")
    document = arms_document(dict.fromkeys(labels, (3.2, 3.1, 3.0)), report="group")
    for entry in document["runs"]:
        name = entry["arm"]
        entry["folder"] = f"{name}-s{entry['seed']}"
    _write_sweep(root / "group", document)
    text = report(capsys, "group", "--format", "markdown")
    assert "attnres-block is shown to be better than prenorm." in text
    assert "## Loss by seed" in text
    assert "attnres sweep show group" in text


def _write_sweep(folder: Path, document: dict[str, object]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "sweep.json").write_text(json.dumps(document))


# ------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["no-such-run", "nor-this", "-o", "x.html"], ExitCode.INPUT, "There is no run 'no-such-run'."),
        (["group/prenorm-s0", "-o", "x.html"], ExitCode.USAGE, "A comparison needs at least two runs."),
        (["group"], ExitCode.USAGE, "A page needs a file."),
        (["group", "-o", "x.docx"], ExitCode.USAGE, "No format of a report belongs to the suffix '.docx'."),
        (["group", "--format", "htlm", "-o", "x"], ExitCode.USAGE, "There is no format 'htlm' of a report."),
        (["group", "--json", "--format", "latex"], ExitCode.USAGE, "--json and --format latex exclude each other."),
        (["group", "-o", "nowhere/x.html"], ExitCode.USAGE, "There is no folder 'nowhere'."),
        (["group", "-o", "runs"], ExitCode.USAGE, "is a folder."),
        (["group", "--table", "losss", "-o", "x.html"], ExitCode.INPUT, "There is no table 'losss'."),
        (["group", "--baseline", "prenrom", "-o", "x.html"], ExitCode.INPUT, "There is no arm and no run 'prenrom'."),
    ],
)
@pytest.mark.usefixtures("root", "plotly")
def test_what_cannot_be_reported_is_said(
    words: list[str], code: ExitCode, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, said = refused(capsys, *words, "--no-bench")
    assert (found, what in said) == (code, True), said
    assert not list(Path().glob("x*"))


@pytest.mark.usefixtures("root")
def test_without_plotly_one_sentence_before_any_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    code, said = refused(capsys, "no-such-run", "nor-this", "-o", "x.html")
    assert code == ExitCode.INPUT
    assert "A page with pictures needs plotly: pip install 'attnres-cli[report]'" in said
    assert "no-such-run" not in said
    report(capsys, "group", "--format", "markdown")


@pytest.mark.usefixtures("plotly")
def test_unreadable_runs_are_named_and_do_not_stop_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabricate(root, "a")
    broken = fabricate(root, "b", residual=BLOCK_SCHEME)
    broken.manifest_path.write_text('{"data": ')
    broken.metrics_path.write_bytes(b"\xff\x00{")
    report(capsys, "a", "b", "-o", "out.html")
    tree = read_page("out.html")
    assert tree.one("p", class_="headline").text.startswith("No verdict on B")
    assert "The manifest of run 'b' cannot be read" in tree.one("main").text


def test_a_sweep_that_has_not_begun(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = arms_document({"prenorm": None, "attnres-block": None})
    for entry in document["runs"]:
        entry["folder"] = None
    _write_sweep(root / "waiting", document)
    code, said = refused(capsys, "waiting", "--format", "markdown")
    assert code == ExitCode.INPUT
    assert "No run of sweep 'waiting' has begun." in said
    assert "attnres sweep resume waiting" in said


@pytest.mark.usefixtures("root")
def test_a_study_that_has_not_begun(capsys: pytest.CaptureFixture[str]) -> None:
    Path("studies").mkdir()
    Path("studies/first.toml").write_text("")
    code, said = refused(capsys, "first", "--format", "markdown")
    assert code == ExitCode.INPUT
    assert "Nothing of study 'first' is trained yet." in said
    assert "attnres study run first" in said
