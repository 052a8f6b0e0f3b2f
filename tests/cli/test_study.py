"""`attnres study` through the program's entry point, with trainings of a fraction of a second."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.analysis.paired import paired_difference
from attnres_cli.analysis.power import pairs_needed, smallest_detectable
from attnres_cli.cli.app import run
from attnres_cli.cli.study import complete_arms, complete_study
from attnres_cli.preset.reading import load_preset
from attnres_cli.report.study import label, study_of_group, why_exploratory
from attnres_cli.runs.lookup import find_run
from attnres_cli.sweep.results import SweepDirectory
from tests.cli.made_once import Made, made
from tests.small import small_preset

NEW = ["study", "new", "./small.toml", "--arms", "prenorm,attnres-full", "--seeds", "3", "--name", "s"]
PLAN = Path("studies/s.toml")


def write_preset(folder: Path, **changes: Any) -> None:
    size: dict[str, Any] = {
        "model.transformer_blocks": 1,
        "train.horizon_tokens": 64 * 4,
        "train.micro_batch_sequences": 4,
        "data.documents": 100,
        "observe.observers": ["magnitudes"],
        "eval.every_steps": 0,
    }
    (folder / "small.toml").write_text(small_preset(**{**size, **changes}).to_toml())


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_preset(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> tuple[Made, Made]:
    """The plan that is made, and then trained, although its preset says something else by then."""
    folder = tmp_path_factory.mktemp("study")
    write_preset(folder)
    new = made([*NEW, "--json"], folder, shared_cache)
    write_preset(folder, **{"train.learning_rate": 0.5})
    return new, made(["study", "run", "s", "--jobs", "1"], folder, shared_cache)


@pytest.fixture
def frozen(trained: tuple[Made, Made], tmp_path: Path) -> dict[str, Any]:
    """What `study new` said of that plan; it and its runs are in the working folder, beside the preset as it was."""
    for each in trained:
        assert each.code == 0, each.err
    trained[1].copy_to(tmp_path)
    write_preset(tmp_path)
    document: dict[str, Any] = json.loads(trained[0].out)
    return document


def printed_json(capsys: pytest.CaptureFixture[str], code: int = 0, words: list[str] | None = None) -> dict[str, Any]:
    if words is not None:
        assert run([*words, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def losses(arm: str, seeds: int = 3) -> list[float]:
    return [find_run(f"s/{arm}-s{seed}", Path("runs")).evaluations()[-1]["loss"] for seed in range(seeds)]


def test_new_freezes_the_plan_prices_it_and_trains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*NEW, "--horizon", "512", "--smallest-effect", "0.01", "--sd", "0.004", "--hypothesis", "Is it?"]
    document = printed_json(capsys, words=words)
    assert "Nothing is trained yet" in (run(["study", "show", "s"]), capsys.readouterr().out)[1]
    plan = tomllib.loads(PLAN.read_text())
    assert plan == document["plan"]
    canonical = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert document["hash"] == hashlib.sha256(canonical.encode()).hexdigest()
    assert (plan["seeds"], plan["horizon_tokens"], plan["smallest_effect"]) == ([0, 1, 2], 512, 0.01)
    assert plan["hypothesis"] == "Is it?"
    assert [arm["label"] for arm in plan["arms"]] == ["prenorm", "attnres-full"]
    assert plan["preset"]["values"] == {
        **load_preset("./small.toml").to_dict(),
        "train": {**load_preset("./small.toml").to_dict()["train"], "horizon_tokens": 512},
    }
    assert (document["price"]["runs"], document["price"]["tokens"]) == (6, 6 * 512)
    assert document["price"]["minutes"] > 0
    assert document["power"]["smallest_shown"] == smallest_detectable(0.004, 3)
    assert document["power"]["seeds_needed"] == pairs_needed(0.01, 0.004)
    assert not Path("runs").exists()


def test_new_says_in_words_what_the_seeds_can_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*NEW, "--sd", "0.004", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"3 seeds show a difference of {smallest_detectable(0.004, 3):.4f} nats or more four times in five" in said
    assert f"0.005 nats, needs {pairs_needed(0.005, 0.004)}: too few are planned" in said
    assert "No arm is tuned" in said
    assert not Path("studies").exists()
    assert run([*NEW, "--dry-run"]) == 0
    assert "What it can show is not known" in capsys.readouterr().out


def test_a_plan_is_trained_paired_and_carries_its_hash(
    frozen: dict[str, Any], trained: tuple[Made, Made], capsys: pytest.CaptureFixture[str]
) -> None:
    said = trained[1]
    assert f"Plan: {frozen['hash']}" in said.out
    assert said.err.splitlines()[-1] == "compare with: attnres compare s"
    mean = paired_difference(losses("attnres-full"), losses("prenorm")).mean
    assert f"{mean:+.4f}" in said.out
    study = study_of_group(Path("runs/s"))
    assert study is not None
    assert (study.name, study.hash, study.seeds, study.horizon_tokens) == ("s", frozen["hash"], (0, 1, 2), 256)
    for path in Path("runs/s").glob("*/manifest.json"):
        assert label(study, json.loads(path.read_text())["preset_digest"]) == "planned"
    shown = printed_json(capsys, words=["study", "show", "s"])
    assert shown["hash"] == frozen["hash"]
    assert shown["changed"] == []
    assert {(each["status"], each["label"]) for each in shown["runs"]} == {("finished", "planned")}
    # A spread that was measured can plan the next one.
    words = [*NEW[:-1], "next", "--sd-from", "s"]
    spread = paired_difference(losses("attnres-full"), losses("prenorm")).standard_deviation
    assert printed_json(capsys, words=words)["plan"]["standard_deviation"] == spread


@pytest.mark.usefixtures("frozen")
def test_what_is_beyond_the_plan_is_exploratory(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "run", "s", "--seeds", "4", "--jobs", "1"]) == 0
    captured = capsys.readouterr()
    assert "Exploratory, beyond the plan: prenorm-s3, attnres-full-s3." in captured.out
    assert "Exploratory: 1 of the 4 seeds were added" in captured.out
    study = study_of_group(Path("runs/s"))
    assert study is not None
    for seed, expected in ((2, "planned"), (3, "exploratory")):
        record = find_run(f"s/prenorm-s{seed}", Path("runs"))
        assert label(study, str(record.manifest()["preset_digest"])) == expected
    assert why_exploratory(study, find_run("s/prenorm-s3", Path("runs")).resolved()) == "seed 3 is not in the plan"
    # A longer run outside the group is beyond it, too.
    assert run(["train", "./small.toml", "--steps", "8", "--name", "longer"]) == 0
    longer = find_run("longer", Path("runs"))
    assert label(study, str(longer.manifest()["preset_digest"])) == "exploratory"
    assert why_exploratory(study, longer.resolved()) == "it trains for 512 tokens, the plan for 256"
    capsys.readouterr()
    assert run(["study", "show", "s"]) == 0
    said = capsys.readouterr().out
    assert "6 of 6 planned runs finished." in said
    assert "Exploratory, beyond the plan: prenorm-s3, attnres-full-s3." in said
    assert run(["study", "run", "s", "--seeds", "2"]) == 2
    assert "--seeds 2: the plan has 3." in capsys.readouterr().err


def test_a_plan_that_was_changed_after_its_first_run_is_refused_and_said(
    frozen: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    # Comments are not content.
    PLAN.write_text("# looked at again\n" + PLAN.read_text())
    assert run(["study", "run", "s", "--jobs", "1"]) == 0
    PLAN.write_text(PLAN.read_text().replace("smallest_effect = 0.005", "smallest_effect = 0.001"))
    capsys.readouterr()
    assert run(["study", "run", "s"]) == 3
    said = capsys.readouterr().err
    assert "The plan of study 's' was changed after its first run: smallest_effect." in said
    assert frozen["hash"][:12] in said
    shown = printed_json(capsys, words=["study", "show", "s"])
    assert shown["changed"] == ["smallest_effect"]
    assert shown["hash"] != frozen["hash"]
    assert run(["study", "show", "s"]) == 0
    assert "This plan was changed after its first run" in capsys.readouterr().out


def test_tuned_overlays_are_arms_with_their_trials(capsys: pytest.CaptureFixture[str]) -> None:
    tune = ["tune", "./small.toml", "--residual", "prenorm", "--residual", "attnres-full", "--points", "3"]
    assert run([*tune, "--set", "train.learning_rate=0.04", "--jobs", "1", "--name", "t"]) == 0
    capsys.readouterr()
    arms = "tuned-small-prenorm,tuned-small-attnres-full"
    document = printed_json(capsys, words=[*NEW[:4], arms, *NEW[5:]])
    for arm in document["plan"]["arms"]:
        assert arm["tuning"] == {"tune": "t", "trials": 5, "seeds": 1}
        overlay = tomllib.loads(Path(f"presets/overlays/{arm['label']}.toml").read_text())
        rate = overlay["train"]["learning_rate"]
        assert arm["changes"] == {"train.learning_rate": rate, "train.tuning_seeds": [1000]}
    assert run(["study", "run", "s", "--jobs", "1"]) == 0
    rates = {row["arm"]: row["digest"] for row in SweepDirectory(Path("runs/s")).document()["runs"]}
    assert len(set(rates.values())) == 2
    capsys.readouterr()
    assert run([*NEW[:4], "tuned-small-prenorm,attnres-full", *NEW[5:-1], "uneven", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "Runs spent on tuning: tuned-small-prenorm 5, attnres-full 0." in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--seeds", "2"], 2, "fewer than three pairs never give a verdict"),
        (["--smallest-effect", "0"], 2, "--smallest-effect 0 is no difference"),
        (["--sd", "-1"], 2, "--sd -1 is no standard deviation"),
        (["--sd", "0.1", "--sd-from", "x"], 2, "exclude each other"),
        (["--sd-from", "x"], 3, "There is no sweep 'x'"),
        (["--arms", "prenorm"], 2, "A study compares arms"),
        (["--arms", "prenorm,prenorm"], 2, "'prenorm' is given twice"),
        (["--arms", "prenorm,atnres-full"], 2, "There is no scheme and no overlay 'atnres-full'"),
    ],
)
def test_what_is_no_plan_is_refused(words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*NEW, *words]) == code
    assert said in capsys.readouterr().err
    assert not Path("studies").exists()


def test_a_plan_is_never_written_over_nor_made_after_its_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(NEW) == 0
    text = PLAN.read_text()
    assert run([*NEW, "--smallest-effect", "0.1"]) == 2
    assert PLAN.read_text() == text
    Path("runs/late").mkdir(parents=True)
    assert run([*NEW[:-1], "late"]) == 2
    assert "There is already a folder of runs 'late'" in capsys.readouterr().err


def test_names_are_completed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*NEW, "--dry-run"]) == 0
    assert complete_study("") == []
    assert run(NEW) == 0
    assert (complete_study(""), complete_study("s"), complete_study("x")) == (["s"], ["s"], [])
    assert complete_arms("prenorm,attnres-fu") == ["prenorm,attnres-full"]
    assert complete_arms("rez") == ["rezero"]


def test_a_damaged_plan_is_named_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(NEW) == 0
    Path("studies/bad.toml").write_text('schema = "attnres.study/1"\nname = "bad"\nsmallest_efect = 1\n')
    capsys.readouterr()
    assert run(["study", "show", "bad"]) == 3
    assert "smallest_efect" in capsys.readouterr().err
    found = {row["name"]: row for row in printed_json(capsys, words=["study", "ls"])["studies"]}
    assert found["s"]["error"] is None
    assert "smallest_efect" in found["bad"]["error"]
    PLAN.rename("studies/other.toml")
    assert run(["study", "run", "other"]) == 3
    assert "The file is called other.toml, the study 's'" in capsys.readouterr().err
