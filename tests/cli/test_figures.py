"""`attnres figures` and the pictures of `attnres compare`, through the real entry point."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import pytest

from attnres_cli.cli.app import run
from attnres_cli.cli.figures import FORMATS
from attnres_cli.errors import ExitCode
from attnres_cli.report.drawing import images
from tests import fabricated_sweep
from tests.cli.starting import on_a_terminal
from tests.fabricated_probes import fabricate_probes
from tests.fabricated_runs import BLOCK_SCHEME, bench_result, fabricate, fabricate_arm

pytest.importorskip("matplotlib")

STRANGE = ("<script>alert(1)<", "[bold]$x_1$")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """runs/: a group of two arms, two single runs with strange names, and a sweep of several cells."""
    folder = tmp_path_factory.mktemp("figures")
    root = folder / "runs"
    fabricate_arm(root / "group", "prenorm", better_by=(0.0, 0.0, 0.0))
    for each in fabricate_arm(root / "group", "block", residual=BLOCK_SCHEME, better_by=(0.05, 0.06, 0.04), began=1):
        fabricate_probes(each, only=("mixing",))
    for name, residual in zip(STRANGE, (None, BLOCK_SCHEME), strict=True):
        fabricate(root, name.replace("/", ""), residual=residual)
    (root / "grid").mkdir()
    losses = {(None, 8.0): (2.0, 1.9), (None, 16.0): (1.9, 1.85), (None, 32.0): (1.95, 1.9)}
    (root / "grid" / "sweep.json").write_text(json.dumps(fabricated_sweep.sweep_document(losses)))
    return folder


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def figures(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command prints on stdout; it has to succeed, and to say nothing else."""
    code = run(["figures", *words])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run(["figures", *words])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return code, captured.err


def test_one_file_per_picture_and_a_line_for_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    printed = figures(capsys, "group", "--only", "loss*", "--only", "stream-rms", "-o", str(out))
    assert sorted(path.name for path in out.iterdir()) == ["loss-difference.png", "loss.png", "stream-rms.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in out.iterdir())
    lines = printed.splitlines()
    assert lines[0].split() == ["file", "title"]
    assert f"{out}/loss.png" in lines[2]
    assert lines[2].endswith("Validation loss")


def test_numbers_lie_beside_the_image_and_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    printed = json.loads(
        figures(capsys, "group", "--only", "loss-difference", "-o", str(tmp_path), "--data", "--json",
                "--format", "svg", "--baseline", "attnres-block")
    )  # fmt: skip
    (figure,) = printed["figures"]
    assert printed["schema"] == "attnres.figures/1"
    assert figure["path"] == str(tmp_path / "loss-difference.svg")
    written: dict[str, Any] = json.loads(Path(figure["data_path"]).read_text())
    assert (written["schema"], written["kind"]) == ("attnres.picture/1", "lines")
    (series,) = written["series"]
    assert series["label"] == "prenorm"
    assert series["y"][-1] == pytest.approx(0.05, abs=1e-4)
    assert written["alternative"] == figure["alternative"]
    root = ElementTree.parse(figure["path"]).getroot()
    assert root[1].text == figure["alternative"]


def test_every_view_can_be_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figures(capsys, "group", "--only", "loss", "--views", "--format", "svg", "-o", str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loss-training-flops.svg", "loss-training-tokens.svg"]


def test_the_list_draws_nothing_and_needs_no_library(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "find_spec", lambda name: None)
    printed = figures(capsys, "group", "--list")
    assert "mixing-attnres-block" in printed
    assert not (folder / "figures").exists()
    listed = json.loads(figures(capsys, "group", "--list", "--json"))["figures"]
    assert {"loss", "loss-difference", "training-loss", "stream-rms"} <= {each["picture"] for each in listed}
    assert all(each["path"] is None for each in listed)


def test_a_missing_library_is_said_before_anything_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "find_spec", lambda name: None)
    code, err = refused(capsys, "no-such-run")
    assert code == ExitCode.INPUT
    assert "needs matplotlib" in err
    assert "pip install 'attnres-cli[report]'" in err


def test_a_single_run_and_a_single_arm_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("group/prenorm-s0",), ("group/prenorm*",)):
        listed = json.loads(figures(capsys, *words, "--list", "--json"))["figures"]
        keys = [each["picture"] for each in listed]
        assert "stream-rms" in keys
        assert "loss-difference" not in keys


def test_names_are_just_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = [name.replace("/", "") for name in STRANGE]
    figures(capsys, *names, "--only", "loss", "--only", "depth*", "--format", "svg", "-o", str(tmp_path))
    for path in tmp_path.iterdir():
        ElementTree.parse(path)
        assert b"<script" not in path.read_bytes()


def test_a_sweep_has_pictures_of_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    printed = json.loads(figures(capsys, "grid", "--json", "-o", str(tmp_path), "--only", "loss-grid"))
    assert [each["picture"] for each in printed["figures"]] == ["loss-grid"]
    assert (tmp_path / "loss-grid.png").exists()
    code, err = refused(capsys, "grid", "--baseline", "mixing", "--list")
    assert code == ExitCode.USAGE
    assert "expected: plain" in err


def test_seconds_come_from_a_stored_bench_and_nothing_is_timed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def names() -> list[str]:
        (listed,) = json.loads(figures(capsys, "group", "--only", "loss", "--list", "--json"))["figures"]
        return [str(listed["views"]), listed["caption"]]

    views, caption = names()
    assert views == "2"
    assert "Training time left out: no stored bench of these runs" in caption
    with mock.patch("attnres_cli.bench.stored._measure", side_effect=lambda arms, *_, **__: bench_result(list(arms))):
        assert run(["compare", "group", "--table", "cost"]) == 0
    capsys.readouterr()
    assert names()[0] == "3"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nope",), ExitCode.INPUT, "There is no run 'nope'."),
        (("group", "--only", "los"), ExitCode.USAGE, "nearest: loss"),
        (("group", "--format", "pgn"), ExitCode.USAGE, "nearest: png"),
        (("group", "-o", "runs/group/prenorm-s0/manifest.json"), ExitCode.USAGE, "is no folder."),
        (("group", "-o", "runs/group/prenorm-s0/manifest.json/x"), ExitCode.USAGE, "is no folder."),
    ],
)
def test_mistakes(words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, err = refused(capsys, *words)
    assert found == code
    assert said in err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not bind everybody")
def test_a_folder_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    code, err = refused(capsys, "group", "--only", "loss", "-o", str(tmp_path / "x"))
    assert code == ExitCode.INPUT
    assert "cannot be written" in err


def test_the_formats_are_those_that_can_be_drawn() -> None:
    assert FORMATS == images.FORMATS


# ---------------------------------------------------------------------- attnres compare --picture


def compare(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    code = run(["compare", *words, "--no-bench"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def test_compare_draws_what_it_is_asked_for_below_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    plain = compare(capsys, "group")
    drawn = compare(capsys, "group", "--picture", "stream-rms", "--picture", "depth-weights*")
    assert drawn.startswith(plain)
    assert "Stream magnitude by depth, step 100" in drawn.removeprefix(plain)
    assert "Depth weights of attnres-block, step 100" in drawn.removeprefix(plain)
    as_json = json.loads(compare(capsys, "group", "--picture", "stream-rms", "--json"))
    assert [each["key"] for each in as_json["pictures"]] == ["stream-rms"]
    assert "pictures" not in json.loads(compare(capsys, "group", "--json"))
    assert "```text\nstream (RMS)" in compare(capsys, "group", "--picture", "stream-rms", "--format", "markdown")


def test_compare_without_such_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "group", "--no-bench", "--picture", "streams"]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "nearest: stream-rms" in captured.err


def test_pictures_on_a_terminal_of_eighty_columns(folder: Path) -> None:
    words = ("compare", "group", "--no-bench", "--table", "loss", "--picture", "*")
    shown = on_a_terminal(folder, *words, columns=80, NO_COLOR="1", TERM="xterm-256color")
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    coloured = on_a_terminal(folder, *words, columns=80, TERM="xterm-256color")
    assert "\x1b[" in coloured
