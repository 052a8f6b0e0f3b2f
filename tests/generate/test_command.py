"""`attnres generate` on tiny trained runs, through the program."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import PIPE_CLOSED, run
from attnres_cli.data.tokenizers import load_tokenizer
from attnres_cli.errors import ExitCode
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.shipped import shipped_folder
from attnres_cli.train.loop import train
from tests import forked
from tests.small import small_preset

PROSE = shipped_folder("data_samples") / "prose.txt"
TEXT_RUN = {"data.corpus": "text", "data.files": [str(PROSE)], "data.task": None, "data.length": None}
TEXT_RUN |= {"data.symbols": None, "data.documents": None, "train.checkpoint_every_steps": 10}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    """runs/ with `text` (bytes of prose, checkpoints of steps 10 and 20) and `symbols` (a synthetic corpus)."""
    root = tmp_path_factory.mktemp("trained") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNRES_CACHE", str(shared_cache))
        block = small_preset({"scheme": "attnres-block", "num_blocks": 2})
        train(block.replace(TEXT_RUN), RunDirectory.create(root, "text", "text"))
        train(small_preset(), RunDirectory.create(root, "symbols", "symbols"))
    return root


@pytest.fixture
def runs(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the runs in the current folder, for tests that change them."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def in_their_folder(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained.parent)


def out(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["generate", *words]) == ExitCode.DONE, capsys.readouterr().err
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(out(capsys, *words, "--json"))
    return document


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: ExitCode = ExitCode.INPUT) -> str:
    assert run(["generate", *words]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


# ---- the result


def test_stdout_is_the_continuation_and_stderr_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "text", "--prompt", "The", "--tokens", "12"]) == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.out.endswith("\n")
    assert 0 < len(captured.out.removesuffix("\n")) <= 12
    assert re.fullmatch(
        r"text, step 20, cpu: prefill 3 tokens in [\d.]+ s( \([\d,]+ tokens/s\))?, "
        r"decode 11 tokens in [\d.]+ s( \([\d,]+ tokens/s\))?\n",
        captured.err,
    )


def test_json_holds_text_token_ids_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "text", "--prompt", "The é", "--tokens", "30", "--top-k", "50", "--top-p", "0.9", "--seed", "5")
    found = as_json(
        capsys, "text", "--prompt", "The é", "--tokens", "30", "--top-k", "50", "--top-p", "0.9", "--seed", "5"
    )
    assert found["schema"] == "attnres.generate/1"
    assert (found["run"], found["step"], found["device"]) == ("text", 20, "cpu")
    assert found["settings"] == {
        "tokens": 30, "samples": 1, "temperature": 0.8, "top_k": 50, "top_p": 0.9, "seed": 5,
    }  # fmt: skip
    assert found["prompt"]["text"] == "The é"
    assert found["prompt"]["token_ids"] == list("The é".encode())
    assert found["prompt"]["seconds"] > 0
    [completion] = found["completions"]
    assert len(completion["token_ids"]) == 30
    assert completion["ended_by"] == "tokens"
    assert completion["text"] == load_tokenizer("bytes").decode(completion["token_ids"])
    assert completion["text"] == text or completion["text"] + "\n" == text
    assert completion["seconds"] > 0


def test_a_seed_names_the_text_and_a_sample_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    def texts(seed: int, samples: int) -> list[str]:
        found = as_json(
            capsys, "text", "--prompt", "A", "--tokens", "40", "--seed", str(seed), "--samples", str(samples)
        )
        return [completion["text"] for completion in found["completions"]]

    three = texts(1, 3)
    assert len(set(three)) == 3
    assert texts(1, 3) == three
    assert texts(1, 1) == three[:1]
    assert texts(2, 1) != three[:1]


def test_samples_as_text_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    lines = out(capsys, "text", "--prompt", "A", "--tokens", "5", "--samples", "2").splitlines()
    assert lines.index("--- sample 1 of 2 ---") == 0
    assert "--- sample 2 of 2 ---" in lines


def test_greedy_text_needs_no_seed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("text", "--prompt", "A", "--tokens", "30", "--temperature", "0")
    assert out(capsys, *words, "--seed", "1") == out(capsys, *words, "--seed", "2", "--top-k", "1")


def test_without_a_prompt_a_document_begins(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "text", "--tokens", "5")
    assert found["prompt"]["text"] == ""
    assert found["prompt"]["token_ids"] == [load_tokenizer("bytes").end_of_text]


def test_weights_of_an_earlier_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("text", "--prompt", "A", "--tokens", "20", "--temperature", "2")
    first, last = (as_json(capsys, *words, "--checkpoint", step) for step in ("10", "20"))
    assert (first["step"], last["step"]) == (10, 20)
    assert first["completions"][0]["text"] != last["completions"][0]["text"]
    assert as_json(capsys, *words)["completions"][0]["text"] == last["completions"][0]["text"]


def test_a_synthetic_corpus_is_prompted_in_its_own_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "symbols", "--prompt", "^ 1 2 3 4 5 6 7 ?", "--tokens", "7")
    assert len(text.split()) == 7
    assert all(re.fullmatch(r"\d+|[.^?]", word) for word in text.split())
    assert "'x' is no token of this corpus" in refused(capsys, "symbols", "--prompt", "^ x")
    assert "There is no prompt" in refused(capsys, "symbols", "--tokens", "5")


def test_beyond_the_context_it_goes_on_and_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "text", "--prompt", "A" * 10, "--tokens", "6"]) == ExitCode.DONE
    assert "note" not in capsys.readouterr().err
    assert run(["generate", "text", "--prompt", "A" * 10, "--tokens", "50", "--json"]) == ExitCode.DONE
    captured = capsys.readouterr()
    assert (
        "note: the model sees 16 tokens at once; when they are full, it goes on from the newer half\n" in captured.err
    )
    assert len(json.loads(captured.out)["completions"][0]["token_ids"]) == 50


def test_a_terminal_is_not_at_the_mercy_of_the_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At this temperature all bytes are about equally likely, escape sequences among them."""
    words = ("text", "--tokens", "60", "--temperature", "100", "--seed", "3")
    raw = as_json(capsys, *words)["completions"][0]["text"]
    assert "\x1b" in raw
    assert out(capsys, *words).removesuffix("\n") == raw.removesuffix("\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = out(capsys, *words)
    assert all(character.isprintable() or character in "\n\t" for character in shown)
    assert "\\x1b" in shown


# ---- pipes


def test_a_pipe_gets_utf_8_and_gives_the_prompt(trained: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_bytes("Grüße\r\n".encode())
    words = ("generate", "text", "--tokens", "40", "--temperature", "100", "--json")
    texts = []
    for file, given in ((str(prompt), b""), ("-", "Grüße\n".encode())):
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with forked.start(*words, "--prompt-file", file, cwd=trained.parent, **streams) as process:
            stdout, stderr = process.communicate(given, timeout=300)
        assert process.returncode == ExitCode.DONE, stderr
        found = json.loads(stdout.decode("utf-8"))
        assert found["prompt"]["text"] == "Grüße"
        texts.append(found["completions"][0]["text"])
    assert texts[0] == texts[1]


def test_text_is_written_as_it_is_produced_until_nobody_reads(trained: Path) -> None:
    endless = ("generate", "text", "--prompt", "A", "--tokens", "1000000")
    with forked.start(*endless, cwd=trained.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1 << 16)
        assert 0 < len(first) < 4096  # less than a buffer
        assert process.poll() is None
        process.stdout.close()
        assert process.wait(timeout=300) == PIPE_CLOSED


# ---- mistakes


def test_an_unknown_run_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "texd", "--prompt", "A")
    assert "There is no run 'texd'" in said
    assert "nearest: text" in said


def test_a_run_without_weights(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(runs / "text" / "checkpoints")
    assert "Run 'text' has no weights: it has no checkpoint." in refused(capsys, "text", "--prompt", "A")


def test_an_absent_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "text", "--prompt", "A", "--checkpoint", "11")
    assert "Run 'text' has no checkpoint of step 11." in said
    assert "expected: 10 or 20" in said


def test_damaged_weights(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = runs / "text" / "checkpoints" / "step-000020" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\0\1")
    assert "damaged: model.safetensors" in refused(capsys, "text", "--prompt", "A")


def test_an_optimiser_that_was_removed_is_not_missed(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "text" / "checkpoints" / "step-000020" / "optimizer.safetensors").unlink()
    assert out(capsys, "text", "--prompt", "A", "--tokens", "3")


def test_a_prompt_longer_than_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "text", "--prompt", "A" * 17)
    assert "The prompt has 17 tokens, and the model sees 16 at once." in said
    assert "expected: at most 16 tokens (model.context_tokens)" in said


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        (("--prompt", "A", "--prompt-file", "b"), "--prompt and --prompt-file exclude each other", ExitCode.USAGE),
        (("--prompt-file", "absent.txt"), "The prompt can't be read: No such file", ExitCode.INPUT),
        (("--prompt", "\udcff"), "The prompt is not UTF-8 at offset 0", ExitCode.INPUT),
        (("--top-p", "0"), "0.0 is no value for --top-p", ExitCode.USAGE),
        (("--top-p", "2"), "2.0 is no value for --top-p", ExitCode.USAGE),
        (("--top-k", "0"), "--top-k", ExitCode.USAGE),
        (("--temperature", "-1"), "--temperature", ExitCode.USAGE),
        (("--tokens", "0"), "--tokens", ExitCode.USAGE),
        (("--device", "tpu"), "'tpu' is no device to compute on", ExitCode.INPUT),
        (("--device", "cuda:99"), "'cuda:99' is not among them", ExitCode.INPUT),
    ],
)
def test_options_that_cannot_be(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str, code: ExitCode
) -> None:
    said = refused(capsys, "text", *words, code=code)
    assert sentence in said
    if "--device" in words:
        assert "where: --device" in said


def test_a_prompt_file_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "prompt.bin"
    path.write_bytes(b"ab\xff")
    said = refused(capsys, "text", "--prompt-file", str(path))
    assert "The prompt is not UTF-8 at offset 2." in said
    assert str(path) in said


def test_a_run_elsewhere(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert out(capsys, "text", "--runs-dir", str(trained), "--prompt", "A", "--tokens", "3")
    assert out(capsys, str(trained / "text"), "--prompt", "A", "--tokens", "3")


# ---- the shell


def test_completion_of_run_names(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    completing = {"_ATTNRES_COMPLETE": "complete_bash", "COMP_WORDS": "attnres generate te", "COMP_CWORD": "2"}
    for name, value in completing.items():
        monkeypatch.setenv(name, value)
    with forked.start(cwd=trained.parent, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate(timeout=300)
    assert said.split() == ["text"]
