"""What a shell is offered, by the protocol that its completion script speaks."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from tests.cli.starting import ROOT, SLOW, call, loaded_by

Complete = Callable[[str, str, Path], list[str]]


def protocol(line: str, shell: str) -> dict[str, str]:
    """The variables by which the completion script of `shell` asks."""
    words = line.split(" ")
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    return {"_ATTNRES_COMPLETE": f"complete_{shell}", **asked}


def offers(stdout: str) -> list[str]:
    return [row.split("\t")[0].strip("\"'() ") for row in stdout.splitlines() if row]


@pytest.fixture
def complete(capsys: pytest.CaptureFixture[str]) -> Complete:
    """What a shell is offered for a line in a folder; the program is run in this process."""

    def offered(line: str, shell: str, folder: Path) -> list[str]:
        out, err = answered(capsys, folder, **protocol(line, shell))
        assert err == ""
        return offers(out)

    return offered


def answered(capsys: pytest.CaptureFixture[str], folder: Path, **environment: str) -> tuple[str, str]:
    """(stdout, stderr) of the program that was asked for completions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in environment.items():
            patch.setenv(name, value)
        assert run([]) == ExitCode.DONE
    streams = capsys.readouterr()
    return streams.out, streams.err


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a preset, an overlay and runs of its own."""
    for folder in (
        "presets/overlays",
        "runs/alpha-1",
        "runs/alpha-2",
        "runs/beta",
        "elsewhere/gamma",
        "runs/group/inner",
    ):
        (tmp_path / folder).mkdir(parents=True)
    for run_folder in ("runs/alpha-1", "runs/alpha-2", "runs/beta", "runs/group/inner", "elsewhere/gamma"):
        (tmp_path / run_folder / "manifest.json").write_text("{}")
    (tmp_path / "presets" / "mine.toml").write_text("")
    (tmp_path / "presets" / "overlays" / "quick.toml").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("attnres comp", ["compare"]),
        ("attnres train mi", ["mine"]),
        ("attnres train cpu-t", ["cpu-tiny"]),
        ("attnres train mine --residual pre", ["prenorm"]),
        ("attnres train mine --overlay qui", ["quick"]),
        ("attnres train mine --overl", ["--overlay"]),
        ("attnres train mine --device c", ["cpu", "cuda"]),
        ("attnres plan mi", ["mine"]),
        ("attnres presets sh", ["show"]),
        ("attnres presets show mi", ["mine"]),
        ("attnres compare al", ["alpha-1", "alpha-2"]),
        ("attnres compare alpha-1 be", ["beta"]),
        ("attnres compare gr", ["group", "group/inner"]),
        ("attnres compare --runs-dir elsewhere g", ["gamma"]),
        ("attnres runs show be", ["beta"]),
        ("attnres no-such-command x", []),
    ],
)
def test_completion(line: str, offered: list[str], project: Path, complete: Complete) -> None:
    assert complete(line, "bash", project) == offered


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tr", ["train."]),
        ("train.se", ["train.seed="]),
        ("residual.num", ["residual.num_blocks="]),
        ("data.field", ["data.field="]),
        ("train.sch", ["train.schedule=cosine", "train.schedule=wsd"]),
        ("train.schedule=", ["train.schedule=cosine", "train.schedule=wsd"]),
        ("train.schedule=w", ["train.schedule=wsd"]),
        ("model.tie_embeddings=f", ["model.tie_embeddings=false"]),
        ("model.mixer=", ["model.mixer=attention"]),
        ("residual.scheme=attnres-b", ["residual.scheme=attnres-block"]),
        ("train.seed=", []),
        ("train.no_such_key=", []),
        ("nonsense", []),
    ],
)
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_of_set(typed: str, offered: list[str], shell: str, project: Path, complete: Complete) -> None:
    found = complete(f"attnres train mine --set {typed}", shell, project)
    if typed == "tr":
        assert len(found) > 10
        assert all("train." in name for name in found)
    else:
        assert [name for name in offered if any(name in row for row in found)] == offered
        assert bool(set(found) - {"_files"}) == bool(offered)  # zsh falls back on files


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["--set", "train.sch"], ["train.schedule=cosine", "train.schedule=wsd"]),
        (["--set", "train.schedule", "="], ["cosine", "wsd"]),
        (["--set", "train.schedule", "=", "w"], ["wsd"]),
        (["--set", "train.schedule=w"], ["train.schedule=wsd"]),  # where the user has taken "=" off COMP_WORDBREAKS
        (["--set", "train.schedule", "=", "wsd", "--set", "model.mixer", "=", "at"], ["attention"]),
        (["--set", "train.schedule", "=", "wsd", "--overlay", "qui"], ["quick"]),
    ],
)
def test_bash_breaks_words_at_the_equals_sign(
    words: list[str], offered: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["attnres", "train", "mine", *words]
    out, err = answered(
        capsys,
        project,
        _ATTNRES_COMPLETE="complete_bash",
        COMP_WORDS="\n".join(line),
        COMP_CWORD=str(len(line) - 1),
    )
    assert (out.split(), err) == (offered, "")


def test_bash_itself_completes_keys_and_values(project: Path) -> None:
    """Through the function that the completion script defines, with the words as bash breaks them."""
    (project / "bin").mkdir()
    program = project / "bin" / "attnres"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m attnres_cli "$@"\n')
    program.chmod(0o755)
    script = call("--show-completion", "bash").stdout
    function = script.split("()")[0].strip()
    line = f'PATH="{project}/bin:$PATH"\n{script}\ncompopt() {{ echo compopt "$@"; }}\n'
    for words in (["--set", "train.see"], ["--set", "train.schedule", "=", "w"]):
        quoted = " ".join(shlex.quote(word) for word in ["attnres", "train", "mine", *words])
        line += f"COMP_WORDS=({quoted}); COMP_CWORD={2 + len(words)}; {function} attnres; echo ${{COMPREPLY[@]}}\n"
    done = subprocess.run(["bash", "-c", line], cwd=project, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["compopt -o nospace", "train.seed=", "wsd"], done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_in_every_shell(shell: str, project: Path) -> None:
    """As the shell does it, in a process of its own."""
    done = call(cwd=project, **protocol("attnres compare alpha", shell))
    assert (done.returncode, done.stderr) == (0, "")
    offered = offers(done.stdout)
    assert [name for name in ("alpha-1", "alpha-2") if any(name in row for row in offered)] == ["alpha-1", "alpha-2"]


def test_completion_without_a_runs_folder_is_silent(tmp_path: Path, complete: Complete) -> None:
    assert complete("attnres compare x", "bash", tmp_path) == []


@pytest.mark.parametrize(
    "line",
    ["attnres tr", "attnres train m", "attnres compare a", "attnres train m --residual p", "attnres train m --set t"],
)
def test_completion_loads_no_slow_library(line: str, project: Path) -> None:
    words = line.split(" ")
    modules = loaded_by(cwd=project, _ATTNRES_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert not modules.intersection((*SLOW, "pydantic"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--show-completion", shell]) == ExitCode.DONE
    script = capsys.readouterr().out
    assert "_ATTNRES_COMPLETE" in script
    assert f"complete_{shell}" in script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_in_the_home_folder(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["--install-completion", shell]) == ExitCode.DONE
    said = capsys.readouterr().out
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(f"complete_{shell}" in path.read_text() for path in written)
    assert any(str(path) in said for path in written)
    assert any("compopt -o nospace" in path.read_text() for path in written) == (shell == "bash")


def test_completion_of_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--show-completion", "fsh"]) == ExitCode.USAGE
    assert "nearest: fish" in capsys.readouterr().err


def test_completion_without_a_shell_takes_the_current_one() -> None:
    """The shell is the nearest one above the program in the tree of processes: here bash, whatever runs the tests."""
    line = f"{shlex.quote(sys.executable)} -m attnres_cli --show-completion; exit $?"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "_ATTNRES_COMPLETE" in done.stdout
