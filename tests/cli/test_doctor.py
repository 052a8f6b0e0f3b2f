"""`attnres doctor`: what it finds, what it advises, and when its exit code says that something is broken."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from attnres_cli.bench import selftest
from attnres_cli.bench.selftest import SchemeResult
from attnres_cli.cli import doctor, installation, machine
from attnres_cli.cli.app import run
from attnres_cli.cli.finding import Finding
from attnres_cli.errors import ExitCode


def only(findings: Finding | Iterator[Finding]) -> Finding:
    (found,) = [findings] if isinstance(findings, Finding) else findings
    return found


def test_healthy_machine(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selftest, "STEPS", 4)
    assert run(["doctor"]) == ExitCode.DONE
    streams = capsys.readouterr()
    for name in (
        "python",
        "packages",
        "threads",
        "waiting",
        "tokenizer",
        "presets",
        "disk",
        "prenorm",
        "attnres-block",
    ):
        assert name in streams.out
    assert "equal to those of prenorm" in streams.out
    assert "\nbroken" not in streams.out
    assert streams.out.rstrip().splitlines()[-1].startswith("Everything needed works")
    assert list(tmp_path.iterdir()) == [], "doctor leaves nothing behind"


def test_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--no-self-test", "--json"]) == ExitCode.DONE
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "attnres.doctor/1"
    assert report["broken"] == 0
    assert {"name", "status", "text", "advice"} == set(report["findings"][0])
    assert not {"prenorm", "self-test"} & {finding["name"] for finding in report["findings"]}


def test_something_broken_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    a_file = tmp_path / "file"
    a_file.touch()
    monkeypatch.setenv("ATTNRES_CACHE", str(a_file / "cache"))
    assert run(["doctor", "--no-self-test"]) == ExitCode.UNEXPECTED
    printed = capsys.readouterr().out
    assert f"broken  data cache      {a_file / 'cache'} cannot be written\n" in printed
    assert "→ ATTNRES_CACHE=FOLDER" in printed
    assert printed.endswith("Broken: data cache.\n")


def test_a_check_that_fails_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_threads() -> Finding:
        raise OSError("no such thing")

    monkeypatch.setattr(machine, "threads", no_threads)
    found = {finding.name: finding for finding in doctor.findings(Path("runs"))}
    assert found["threads"].status == "broken"
    assert "OSError: no such thing" in found["threads"].text
    assert found["disk"].status == "ok"


# ---- versions


def test_requirements_are_those_of_the_project() -> None:
    needed = dict(installation.requirements())
    assert needed["torch"] == "2.9"
    assert "pytest" not in needed


@pytest.mark.parametrize(
    ("version", "status"), [(None, "broken"), ("2.8.1+cu121", "broken"), ("2.9.0+cpu", "ok"), ("2.13", "ok")]
)
def test_version_of_a_package(version: str | None, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "requirements", lambda: [("torch", "2.9")])
    monkeypatch.setattr(installation, "package_version", lambda _: version)
    first = next(installation.packages())
    assert first.status == status
    assert (first.advice is not None) == (status == "broken")


def test_missing_tomli_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "requirements", lambda: [("tomli", "2.0")])
    monkeypatch.setattr(installation, "package_version", lambda _: None)
    assert next(installation.packages()).status == "note"


# ---- processor, threads


def test_busy_processor_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    assert machine.processor().status == "note"


def test_more_threads_than_cores_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 0.5)
    finding = machine.threads()
    assert finding.status in ("ok", "note")
    import torch

    if torch.get_num_threads() > 1:
        assert (finding.status, finding.advice) == ("note", "--set train.threads=1")
    monkeypatch.setattr(machine, "usable_cores", lambda: 10_000.0)
    assert machine.threads().status == "ok"


@pytest.mark.parametrize(("policy", "status"), [("PASSIVE", "ok"), ("ACTIVE", "note")])
def test_waiting_policy_is_what_openmp_reports(policy: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", policy)
    finding = machine.waiting()
    assert (finding.text, finding.status) == (f"OMP_WAIT_POLICY {policy}", status)


# ---- compiler, folders


def test_no_compiler_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    finding = machine.compiler()
    assert finding.status == "note"
    assert "install g++" in str(finding.advice)


@pytest.mark.parametrize(
    ("count", "said"), [(0, "works. Next"), (1, "works; 1 note. Next"), (2, "works; 2 notes. Next")]
)
def test_notes_are_counted_in_words(
    count: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "findings", lambda runs_dir: iter([Finding("waiting", "note", "it costs")] * count))
    assert run(["doctor", "--no-self-test"]) == 0
    assert f"Everything needed {said}: attnres train cpu-tiny\n" in capsys.readouterr().out


def test_caches_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tokens").write_bytes(bytes(2500))
    first = next(installation.caches())
    assert (first.status, first.text) == ("ok", f"{tmp_path} (2.5 kB in 1 file)")


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(("free", "status"), [(10**11, "ok"), (10**9, "note"), (10**7, "broken")])
def test_disk_space(free: int, status: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, free))
    assert installation.disk(tmp_path / "not" / "yet").status == status


# ---- the self-test


@pytest.mark.parametrize(
    ("last_loss", "deviation", "fault"),
    [
        (3.0, 1e-15, None),
        (3.0, None, None),
        (float("nan"), None, "the loss is nan"),
        (6.0, None, "did not fall"),
        (3.0, 0.1, "differ from those of a by 1.0e-01"),
        (3.0, float("nan"), "differ from those of a by nan"),
    ],
)
def test_fault_of_a_scheme(last_loss: float, deviation: float | None, fault: str | None) -> None:
    result = SchemeResult("b", 5.5, last_loss, 10.0, "a", deviation)
    if fault is None:
        assert result.fault is None
    else:
        assert fault in str(result.fault)


def test_self_test_notices_a_scheme_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without the final mix the head sees the newest source alone."""
    from attnres_cli.residual.depth_attention import DepthAttention

    monkeypatch.setattr(DepthAttention, "close", lambda self, state, final_norm: final_norm(state[-2]))
    monkeypatch.setattr(DepthAttention, "fused_pass", lambda self, embedding: None)
    monkeypatch.setattr(selftest, "STEPS", 1)
    monkeypatch.chdir(tmp_path)
    assert run(["doctor"]) == ExitCode.UNEXPECTED
    printed = capsys.readouterr().out
    assert "its initial logits differ from those of prenorm" in printed
    assert "broken  attnres-full" in printed
    assert "broken  attnres-block" in printed
    assert "ok      prenorm" in printed


LONG = [
    Finding("packages", "ok", ", ".join(f"package-{number} {number}.0" for number in range(30))),
    Finding("tiktoken names", "note", "cached: none; absent: " + "some_base, " * 12, "put the file there " * 8),
    Finding("a path", "broken", "/" + "x" * 200, "mend it"),
]


@pytest.mark.parametrize("columns", [80, 60])
def test_on_a_terminal_every_line_keeps_to_its_column(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr(doctor, "findings", lambda runs_dir: iter(LONG))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(["doctor", "--no-self-test"]) == ExitCode.UNEXPECTED
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= columns
    heads = [line[:24].strip() for line in lines if line[:24].strip() and not line.startswith("Broken")]
    assert heads == ["ok      packages", "note    tiktoken names", "broken  a path"]
    assert "".join(line[24:].strip() for line in lines).count("x") == 200, "nothing is cut"


def test_through_a_pipe_every_finding_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "findings", lambda runs_dir: iter(LONG))
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["doctor", "--no-self-test"]) == ExitCode.UNEXPECTED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{'ok':<8}{'packages':<16}{LONG[0].text}"
    assert lines[2].strip() == f"→ {LONG[1].advice}".strip()
