"""`attnres compare` with groups through the real entry point."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from attnres_cli.runs.directory import RunDirectory
from tests.cli.starting import on_a_terminal
from tests.fabricated_runs import FULL_SCHEME, fabricate, fabricate_arm
from tests.report.groups import BASE, BLOCK, NOT_SHOWN, baseline, block, end, planned_by_a_study
from tests.small import small_preset

# So small that a whole training step of it takes milliseconds.
TINY = {
    "model.transformer_blocks": 1, "model.d_model": 16, "model.num_heads": 2, "model.num_kv_heads": 2, "model.d_ff": 32,
    "model.context_tokens": 16, "train.tokens_per_step": 32, "train.micro_batch_sequences": 1,
}  # fmt: skip
CONDITION = "attnres-block.loss > baseline.loss + 0.01"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs"
    baseline(root / "study")
    block(root / "study")
    return root


def compare(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What the command prints on stdout; it has to end with this code."""
    ended = run(["compare", *words, "--no-bench"])
    captured = capsys.readouterr()
    assert ended == code, captured.err
    return captured.out


def compare_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(compare(capsys, *words, "--json", code=code))
    return document


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run(["compare", *words, "--no-bench"])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return code, captured.err


# ------------------------------------------------------------------ what is compared


@pytest.mark.parametrize("words", [("study",), ("study/*",), ("runs/study",), (f"study/{BASE}*", f"study/{BLOCK}*")])
def test_a_group_is_paired_by_seed(root: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    text = compare(capsys, *words)
    assert text.startswith(f"Comparing 2 arms of 10 runs, paired by seed; the baseline is {BASE}\n")
    assert f"{BLOCK}: shown to be better than {BASE}: -0.0526 nats" in text


def test_runs_that_are_named_one_by_one_are_paired_by_seed_too(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"study/{name}-s{seed}" for name in (BASE, BLOCK) for seed in range(3)]
    assert compare_json(capsys, *names)["verdicts"][0]["seeds"] == [0, 1, 2]


def test_two_single_runs_keep_their_letters(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = compare_json(capsys, f"study/{BASE}-s0", f"study/{BLOCK}-s0")
    assert (document["paired_by_seed"], document["baseline"]) == (False, "A")
    assert document["verdicts"][0]["outcome"] == "lower"
    assert [run["label"] for run in document["runs"]] == ["A", "B"]


def test_groups_and_single_runs_mix(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabricate_arm(root, "more", residual=FULL_SCHEME, better_by=[0.1, 0.1, 0.1])
    document = compare_json(capsys, "study", "more-s0", "more-s1", "more-s2")
    assert [(verdict["arm"], len(verdict["seeds"])) for verdict in document["verdicts"]] == [
        (BLOCK, 5),
        ("attnres-full", 3),
    ]


def test_two_groups_of_one_scheme_are_compared_with_each_other(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline(root / "old", 3)
    baseline(root / "new", 3)
    document = compare_json(capsys, "old", "new")
    assert (document["baseline"], document["verdicts"][0]["arm"]) == ("old", "new")
    assert document["verdicts"][0]["outcome"] == "equal"
    assert [each["label"] for each in document["runs"]] == [
        f"{name}/{BASE}-s{n}" for name in ("old", "new") for n in range(3)
    ]
    (root / "new" / f"{BASE}-s1" / "state.json").write_text("{")
    assert f"new/{BASE}-s1: its state cannot be read" in compare(capsys, "old", "new")


@pytest.mark.parametrize("name", [BLOCK, f"study/{BLOCK}-s3"])
def test_the_baseline_is_an_arm_or_a_run_of_it(root: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    document = compare_json(capsys, "study", "--baseline", name)
    assert (document["baseline"], document["verdicts"][0]["outcome"]) == (BLOCK, "worse")


def test_a_broken_run_in_a_group_is_named_and_the_others_compared(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in ("manifest.json", "state.json"):
        (root / "study" / f"{BLOCK}-s2" / file).write_text("{")
    text = compare(capsys, "study")
    assert f"set aside: {BLOCK}-s2: it cannot be read" in text
    assert f"{BLOCK}-s2: The manifest of run '{BLOCK}-s2' cannot be read" in text
    assert f"without a partner: {BASE}-s2: {BLOCK} has no run with seed 2" in text
    assert f"{BLOCK}: shown to be better" in text


def test_an_arm_of_broken_runs_alone_leaves_the_other_arm(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(5):
        (root / "study" / f"{BLOCK}-s{seed}" / "manifest.json").write_text("{")
    document = compare_json(capsys, "study")
    assert [arm["label"] for arm in document["arms"]] == [BASE]
    assert sum(each["set_aside"] is not None for each in document["runs"]) == 5
    assert document["verdicts"] == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("only",), ExitCode.USAGE, "at least two arms; these 3 runs are all prenorm"),
        (("study/nothing*",), ExitCode.INPUT, "No run fits 'study/nothing*'"),
        (("studdy",), ExitCode.INPUT, "There is no run 'studdy'"),
        (("study", "--baseline", "attnres-blok"), ExitCode.INPUT, "nearest: attnres-block"),
        (("study", "--equivalent-within", "0"), ExitCode.USAGE, "0.0 is no margin"),
        (("study", "--equivalent-within", "nan"), ExitCode.USAGE, "nan is no margin"),
        (("study", "--fail-on", "attnres-block.loss"), ExitCode.USAGE, "ends too early"),
        (("study", "--fail-on", "attnres-blok.loss > 1"), ExitCode.USAGE, "nearest: attnres-block"),
        (("study", "--fail-on", "attnres-block.los > 1"), ExitCode.USAGE, "nearest: loss"),
    ],
)
def test_wrong_arguments(
    root: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: ExitCode, says: str
) -> None:
    baseline(root / "only", 3)
    found, said = refused(capsys, *words)
    assert found == code
    assert says in said


# ------------------------------------------------------------------ demands


def test_a_condition_that_does_not_hold_passes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = compare(capsys, "study", "--fail-on", CONDITION)
    assert "--fail-on: 0 of 1 conditions hold" in text
    means = [
        fmean(end(RunDirectory(root / "study" / f"{name}-s{seed}")) for seed in range(5)) for name in (BLOCK, BASE)
    ]
    assert f"{CONDITION}: {means[0]:.6g} > {means[1] + 0.01:.6g} is false" in text


def test_a_condition_that_holds_exits_6_with_its_numbers(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    holds = "attnres-block.delta < -0.05"
    text = compare(capsys, "study", "--fail-on", CONDITION, "--fail-on", holds, code=ExitCode.THRESHOLD)
    assert "--fail-on: 1 of 2 conditions hold" in text
    assert f"{holds}: -0.0525976 < -0.05 is true" in text
    document = compare_json(capsys, "study", "--fail-on", holds, code=ExitCode.THRESHOLD)
    assert document["conditions"] == [{"text": holds, "holds": True, "said": f"{holds}: -0.0525976 < -0.05 is true"}]


@pytest.mark.parametrize("words", [("--json",), ("--table", "loss"), ("-o", "out.txt"), ("--format", "csv")])
def test_what_is_not_met_is_said_wherever_the_result_goes(
    root: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code = run(["compare", "study", "--no-bench", "--fail-on", "attnres-block.n == 5", *words])
    assert code == ExitCode.THRESHOLD
    assert "attnres-block.n == 5: 5 == 5 is true" in capsys.readouterr().err


def test_a_figure_that_is_not_known_never_passes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["compare", "study", "--no-bench", "--fail-on", "attnres-block.step_ratio > 2"])
    captured = capsys.readouterr()
    assert code == ExitCode.INPUT
    assert "attnres-block.step_ratio is not known" in captured.err
    assert "Verdict" in captured.out, "the comparison is shown all the same"


def test_equivalence(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block(root / "close", NOT_SHOWN)
    baseline(root / "close")
    text = compare(capsys, "close", "--equivalent-within", "0.03")
    assert "--equivalent-within: shown for 1 of 1 arms" in text
    assert f"{BLOCK}: equivalent within 0.0300 nats of {BASE} (90 % interval -0.0146 to +0.0122, 5 pairs, p" in text
    text = compare(capsys, "close", "--equivalent-within", "0.005", code=ExitCode.THRESHOLD)
    assert f"{BLOCK}: not shown to be within 0.0050 nats of {BASE}" in text


def test_conditions_work_on_single_runs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (f"study/{BASE}-s0", f"study/{BLOCK}-s0", "--fail-on")
    compare(capsys, *words, CONDITION)
    compare(capsys, *words, "B.delta < 0", code=ExitCode.THRESHOLD)


# ------------------------------------------------------------------ studies, tunes


def test_a_study_is_named_with_its_verdict_and_what_is_beyond_it(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = root / "study"
    runs = [RunDirectory(folder / f"{name}-s{seed}") for name in (BASE, BLOCK) for seed in range(5)]
    hash_ = planned_by_a_study(folder, runs, seeds=range(3), tuning=(7, 7))
    text = compare(capsys, "study")
    assert f"Runs of study first (plan {hash_[:12]})." in text
    assert "seed 3 is not in the plan" in text
    document = compare_json(capsys, "study")
    assert document["studies"] == [{"name": "first", "hash": hash_}]
    assert document["verdicts"][0]["exploratory"] is True
    planned = compare_json(capsys, *(f"study/*-s{seed}" for seed in range(3)))
    assert (planned["verdicts"][0]["outcome"], planned["verdicts"][0]["exploratory"]) == ("better", False)
    assert [arm["tuning_runs"] for arm in planned["arms"]] == [7, 7]
    alone = compare_json(capsys, f"study/{BASE}-s4", f"study/{BLOCK}-s4")
    assert alone["verdicts"][0]["exploratory"] is True


def test_a_study_that_was_trained_is_read_by_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not by one that a test wrote: the names of the fields are the engine's."""
    monkeypatch.chdir(tmp_path)
    size: dict[str, Any] = {
        "model.transformer_blocks": 1, "train.horizon_tokens": 64 * 2, "train.micro_batch_sequences": 4,
        "data.documents": 100, "observe.observers": ["magnitudes"], "eval.every_steps": 0,
    }  # fmt: skip
    Path("small.toml").write_text(small_preset(**size).to_toml())
    words = ["study", "new", "./small.toml", "--arms", f"{BASE},attnres-full", "--seeds", "3", "--name", "s", "--json"]
    assert run(words) == 0
    frozen = json.loads(capsys.readouterr().out)
    assert run(["study", "run", "s", "--jobs", "1"]) == 0
    capsys.readouterr()
    document = compare_json(capsys, "s")
    assert document["studies"] == [{"name": "s", "hash": frozen["hash"]}]
    assert [(each["pairs"], each["arm"]) for each in document["tables"]["verdict"]["rows"]] == [(3, "attnres-full")]
    assert document["verdicts"][0]["exploratory"] is False
    assert [arm["tuning_runs"] for arm in document["arms"]] == [0, 0]
    assert any("no arm is tuned" in note for note in document["tables"]["verdict"]["notes"])
    assert run(["study", "run", "s", "--jobs", "1", "--seeds", "4"]) == 0
    capsys.readouterr()
    verdict = compare_json(capsys, "s")["verdicts"][0]
    assert (len(verdict["seeds"]), verdict["exploratory"]) == (4, True)
    assert "seed 3 is not in the plan" in verdict["exploratory_because"][0]


@pytest.mark.parametrize("words", [("study",), ("study/*",), (f"study/{BASE}-s0", f"study/{BLOCK}-s0")])
def test_the_runs_of_a_tune_give_no_verdict(
    root: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    (root / "study" / "sweep.json").write_text('{"kind": "tune"}')
    text = compare(capsys, *words)
    assert "NO VERDICT" in text
    assert "these runs chose learning rates; no verdict rests on them" in text
    assert "shown to be" not in text
    compare(capsys, *words, "--equivalent-within", "1", code=ExitCode.THRESHOLD)


# ------------------------------------------------------------------ the bench, the terminal


def test_one_run_of_each_arm_is_timed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline(root / "tiny", 3, change=TINY)
    block(root / "tiny", [0.3] * 3, change=TINY, residual={"scheme": BLOCK, "num_blocks": 1, "query_lr_factor": 1.0})
    words = ["compare", "tiny", "--json", "--fail-on", f"{BLOCK}.step_ratio <= 0"]
    assert run(words) == 0
    captured = capsys.readouterr()
    assert "timing the runs' training steps in turn" in captured.err
    document = json.loads(captured.out)
    assert len(document["bench"]["arms"]) == 2
    rows = document["tables"]["cost"]["rows"]
    assert [row["run"] for row in rows] == [BASE, BLOCK]
    assert all(row["step_seconds"] > 0 for row in rows)
    seconds = [each for each in document["verdicts"][0]["at_equal"] if each["budget"] == "seconds"]
    ratio = document["bench"]["arms"][1]["derived"]["wall_ratio"]
    assert seconds[0]["cost"] == [ratio["low"], ratio["high"]]


def test_on_a_terminal_nothing_is_wider_than_it(root: Path) -> None:
    text = on_a_terminal(root.parent, "compare", "study", "--no-bench", NO_COLOR="1")
    assert max(map(len, text.splitlines())) <= 80
    assert "shown to be better" in text
    assert "•" in text


@pytest.mark.parametrize("name", ["[bold]", "<script>", "=cmd|calc", "ünï 名前"])
@pytest.mark.parametrize("format_name", ["table", "markdown", "csv", "json"])
def test_a_name_is_just_a_name(root: Path, capsys: pytest.CaptureFixture[str], name: str, format_name: str) -> None:
    fabricate(root / "study", name, change={"train.horizon_tokens": 1024})
    text = compare(capsys, "study", "--format", format_name)
    if format_name == "markdown":
        assert "<script>" not in text
    elif format_name != "csv":  # remarks are no rows
        assert name in text
