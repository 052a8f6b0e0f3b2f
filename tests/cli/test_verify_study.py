"""`attnres verify --study` through the real entry point: what it prints, keeps and refuses, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from attnres_cli.sweep import chain
from tests.small import small_preset

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    size = {"train.horizon_tokens": 64 * 4, "observe.observers": ["magnitudes"], "model.transformer_blocks": 1}
    Path("small.toml").write_text(small_preset(**size).to_toml())
    monkeypatch.setattr(chain, "DRAWS", 50)
    monkeypatch.setattr(chain, "SAMPLE_SECONDS", 0.01)


def test_the_chain_is_walked_kept_and_comparable(capsys: Capture) -> None:
    words = ["verify", "./small.toml", "--study", "--name", "aa", "--jobs", "1"]
    code = run([*words, "--json"])
    streams = capsys.readouterr()
    payload = json.loads(streams.out)
    assert payload["schema"] == "attnres.verify-study/1"
    links = {(link["check"], link["what"]): link for link in payload["links"]}
    failing = [key for key, link in links.items() if link["status"] == "fails"]
    assert code == (ExitCode.UNEXPECTED if failing else ExitCode.DONE)
    assert failing in ([], [("A/A", "time of a step")])  # a busy machine's clock; the rest leaves nothing to chance
    assert {check for check, _ in links} == {"repeat", "A/A", "planted", "power"}
    assert links["repeat", "largest difference"]["measured"] == 0
    assert (payload["steps"], payload["failed"]) == (4, len(failing))
    assert payload["groups"][:3] == ["aa-a", "aa-a-again", "aa-b"]
    assert "aa-a: 5 runs with seeds 0 to 4" in streams.err
    assert "repeat, largest difference: ok" in streams.err
    assert run(["compare", "aa-a", "aa-a-again", "--no-bench"]) == ExitCode.DONE
    assert "aa-a-again: equal to aa-a" in capsys.readouterr().out
    # A run that does not repeat is a link that fails, in words, with the exit code.
    chain.plant(Path("runs/aa-a-again/prenorm-s2/metrics.jsonl"), 0.5)
    assert run(words) == ExitCode.UNEXPECTED
    streams = capsys.readouterr()
    assert streams.out.startswith("The chain from preset to verdict, on small with prenorm: FAILS\n")
    assert "repeat, largest difference: the same preset and seeds, trained twice" in streams.out
    assert "runs with seeds" not in streams.err  # nothing is trained again
    assert "\x1b" not in streams.out
    assert max(map(len, streams.out.split("What fails")[0].splitlines()[3:11])) <= 80


def test_a_run_that_fails_ends_it(capsys: Capture) -> None:
    hot = ["--set", "train.learning_rate=1e30", "--set", "train.grad_clip=0"]
    assert run(["verify", "./small.toml", "--study", "--jobs", "1", *hot]) == ExitCode.UNEXPECTED
    streams = capsys.readouterr()
    assert "of verify-a diverged" in streams.err
    assert streams.out == ""
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--name", "x"], "--name and --jobs are about the runs of --study."),
        (["--jobs", "2"], "--name and --jobs are about the runs of --study."),
        (["--runs-dir", "elsewhere"], "--runs-dir says where --study --name NAME keeps its runs."),
        (["--study", "--runs-dir", "elsewhere"], "--runs-dir says where --study --name NAME keeps its runs."),
        (["--study", "--module", "mine.py:Mine"], "--study trains runs"),
        (["--study", "--example", "mine.py"], "--study trains runs"),
    ],
)
def test_options_that_would_do_nothing_are_refused(words: list[str], said: str, capsys: Capture) -> None:
    assert run(["verify", *words]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert not Path("elsewhere").exists()
    assert not Path("mine.py").exists()
