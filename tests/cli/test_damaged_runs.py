"""Whatever has become of the files of one run, every command that reads runs goes on and shows the others."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from attnres_cli.sweep.results import Sweep
from tests import damages
from tests.fabricated_probes import fabricate_probes
from tests.fabricated_runs import BLOCK_SCHEME, fabricate_arm
from tests.fabricated_sweep import arms_document

DAMAGED = "block-s1"
# Command → what it says although a run is damaged; of the damaged run alone, nothing has to be left to say.
COMMANDS: dict[str, Sequence[str]] = {
    "compare": ("compare", "g", "--no-bench"),
    "compare --json": ("compare", "g", "--no-bench", "--json"),
    "figures": ("figures", "g", "--list"),
    "runs ls": ("runs", "ls"),
    "runs show": ("runs", "show", f"g/{DAMAGED}"),
    "watch": ("watch", "g", "--once"),
    "report": ("report", "g", "--no-bench", "--format", "markdown"),
}
MAY_REFUSE = ("runs show",)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arms of three seeds, observed and probed, and a copy of the run that is damaged."""
    root = tmp_path_factory.mktemp("damaged")
    runs = [
        *fabricate_arm(root / "runs" / "g", "prenorm", better_by=(0.0, 0.01, 0.005)),
        *fabricate_arm(root / "runs" / "g", "block", residual=BLOCK_SCHEME, better_by=(0.05, 0.06, 0.055), began=1),
    ]
    for each in runs:
        fabricate_probes(each)
    shutil.copytree(root / "runs" / "g" / DAMAGED, root / "whole")
    return root


@pytest.fixture(scope="module")
def every_damage(kept: Path) -> dict[str, damages.Damage]:
    return dict([*damages.of_whole_files(kept / "whole"), *damages.of_values(kept / "whole")])


def after(kept: Path, damage: damages.Damage, command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """(exit code, what was said) of a command, with the run damaged so and otherwise whole."""
    folder = kept / "runs" / "g" / DAMAGED
    shutil.rmtree(folder)
    shutil.copytree(kept / "whole", folder)
    damage(folder)
    capsys.readouterr()
    code = run([*COMMANDS[command], "--runs-dir", str(kept / "runs")])
    said = capsys.readouterr()
    return code, said.out + said.err


def check(command: str, code: int, said: str) -> None:
    assert "fault of attnres" not in said, said
    assert "Traceback" not in said, said
    if command in MAY_REFUSE:
        assert code in (0, ExitCode.INPUT, ExitCode.USAGE), said
    else:
        assert code == 0, said
        assert "prenorm" in said
        if command == "compare --json":
            json.loads(said.partition("\nnote")[0] if said.lstrip().startswith("{") else said)


HUGE = b'{"kind": "eval", "step": 100, "tokens": 1' + b"0" * 400 + b', "loss": 1.5}'
HUGE_LOSS = b'{"kind": "eval", "step": 100, "tokens": 204800, "loss": 1' + b"0" * 400 + b"}"
ODD_SITE = b'{"step": 100, "observer": "depth_weights", "summary": {"sites": [{"kind": 3, "sources": 7}]}}'


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("metrics.jsonl", b"[" * 200_000, "metrics.jsonl: 1 torn line left out"),
        ("metrics.jsonl", HUGE, "metrics.jsonl: 1 torn line left out"),
        ("metrics.jsonl", HUGE_LOSS, "metrics.jsonl: 1 torn line left out"),
        ("probes/observations.jsonl", ODD_SITE, "observations.jsonl: 1 torn line left out"),
        ("manifest.json", b"[" * 100_000, "cannot be read: it is nested too deeply"),
    ],
    ids=["deep line", "tokens of 401 digits", "loss of 401 digits", "sites of another shape", "deep manifest"],
)
def test_a_damaged_run_is_named_and_the_others_are_compared(
    file: str, content: bytes, said: str, command: str, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def damage(folder: Path) -> None:
        if file.endswith(".jsonl"):
            with (folder / file).open("ab") as handle:
                handle.write(content + b"\n")
        else:
            (folder / file).write_bytes(content)

    code, found = after(kept, damage, command, capsys)
    check(command, code, found)
    if command == "compare":
        flat = " ".join(found.split())
        assert DAMAGED in flat
        assert said in flat


@settings(max_examples=60)
@given(choice=st.data())
def test_no_damage_of_one_run_stops_a_command(choice: st.DataObject, kept: Path, every_damage: Any) -> None:
    """A file torn, empty, binary, deep or gone, or one value in it of another kind."""
    name = choice.draw(st.sampled_from(list(every_damage)))
    command = choice.draw(st.sampled_from(list(COMMANDS)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "200")
        code, said = _run_quietly(kept, every_damage[name], command)
    check(command, code, said)


def _run_quietly(kept: Path, damage: damages.Damage, command: str) -> tuple[int, str]:
    """As `after`, for a test that Hypothesis calls many times."""
    import contextlib
    import io

    folder = kept / "runs" / "g" / DAMAGED
    shutil.rmtree(folder)
    shutil.copytree(kept / "whole", folder)
    damage(folder)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*COMMANDS[command], "--runs-dir", str(kept / "runs")])
    return code, out.getvalue() + ("" if command.endswith("--json") and code == 0 else err.getvalue())


# ---------------------------------------------------------------------- the file of a sweep


@functools.cache
def sweep_damages() -> dict[str, bytes]:
    whole = arms_document({"prenorm": [1.5, 1.6, 1.55], "block": [1.4, 1.5, 1.45]})
    assert Sweep.from_dict(whole)
    found = dict(damages.TEXTS)
    for key in whole:
        for name, value in damages.VALUES.items():
            text = json.dumps({**whole, "status": "running", key: value})
            found[f"{key}: {name}"] = text.replace('"@NaN"', "NaN").replace('"@1e999"', "1e999").encode()
    for name, value in damages.VALUES.items():
        for part in ("runs", "arms", "cells"):
            for key in whole[part][0].keys() - {"facts"}:  # each kind of sweep has its own
                text = json.dumps({**whole, part: [{**whole[part][0], key: value}, *whole[part][1:]]})
                found[f"{part}: {key}: {name}"] = text.replace('"@NaN"', "NaN").replace('"@1e999"', "1e999").encode()
    return found


@settings(max_examples=30)
@given(
    name=st.sampled_from(sorted(sweep_damages())),
    command=st.sampled_from(["show", "status", "ls", "compare", "resume"]),
)
@example(name="seeds: null", command="show")
@example(name="request: null", command="resume")
@example(name="preset: a table", command="resume")
def test_a_damaged_sweep_file_is_said_to_be_damaged(name: str, command: str, kept: Path) -> None:
    file = kept / "runs" / "g" / "sweep.json"
    file.write_bytes(sweep_damages()[name])
    words = {"ls": ("sweep", "ls"), "compare": ("compare", "g", "--no-bench")}.get(command, ("sweep", command, "g"))
    import contextlib
    import io

    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([*words, "--runs-dir", str(kept / "runs")])
    finally:
        file.unlink()
    said = out.getvalue() + err.getvalue()
    assert "fault of attnres" not in said, said
    assert code in (0, ExitCode.INPUT), said
    if command in ("ls", "compare"):
        assert code == 0, said


@pytest.mark.parametrize("content", [b"", b'{"schema": "attnres.man', b"[1]", bytes(range(256))])
def test_a_run_of_which_no_file_says_that_it_is_one_is_shown_as_damaged(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "manifest.json").write_bytes(content)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "manifest.json").write_text('{"name": "an extension of a browser"}')
    there = ["--runs-dir", str(tmp_path)]
    assert run(["runs", "ls", *there]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[3:]] == ["broken"]
    assert run(["runs", "show", "broken", *there]) == 0
    said = capsys.readouterr().out
    assert "its state cannot be read" in said
    assert "problem  The manifest of run 'broken' cannot be read: " in said
    assert run(["runs", "show", "foreign", *there]) == ExitCode.INPUT
    assert "neither a manifest.json nor a state.json of a run" in capsys.readouterr().err
    assert run(["runs", "rm", "broken", "--yes", *there]) == ExitCode.INPUT
    assert "nothing says that it is a run" in capsys.readouterr().err
    assert run(["train", "--resume", "broken", *there]) == ExitCode.INPUT
    assert "The manifest of run 'broken' cannot be read" in capsys.readouterr().err
