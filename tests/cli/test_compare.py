"""`attnres compare` through the real entry point."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from tests.cli.starting import on_a_terminal
from tests.fabricated_runs import BLOCK_SCHEME, fabricate, loss_at
from tests.golden_files import check_golden

# So small that a whole training step of it takes milliseconds.
TINY = {
    "model.transformer_blocks": 1, "model.d_model": 16, "model.num_heads": 2, "model.num_kv_heads": 2, "model.d_ff": 32,
    "model.context_tokens": 16, "train.tokens_per_step": 32, "train.micro_batch_sequences": 1,
}  # fmt: skip
TINY_BLOCK = {**BLOCK_SCHEME, "num_blocks": 1}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs"
    fabricate(root, "baseline", change=TINY)
    fabricate(root, "block", change=TINY, residual=TINY_BLOCK, better_by=0.05, flops_per_token=1.02e6)
    return root


def compare(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command prints on stdout; it has to succeed."""
    code = run(["compare", *words])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def compare_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(compare(capsys, *words, "--json"))
    return document


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run(["compare", *words])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return code, captured.err


# ------------------------------------------------------------------ what it prints


def test_the_whole_comparison(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_golden("compare-command.txt", compare(capsys, "baseline", "block", "--no-bench"))


def test_prefixes_and_paths_name_runs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = compare(capsys, "baseline", "block", "--no-bench")
    assert compare(capsys, "base", "runs/block", "--no-bench") == whole
    assert compare(capsys, "runs/baseline/", str(root / "block"), "--no-bench", "--runs-dir", "nowhere") == whole


def test_the_first_run_is_the_baseline_unless_another_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delta = loss_at(100, 0.05) - loss_at(100, 0.0)
    first = compare_json(capsys, "baseline", "block", "--no-bench")
    assert (first["baseline"], first["verdicts"][0]["delta_nats"]) == ("A", delta)
    second = compare_json(capsys, "baseline", "block", "--no-bench", "--baseline", "block")
    assert (second["baseline"], second["verdicts"][0]["delta_nats"]) == ("B", -delta)
    assert second["verdicts"][0]["label"] == "A"
    apart = compare_json(capsys, "baseline", "--no-bench", "--baseline", "block")
    assert [each["name"] for each in apart["runs"]] == ["block", "baseline"]
    assert apart["baseline"] == "A"


def test_an_unfair_pair_prints_its_tables_and_no_verdict_and_succeeds(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabricate(root, "other-seed", change={**TINY, "train.seed": 3}, residual=TINY_BLOCK, better_by=0.05)
    text = compare(capsys, "baseline", "other-seed", "--no-bench")
    assert text.index("Configuration") < text.index("NO VERDICT") < text.index("Validation loss")
    assert "it differs in train.seed (0 / 3)" in text
    assert "is lower by" not in text
    assert compare_json(capsys, "baseline", "other-seed", "--no-bench")["verdicts"][0]["outcome"] == "refused"


def test_a_broken_third_run_is_named_and_marked(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = fabricate(root, "broken", change=TINY)
    broken.manifest_path.write_text('{"data": ')
    text = compare(capsys, "baseline", "block", "broken", "--no-bench")
    assert "C: The manifest of run 'broken' cannot be read" in text
    assert "is lower by 0.0500 nats" in text
    assert "run C cannot be read" in text


@pytest.mark.parametrize("name", ["[bold]", "<script>", "=cmd|calc", "a|b", "ünï 名前"])
@pytest.mark.parametrize("format_name", ["table", "markdown", "csv", "json"])
def test_a_name_is_just_a_name(root: Path, capsys: pytest.CaptureFixture[str], name: str, format_name: str) -> None:
    fabricate(root, name, change=TINY)
    text = compare(capsys, "baseline", name, "--no-bench", "--format", format_name)
    if format_name == "markdown":
        assert "<script>" not in text
    else:
        assert name in text


# ------------------------------------------------------------------ formats and files


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        ((), "Comparing 2 runs"),
        (("--format", "table"), "Comparing 2 runs"),
        (("--format", "markdown"), "## Comparing 2 runs"),
        (("--format", "csv"), "# runs\nrun,status,name\n"),
        (("--format", "json"), '{\n  "schema": "attnres.compare/1"'),
        (("--json",), '{\n  "schema": "attnres.compare/1"'),
    ],
)
def test_formats(root: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], begins: str) -> None:
    assert compare(capsys, "baseline", "block", "--no-bench", *words).startswith(begins)


@pytest.mark.parametrize(
    ("file", "words", "begins"),
    [
        ("out.txt", (), "Comparing"),
        ("out.md", (), "## Comparing"),
        ("out.CSV", (), "# runs"),
        ("out.json", (), "{"),
        ("out", ("--format", "markdown"), "## Comparing"),
        ("out.csv", ("--format", "table"), "Comparing"),
    ],
)
def test_output_writes_exactly_that_file(
    root: Path, capsys: pytest.CaptureFixture[str], file: str, words: tuple[str, ...], begins: str
) -> None:
    before = set(root.parent.iterdir())
    assert compare(capsys, "baseline", "block", "--no-bench", "-o", file, *words) == ""
    path = root.parent / file
    assert set(root.parent.iterdir()) == before | {path}
    assert path.read_text(encoding="utf-8").startswith(begins)
    assert compare(capsys, "baseline", "block", "--no-bench", "--output", file, *words) == ""


def test_output_follows_a_link_and_leaves_it_one(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, link = root.parent / "target.md", root.parent / "link.md"
    link.symlink_to(target)
    compare(capsys, "baseline", "block", "--no-bench", "-o", "link.md")
    assert link.is_symlink()
    assert target.read_text().startswith("## Comparing")


@pytest.mark.parametrize(
    ("file", "says"), [("runs", "is a folder"), ("missing/out.md", "There is no folder 'missing'")]
)
def test_output_that_cannot_be_written(root: Path, capsys: pytest.CaptureFixture[str], file: str, says: str) -> None:
    code, said = refused(capsys, "baseline", "block", "--no-bench", "-o", file)
    assert (code, says in said) == (ExitCode.USAGE, True)
    assert not (root.parent / "missing").exists()


def test_single_tables(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = compare(capsys, "baseline", "block", "--table", "loss", "--format", "csv")
    assert text.splitlines()[0].startswith("run,loss_nats,")
    assert len(text.splitlines()) == 3
    assert not (root / ".bench").exists(), "a table that needs no bench starts none"
    code, said = refused(capsys, "baseline", "block", "--table", "lost", "--no-bench")
    assert code == ExitCode.INPUT
    assert "nearest: loss" in said


# ------------------------------------------------------------------ wrong arguments


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("baseline",), ExitCode.USAGE, "at least two runs"),
        (("baseline", "baseline"), ExitCode.USAGE, "given twice"),
        (("baseline", "runs/baseline"), ExitCode.USAGE, "given twice"),
        (("baseline", "blok"), ExitCode.INPUT, "nearest: block"),
        (("baseline", "block", "--baseline", "nobody"), ExitCode.INPUT, "There is no run 'nobody'"),
        (("baseline", "block", "--format", "html"), ExitCode.USAGE, "There is no output format 'html'"),
        (("baseline", "block", "--format", "markdwon"), ExitCode.USAGE, "nearest: markdown"),
        (("baseline", "block", "--json", "--format", "csv"), ExitCode.USAGE, "exclude each other"),
        (("baseline", "block", "--no-bench", "--rebench"), ExitCode.USAGE, "exclude each other"),
        ((), ExitCode.USAGE, "missing"),
    ],
)
def test_wrong_arguments(
    root: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: ExitCode, says: str
) -> None:
    found, said = refused(capsys, *words)
    assert found == code
    assert says in said


# ------------------------------------------------------------------ the bench


def test_the_bench_is_measured_once_and_kept(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "baseline", "block", "--json"]) == 0
    captured = capsys.readouterr()
    assert "timing the runs' training steps in turn" in captured.err
    first = json.loads(captured.out)
    [stored] = (root / ".bench").iterdir()
    assert json.loads(stored.read_text())["bench"] == first["bench"]
    rows = first["tables"]["cost"]["rows"]
    assert all(row["step_seconds"] > 0 and row["peak_memory_bytes"] > 0 for row in rows)
    assert rows[1]["tokens_per_second"] == 32 / rows[1]["step_seconds"]

    assert run(["compare", "baseline", "block", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    again = json.loads(captured.out)
    assert again["tables"]["cost"]["rows"] == rows
    assert "measured earlier" in again["tables"]["cost"]["caption"]

    # A run that costs the same per step (another seed) is timed by the same arm, so the stored bench still fits.
    fabricate(root, "other-seed", change={**TINY, "train.seed": 3, "train.learning_rate": 0.001}, residual=TINY_BLOCK)
    third = compare_json(capsys, "baseline", "block", "other-seed")["tables"]["cost"]
    assert third["rows"][2]["step_seconds"] == rows[1]["step_seconds"]
    assert "measured earlier" in third["caption"]

    new = compare_json(capsys, "baseline", "block", "--rebench")
    assert new["bench"]["arms"][0]["wall_seconds"] != first["bench"]["arms"][0]["wall_seconds"]
    assert json.loads(stored.read_text())["bench"] == new["bench"]


def test_a_bench_that_cannot_run_leaves_the_other_tables(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("gpu-a", "gpu-b"):
        fabricate(root, name, change=TINY, manifest={"environment.device": "cuda:7"})
    document = compare_json(capsys, "gpu-a", "gpu-b")
    assert document["tables"]["loss"]["rows"][1]["loss_nats"] == loss_at(100, 0.0)
    assert document["tables"]["cost"]["caption"].startswith("not measured: the bench failed: ")


# ------------------------------------------------------------------ on a terminal


def test_on_a_terminal_of_80_columns_nothing_is_wider_and_nothing_is_cut(root: Path) -> None:
    coloured = on_a_terminal(root.parent, "compare", "baseline", "block", "--no-bench")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert "\x1b[" in coloured
    assert max(map(len, plain.splitlines())) <= 80
    assert "…" not in plain
    assert f"{loss_at(100, 0.05):.4f}" in plain


def test_no_color_is_respected(root: Path) -> None:
    assert "\x1b[" not in on_a_terminal(root.parent, "compare", "baseline", "block", "--no-bench", NO_COLOR="1")
