"""`attnres runs ls|show|rm` through the real entry point."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import attnres_cli
from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.process import own_process
from tests.cli.starting import on_a_terminal
from tests.fabricated_runs import BLOCK_SCHEME, fabricate, loss_at
from tests.golden_files import check_golden

NAMES = [
    "cpu-tiny-prenorm-s0-20260102-030405-ab12",
    "cpu-tiny-attnres-block-s0-20260102-030405-cd34",
    "[bold] <script>",
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """runs/ in an otherwise empty current folder: two finished runs, an interrupted one, and one that diverged."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs"
    fabricate(root, NAMES[0])
    fabricate(root, NAMES[1], residual=BLOCK_SCHEME, better_by=0.05)
    fabricate(root, NAMES[2], until_step=40, status="interrupted").write_state(resume="attnres train --resume it")
    fabricate(root, "diverged", until_step=0, status="diverged", error="the loss is not finite")
    return root


def out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


# ------------------------------------------------------------------ ls


def test_ls_lists_every_run_with_its_last_loss(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "ls"]) == 0
    lines = out(capsys).splitlines()
    assert lines[0].split() == ["status", "done", "loss", "age", "scheme", "preset", "seed", "name"]
    [line] = [line for line in lines if line.endswith(NAMES[1])]
    assert line.split()[:3] == ["finished", "100", f"{loss_at(100, 0.05):.4f}"]
    assert line.split()[4:7] == ["attnres-block", "cpu-tiny", "0"]
    [line] = [line for line in lines if line.endswith(NAMES[2])]
    assert line.split()[:3] == ["interrupted", "40", f"{loss_at(40, 0.0):.4f}"]


def test_ls_in_a_folder_without_runs_says_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["runs", "ls"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "There are no runs in runs. `attnres train cpu-tiny` makes one." in captured.err
    assert run(["runs", "ls", "--json"]) == 0
    assert json.loads(out(capsys))["tables"]["runs"]["rows"] == []


def test_ls_as_json_is_complete(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "ls", "--json"]) == 0
    document = json.loads(out(capsys))
    assert document["schema"] == "attnres.runs/1"
    found = {row["name"]: row for row in document["tables"]["runs"]["rows"]}
    assert set(found) == {*NAMES, "diverged"}
    assert found[NAMES[0]]["loss_nats"] == loss_at(100, 0.0)
    assert found[NAMES[2]]["progress"] == 0.4
    assert (found[NAMES[1]]["scheme"], found[NAMES[1]]["preset"], found[NAMES[1]]["seed"]) == (
        "attnres-block",
        "cpu-tiny",
        0,
    )


def ls_on_a_terminal(folder: Path, columns: int) -> list[str]:
    text = on_a_terminal(folder, "runs", "ls", columns=columns)
    return [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()]


def test_ls_fits_80_columns_and_what_it_shows_can_be_typed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabricate(root, "gpu-deep-124m-prenorm-s12-20260102-030406-ab12", manifest={"preset_name": "gpu-deep-124m"})
    lines = ls_on_a_terminal(root.parent, 80)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["status", "done", "loss", "scheme", "preset", "seed", "name"]  # only the age is missing
    shown = [line.split()[-1] for line in lines[3:]]
    assert {"…030405-ab12", "…030406-ab12", "…cd34", "diverged"} <= set(shown)  # two names end in ab12
    for name in ("…030406-ab12", "cd34"):
        assert run(["runs", "show", name]) == 0
    assert "gpu-deep-124m-prenorm-s12-20260102-030406-ab12" in capsys.readouterr().out


def test_ls_leaves_out_what_is_least_useful_on_a_narrower_terminal(root: Path) -> None:
    lines = ls_on_a_terminal(root.parent, 62)
    assert max(map(len, lines)) <= 62
    assert lines[0].split() == ["status", "loss", "scheme", "seed", "name"]


def test_ls_in_a_pipe_has_whole_names(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "ls"]) == 0
    assert {line.split()[-1] for line in out(capsys).splitlines()} >= {NAMES[0], NAMES[1]}


def test_ls_of_another_folder(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabricate(tmp_path / "elsewhere", "there")
    assert run(["runs", "ls", "--runs-dir", "elsewhere"]) == 0
    assert [line.split()[-1] for line in out(capsys).splitlines()[3:]] == ["there"]


LISTS = [["runs", "ls"], ["sweep", "ls"]]
LOOKS = [
    line.split()
    for line in (
        "runs show x", "runs rm x -y", "compare x y", "compare x*", "report x -o x.html", "figures x", "probe x",
        "generate x", "watch x --once", "train --resume x", "sweep show x", "sweep status x", "sweep resume x",
    )
]  # fmt: skip
MAKES = [["train", "cpu-tiny"], ["demo"], ["doctor"], ["tune", "cpu-tiny"], ["sweep", "depth"], ["reproduce"]]


@pytest.mark.parametrize("words", [*LISTS, *LOOKS, *MAKES, ["watch", "--once"]], ids=" ".join)
@pytest.mark.parametrize("folder", ["a-file", "a-file/x"])
def test_a_file_is_no_folder_of_runs(
    words: list[str], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a-file").write_text("years of work")
    said = "error: a-file is a file, not a folder.\n  where: {}\n  expected: a folder, or a new one\n"
    assert run([*words, "--runs-dir", folder]) == ExitCode.INPUT
    assert capsys.readouterr() == ("", said.format("--runs-dir"))
    monkeypatch.setenv("ATTNRES_RUNS", folder)
    assert run(words) == ExitCode.INPUT
    assert capsys.readouterr() == ("", said.format("$ATTNRES_RUNS"))
    assert Path("a-file").read_text() == "years of work"


@pytest.mark.parametrize("words", [*LISTS, *LOOKS], ids=" ".join)
def test_a_folder_that_is_not_there_is_not_an_empty_one(
    words: list[str], root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--runs-dir", "my rnus"]) == ExitCode.INPUT
    said = capsys.readouterr().err
    assert "here is no folder my rnus" in said
    assert "  try: " not in said or said.endswith(" --runs-dir 'my rnus'\n")
    monkeypatch.setenv("ATTNRES_RUNS", "my rnus")
    assert run(words) == ExitCode.INPUT
    said = capsys.readouterr().err
    assert "here is no folder my rnus" in said
    assert "--runs-dir 'my" not in said


def test_a_misspelt_folder_of_runs_is_told_from_its_neighbours(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in LISTS:
        assert run([*words, "--runs-dir", "rnus", "--json"]) == ExitCode.INPUT
        [error] = json.loads(capsys.readouterr().err)["errors"]
        assert (error["what"], error["nearest"]) == ("There is no folder rnus.", "runs")
    assert run(["watch", "--once", "--runs-dir", "rnus"]) == 0
    assert capsys.readouterr().err == "There is no folder rnus.\n"


def test_what_makes_runs_is_suggested_for_the_folder_that_was_asked(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("my runs").mkdir()
    assert run(["runs", "ls", "--runs-dir", "my runs"]) == 0
    assert "in my runs. `attnres train cpu-tiny --runs-dir 'my runs'` makes one." in capsys.readouterr().err
    assert run(["sweep", "ls", "--runs-dir", "my runs"]) == 0
    assert "Start one: attnres sweep depth-width --runs-dir 'my runs'\n" in capsys.readouterr().err
    assert run(["runs", "show", "x", "--runs-dir", "my runs"]) == ExitCode.INPUT
    assert "there are none in my runs\n  try: attnres train cpu-tiny --runs-dir 'my runs'\n" in capsys.readouterr().err
    assert run(["runs", "show", "x"]) == ExitCode.INPUT
    assert capsys.readouterr().err.endswith("  try: attnres runs ls\n")
    monkeypatch.setenv("ATTNRES_RUNS", "my runs")
    assert run(["runs", "ls"]) == 0
    assert "`attnres train cpu-tiny` makes one." in capsys.readouterr().err
    assert run(["runs", "show", "x", "--runs-dir", "runs"]) == ExitCode.INPUT
    assert capsys.readouterr().err.endswith("  try: attnres runs ls --runs-dir runs\n")


def test_ls_survives_broken_runs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / NAMES[0] / "manifest.json").write_text("{")
    (root / NAMES[0] / "metrics.jsonl").write_text('{"kind": "eval", "st')
    (root / NAMES[1] / "state.json").write_text("{")
    (root / NAMES[2] / "manifest.json").write_text('{"created": "yesterday"}')
    assert run(["runs", "ls"]) == 0
    lines = out(capsys).splitlines()
    assert [line for line in lines if line.endswith(NAMES[0])][0].split()[:3] == ["finished", "100", "—"]
    assert [line for line in lines if line.endswith(NAMES[1])][0].split()[:2] == ["!", "!"]


def test_ls_loads_no_slow_library(root: Path) -> None:
    code = (
        "import sys\nfrom attnres_cli.cli.app import run\nassert run(['runs', 'ls']) == 0\n"
        "print({'torch', 'numpy', 'pydantic', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root.parent,
        env={"PYTHONPATH": str(Path(attnres_cli.__file__).parent.parent), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "set()"


# ------------------------------------------------------------------ show


def test_show(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "show", NAMES[1]]) == 0
    check_golden("runs-show.txt", out(capsys))


def test_show_of_an_unfinished_run_says_how_to_go_on(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "show", "[bold"]) == 0
    text = out(capsys)
    assert "interrupted at step 40 of 100" in text
    assert "attnres train --resume it" in text


def test_show_of_a_failed_run_says_what_failed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "show", "diverged"]) == 0
    assert "the loss is not finite" in out(capsys)


def test_show_as_json_has_manifest_state_and_evaluations(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "show", NAMES[0], "--json"]) == 0
    document = json.loads(out(capsys))
    assert document["schema"] == "attnres.run/1"
    assert document["manifest"] == json.loads((root / NAMES[0] / "manifest.json").read_text())
    assert [row["step"] for row in document["evaluations"]] == [0, 20, 40, 60, 80, 100]
    assert document["state"]["status"] == "finished"


@pytest.mark.parametrize("words", [["runs", "show", "nothing"], ["runs", "rm", "nothing", "--yes"]])
def test_a_run_that_is_not_there(root: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == ExitCode.INPUT
    assert "There is no run 'nothing'." in capsys.readouterr().err


def test_a_beginning_that_several_runs_share(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "show", "cpu-tiny"]) == ExitCode.INPUT
    assert "is the beginning of 2 runs" in capsys.readouterr().err


# ------------------------------------------------------------------ rm


def test_rm_with_yes_removes_several(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "rm", "diverged", "[bold", "--yes"]) == 0
    assert out(capsys).splitlines() == ["removed diverged", f"removed {NAMES[2]}"]
    assert {path.name for path in root.iterdir()} == set(NAMES[:2])


def test_rm_off_a_terminal_needs_yes(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["runs", "rm", "diverged"]) == ExitCode.USAGE
    assert "--yes" in capsys.readouterr().err
    assert (root / "diverged").exists()


@pytest.mark.parametrize(("answer", "stays"), [("n\n", True), ("\n", True), ("y\n", False)])
def test_rm_asks_on_a_terminal(root: Path, answer: str, stays: bool) -> None:
    pty = pytest.importorskip("pty")
    import os

    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "attnres_cli", "runs", "rm", "diverged"],
        cwd=root.parent,
        env={**os.environ, "PYTHONPATH": str(Path(attnres_cli.__file__).parent.parent)},
        stdin=child,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.write(parent, answer.encode())
        _, said = process.communicate(timeout=300)
    os.close(child)
    os.close(parent)
    assert process.returncode == 0
    assert re.search(r"diverged \(\d+\.\d MiB\)", said)
    assert (root / "diverged").exists() is stays


def test_rm_refuses_a_running_run_and_then_removes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunDirectory.create(root, "stem", "alive")
    assert run(["runs", "rm", "diverged", "alive", "--yes"]) == ExitCode.INPUT
    assert "Run 'alive' is running" in capsys.readouterr().err
    assert (root / "diverged").exists()
    assert (root / "alive").exists()


def test_rm_never_removes_what_is_no_run(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "thesis.tex").write_text("years of work")
    for ref in ("thesis", str(thesis), "runs", ".", "/"):
        assert run(["runs", "rm", ref, "--yes"]) == ExitCode.INPUT
    assert (thesis / "thesis.tex").exists()
    assert len(list(root.iterdir())) == 4


def test_rm_of_the_same_run_twice_removes_it_once(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "rm", "diverged", str(root / "diverged"), "-y"]) == 0
    assert out(capsys) == "removed diverged\n"


# ------------------------------------------------------------------ groups and sweeps


@pytest.fixture
def groups(root: Path) -> Path:
    """Beside the runs of `root`: a group of two, and two sweeps of which one's name begins with the other's."""
    for name in ("one", "two"):
        fabricate(root / "pair", name)
    for sweep, names in (("sw", ("a-s0", "a-s1")), ("sw3", ("b-s0", "b-s1", "b-s2"))):
        for name in names:
            fabricate(root / sweep, name)
        (root / sweep / "sweep.json").write_text(json.dumps({"status": "finished"}))
    fabricate(root / "sw" / "trials", "t-s0")
    return root


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("runs show sw", "'sw' is a sweep of 2 runs, not one run.", "attnres sweep show sw"),
        ("train --resume sw", "'sw' is a sweep of 2 runs, not one run.", "attnres sweep resume sw"),
        ("train --resume runs/sw3", "'runs/sw3' is a sweep of 3 runs, not one run.", "attnres sweep resume runs/sw3"),
        ("runs show pair", "'pair' is a group of 2 runs, not one run.", None),
    ],
)
def test_a_group_is_no_run_and_the_error_says_which_command_takes_it(
    groups: Path, words: str, said: str, hint: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words.split(), "--json"]) == ExitCode.INPUT
    (error,) = json.loads(capsys.readouterr().err.splitlines()[-1])["errors"]
    assert (error["what"], error["hint"]) == (said, hint)
    name = words.split()[-1].removeprefix("runs/")
    assert all(each.startswith(f"{name}/") for each in error["expected"].removeprefix("one of ").split(", "))


def test_a_group_of_one_run_is_that_run(groups: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabricate(groups / "alone", "only")
    fabricate(groups / "alone-2", "other")
    assert run(["runs", "show", "alone"]) == 0
    assert "only" in out(capsys)


def test_rm_of_groups_removes_all_their_runs(groups: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name for path in groups.iterdir()}
    assert run(["runs", "rm", "sw", "pair", "sw/a-s0", "diverged"]) == ExitCode.USAGE
    assert "Removing 6 runs needs an answer" in capsys.readouterr().err
    assert {path.name for path in groups.iterdir()} == before
    assert run(["runs", "rm", "sw", "pair", "sw/a-s0", "diverged", "--yes"]) == 0
    assert out(capsys).splitlines() == ["removed sw (3 runs)", "removed pair (2 runs)", "removed diverged"]
    assert {path.name for path in groups.iterdir()} == before - {"sw", "pair", "diverged"}


def test_rm_of_a_group_asks_with_the_number_of_runs(
    groups: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert run(["runs", "rm", "sw"]) == 0
    said = capsys.readouterr().err
    assert re.search(r"  sw \(3 runs, \d+\.\d MiB\)\n", said)
    assert "Remove these 3 runs for good?" in said
    assert (groups / "sw" / "a-s0").exists()


def test_rm_of_a_group_leaves_what_no_run_made(groups: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (groups / "sw" / "thesis.tex").write_text("years of work")
    assert run(["runs", "rm", "sw", "--yes"]) == 0
    streams = capsys.readouterr()
    assert streams.out == "removed sw (3 runs)\n"
    assert streams.err == "kept in sw, which no run made: thesis.tex\n"
    assert [path.name for path in (groups / "sw").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("living", ["sweep", "run"])
def test_rm_of_a_group_that_is_at_work_removes_nothing(
    groups: Path, living: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if living == "sweep":
        process = {**own_process(), "heartbeat": time.time()}
        (groups / "sw" / "sweep.json").write_text(json.dumps({"status": "running", "process": process}))
    else:
        RunDirectory.create(groups / "sw", "stem", "alive")
    assert run(["runs", "rm", "diverged", "sw", "--yes"]) == ExitCode.INPUT
    assert ("Sweep 'sw' is running" if living == "sweep" else "Run 'alive' is running") in capsys.readouterr().err
    assert (groups / "diverged").exists()
    assert (groups / "sw" / "a-s0").exists()


def test_rm_takes_no_other_folder_of_runs_for_a_group(
    groups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabricate(tmp_path / "elsewhere", "there")
    for ref in ("elsewhere", "runs", ".", ".."):
        assert run(["runs", "rm", ref, "--yes"]) == ExitCode.INPUT
    assert (tmp_path / "elsewhere" / "there").exists()
