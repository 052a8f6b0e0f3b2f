"""`attnres tune` through the program's entry point, with trainings of a fraction of a second."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.preset.reading import load_preset
from attnres_cli.runs.lookup import find_run
from attnres_cli.sweep.results import SweepDirectory
from attnres_cli.sweep.tuned_overlays import Mark, overlay_path, read_mark
from tests.cli.made_once import Made, made
from tests.small import small_preset

TUNE = ["--residual", "prenorm", "--residual", "attnres-full", "--jobs", "1", "--name", "t", "--points", "3"]
ALL = ["tune", "./small.toml", *TUNE]
# The best of four steps is this rate or one beside it, and by far better than its half and its double.
SIZE: dict[str, Any] = {
    "model.transformer_blocks": 1, "train.horizon_tokens": 64 * 4, "train.micro_batch_sequences": 4,
    "train.learning_rate": 0.04, "observe.observers": ["magnitudes"], "eval.every_steps": 0,
}  # fmt: skip
# So low a rate that a higher one is better throughout.
LOW = ["--set", "train.learning_rate=0.005"]


def write_presets(folder: Path) -> None:
    (folder / "small.toml").write_text(small_preset(**SIZE).to_toml())
    hot = small_preset(**{**SIZE, "train.learning_rate": 1e30, "train.grad_clip": 0.0})
    (folder / "hot.toml").write_text(hot.to_toml())


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_presets(tmp_path)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Made:
    """The tune that most tests here are about."""
    folder = tmp_path_factory.mktemp("tune")
    write_presets(folder)
    return made([*ALL, "--json"], folder, shared_cache)


@pytest.fixture
def finished(once: Made, tmp_path: Path) -> Made:
    """That tune, in the working folder."""
    once.copy_to(tmp_path)
    return once


def printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def tuned(document: dict[str, Any], arm: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in document["tuned"] if each["arm"] == arm)
    return found


def by_rate(document: dict[str, Any], arm: str) -> dict[float, float]:
    return {row["changes"]["train.learning_rate"]: row["loss"] for row in document["runs"] if row["arm"] == arm}


def test_a_dry_run_prices_every_stage_and_trains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "./small.toml", *TUNE, "--horizon-fraction", "0.5", "--weight-decay", "--query-lr-factor"]
    assert run([*words, "--seeds", "2", "--dry-run", "--json"]) == 0
    plan = printed_json(capsys)
    trials = 3 + 2 + 2 + 2 + 3
    assert plan["price"]["runs"] == 2 * 2 * trials
    assert plan["price"]["tokens"] == 2 * 2 * ((trials - 3) * 128 + 3 * 256)
    assert plan["price"]["minutes"] > 0
    assert {row["seed"] for row in plan["runs"]} == {1000, 1001}
    for row in plan["tables"]["plan"]["rows"]:
        assert row["trials"] == trials
    assert not Path("runs").exists()
    assert not Path("presets").exists()


def test_every_arm_is_searched_coarse_to_fine_and_the_best_is_the_lowest(finished: Made) -> None:
    document = json.loads(finished.out)
    base = load_preset("./small.toml").train.learning_rate
    for arm in ("prenorm", "attnres-full"):
        losses = by_rate(document, arm)
        assert len(losses) == 5
        for rate, loss in losses.items():  # every number is that of a run
            folder = next(row["folder"] for row in document["runs"]
                          if row["arm"] == arm and row["changes"]["train.learning_rate"] == rate)  # fmt: skip
            record = find_run(f"t/{folder}", Path("runs"))
            assert record.evaluations()[-1]["loss"] == loss
            assert (record.manifest()["seed"], record.resolved()["train"]["learning_rate"]) == (1000, rate)
        coarse = {factor: losses[float(f"{base * factor:.4g}")] for factor in (0.5, 1, 2)}
        winner = min(coarse, key=lambda factor: coarse[factor])
        fine = {float(f"{base * winner * factor:.4g}") for factor in (2**-0.5, 2**0.5)}
        assert losses.keys() == fine | {float(f"{base * factor:.4g}") for factor in coarse}
        facts = tuned(document, arm)
        assert (facts["best"]["learning_rate"], facts["loss"]) == min(losses.items(), key=lambda item: item[1])
        assert facts["common_loss"] == losses[base]
        at_edge = facts["best"]["learning_rate"] in (min(losses), max(losses))
        assert facts["is_tuned"] is not at_edge
        assert overlay_path("small", arm).exists() is not at_edge
    assert finished.code == (0 if all(each["is_tuned"] for each in document["tuned"]) else 6)


def test_an_optimum_at_the_edge_is_not_tuned_and_widening_trains_only_what_is_new(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*ALL, *LOW]) == 6
    said = capsys.readouterr().out
    assert "prenorm: not tuned: its lowest loss is at the highest learning rate tried, 0.01414" in said
    assert "--name t --points 5" in said
    assert not Path("presets").exists()
    stamps = {path: path.stat().st_mtime_ns for path in Path("runs/t").glob("*/metrics.jsonl")}
    assert run([*ALL, *LOW, "--points", "5", "--json"]) == 6
    wider = by_rate(printed_json(capsys), "prenorm")
    assert max(wider) == pytest.approx(0.005 * 4 * 2**0.5, rel=1e-3)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_the_overlay_says_every_trial_and_is_the_arm_at_its_rate(
    finished: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finished.code == 0
    document = SweepDirectory(Path("runs/t")).document()
    losses = by_rate(document, "prenorm")
    best = min(losses, key=lambda rate: losses[rate])
    assert best not in (min(losses), max(losses))
    path = overlay_path("small", "prenorm")
    assert f"wrote {path}" in finished.err
    text = path.read_text()
    for rate, loss in losses.items():
        assert f"#   {rate:g}, 256 tokens: {loss:.4f}" in text
    assert read_mark(path) == Mark("t", "small", document["preset"]["digest"], "prenorm", 5, 1, 256)
    assert tomllib.loads(text)["train"] == {"learning_rate": best, "tuning_seeds": [1000]}
    # Whoever trains the seed that chose the rate hears that nothing rests on it.
    for seed, is_told in ((1000, True), (0, False)):
        one_step = ["train", "./small.toml", "--overlay", "tuned-small-prenorm", "--steps", "1"]
        assert run([*one_step, "--seed", str(seed)]) == 0
        assert (f"seed {seed} chose values of this preset" in capsys.readouterr().err) is is_told
    # `--overlay` finds it, and it is the arm at its rate.
    put_on = load_preset("./small.toml", overlays=["tuned-small-attnres-full"])
    plain = load_preset("./small.toml", residual="attnres-full")
    assert put_on.residual == plain.residual
    rate = put_on.train.learning_rate
    assert put_on == plain.replace({"train.learning_rate": rate, "train.tuning_seeds": [1000]})
    # The same command again trains nothing and says the same.
    assert run(["sweep", "show", "t"]) == 0
    shown = capsys.readouterr().out
    assert run(ALL) == 0
    again = capsys.readouterr()
    assert again.out == shown
    assert "nothing left to train" in again.err
    assert all(f"{loss:.4f}" in shown for loss in losses.values())


def test_a_diverged_trial_is_a_side_that_was_tried(finished: Made, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for row in json.loads(finished.out)["runs"] if row["arm"] == "prenorm"]
    highest = max(rows, key=lambda row: row["changes"]["train.learning_rate"])
    find_run(f"t/{highest['folder']}", Path("runs")).write_state(status="diverged", error="too hot")
    assert run([*ALL, "--json"]) == 0
    again = printed_json(capsys)
    assert [row["status"] for row in again["runs"] if row["folder"] == highest["folder"]] == ["diverged"]
    assert tuned(again, "prenorm")["is_tuned"]
    assert "#   0.08, 256 tokens: inf" in overlay_path("small", "prenorm").read_text()


def test_an_overlay_is_never_written_over_unasked(once: Made, capsys: pytest.CaptureFixture[str]) -> None:
    path = overlay_path("small", "prenorm")
    path.parent.mkdir(parents=True)
    path.write_text("# mine\n[train]\nlearning_rate = 1.0\n")
    assert run(ALL) == 2
    assert f"There is already an overlay {path}" in capsys.readouterr().err
    assert path.read_text().startswith("# mine")
    assert not Path("runs").exists()
    shutil.copytree(once.folder / "runs", "runs")
    assert run(ALL) == 2
    assert path.read_text().startswith("# mine")
    assert run([*ALL, "--force"]) == 0
    mark = read_mark(path)
    assert mark is not None
    assert mark.tune == "t"


def test_all_trials_diverge(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "./hot.toml", *TUNE]) == 6
    captured = capsys.readouterr()
    assert captured.out.count("diverged") >= 6
    assert len(SweepDirectory(Path("runs/t")).document()["runs"]) == 6  # no stage follows
    assert "Traceback" not in captured.err
    assert not Path("presets").exists()


def test_a_short_search_is_checked_at_the_full_horizon(capsys: pytest.CaptureFixture[str]) -> None:
    run([*ALL, "--horizon-fraction", "0.75", "--json"])
    document = printed_json(capsys)
    for arm in ("prenorm", "attnres-full"):
        runs = [row for row in document["runs"] if row["arm"] == arm]
        short = {row["changes"]["train.learning_rate"]: row["loss"] for row in runs if row["planned_tokens"] == 192}
        full = {row["changes"]["train.learning_rate"]: row["loss"] for row in runs if row["planned_tokens"] == 256}
        winner = min(short, key=lambda rate: short[rate])
        assert sorted(full)[1] == winner
        assert sorted(full) == pytest.approx([winner / 2**0.5, winner, winner * 2**0.5], rel=1e-3)
        facts = tuned(document, arm)
        assert facts["search_loss"] == short[winner]
        assert facts["loss"] == min(full.values())
        if min(full, key=lambda rate: full[rate]) != winner:
            assert facts["edges"][0]["at_full_horizon"]
            assert not facts["is_tuned"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--points", "4"], "--points 4"),
        (["--points", "17"], "--points 17"),
        (["--horizon-fraction", "0"], "--horizon-fraction 0"),
        (["--horizon-fraction", "0.99"], "--horizon-fraction 0.99"),
        (["--query-lr-factor"], "No arm has depth queries"),
        (["--weight-decay", "--set", "train.weight_decay=0.0"], "The weight decay is 0"),
        (["--seeds", "0"], "--seeds 0"),
        (["--trials", "20"], "those of the engine 'grid' follow from --points"),
        (["--engine", "optuna", "--trials", "5"], "--trials 5: of every arm"),
        (["--arms", "prenorm"], "--arms and --residual exclude each other"),
        (["--arms", ","], "--arms names no arm"),
    ],
)
def test_what_is_no_search_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "./small.toml", "--residual", "prenorm", "--residual", "rezero", *words]) == 2
    assert said in capsys.readouterr().err
    assert not Path("runs").exists()


@pytest.mark.usefixtures("finished")
def test_another_request_under_the_same_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ALL, "--set", "train.learning_rate=0.03"]) == 3
    assert "train.learning_rate was 0.04 and is now 0.03" in capsys.readouterr().err


def test_a_tune_that_was_stopped_goes_on_where_it_was(finished: Made, capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(finished.out)
    shutil.rmtree("presets")
    # As it was after the first stage, with one of its runs not begun.
    document = SweepDirectory(Path("runs/t")).document()
    coarse = {document["cells"][index]["key"] for index, cell in enumerate(document["cells"])
              if cell["facts"]["trial"]["rate"] % 4 == 0}  # fmt: skip
    kept = [row for row in document["runs"] if row["cell"] in coarse][:-1]
    for row in document["runs"]:
        if row not in kept:
            shutil.rmtree(Path("runs/t") / row["folder"])
    Path("runs/t/sweep.json").write_text(json.dumps({**document, "runs": kept, "status": "interrupted"}))
    stamps = {path: path.stat().st_mtime_ns for path in Path("runs/t").glob("*/metrics.jsonl")}
    assert len(stamps) == 5
    assert run([*ALL, "--json"]) == finished.code
    assert printed_json(capsys)["tuned"] == whole["tuned"]
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert len(list(Path("runs/t").glob("*/metrics.jsonl"))) == 10


@pytest.mark.usefixtures("finished")
def test_a_failed_trial_is_a_row_and_its_arm_waits_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    document = SweepDirectory(Path("runs/t")).document()
    first = next(row for row in document["runs"] if row["arm"] == "prenorm")
    shutil.rmtree(Path("runs/t") / first["folder"])
    failed = [{**row, "status": "failed", "loss": None, "error": "its process was killed by SIGKILL"}
              if row is first else row for row in document["runs"]]  # fmt: skip
    Path("runs/t/sweep.json").write_text(json.dumps({**document, "runs": failed}))
    assert run(["sweep", "show", "t"]) == 0
    said = capsys.readouterr().out
    assert "prenorm: not tuned yet: trials are missing." in said
    assert "its process was killed by SIGKILL" in said
    assert run([*ALL, "--json"]) == 0  # tried again
    assert {row["status"] for row in printed_json(capsys)["runs"]} == {"finished"}


def test_no_verdict_rests_on_a_tune(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ALL, "--seeds", "3", "--set", "train.horizon_tokens=64"]) in (0, 6)  # one step
    capsys.readouterr()
    assert run(["compare", "t", "--no-bench", "--json"]) == 0
    [verdict] = printed_json(capsys)["verdicts"]
    assert (verdict["kind"], verdict["outcome"]) == ("no verdict", "trials")
    assert verdict["reasons"] == ["these runs chose learning rates; no verdict rests on them"]


@pytest.mark.usefixtures("finished")
def test_what_is_left_of_a_tune_is_resumed_and_sends_on_to_the_tune(capsys: pytest.CaptureFixture[str]) -> None:
    document = SweepDirectory(Path("runs/t")).document()
    began = "attnres tune ./small.toml --points 3"
    for command, goes_on in (
        (f"{began} --name t", f"{began} --name t\n"),
        (began, f"{began} --name t\n"),
        ("python -m pytest", "attnres tune … --name t\n"),
    ):
        # A rate that was too high is a result, and no reason for another exit code.
        rows = [{**row, "status": "diverged" if row is document["runs"][0] else row["status"]}
                for row in document["runs"]]  # fmt: skip
        Path("runs/t/sweep.json").write_text(json.dumps({**document, "runs": rows, "command": command}))
        assert run(["sweep", "resume", "t"]) == 0
        said = capsys.readouterr().err
        assert said.endswith(f"choose the next trials and write the overlays with: {goes_on}")
        assert "attnres compare" not in said
