"""`attnres reproduce` through the entry point: a plan of its own, with trainings of a fraction of a second."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from attnres_cli.cli.app import run
from attnres_cli.runs.directory import RunDirectory
from tests.cli.made_once import made
from tests.small import small_preset

PLAN = """
summary = "Tiny models for a test."
preset = "{preset}"
seeds = 4

[changes]
"train.learning_rate" = 8e-3

[cells.main]
[cells.longer]
"train.horizon_tokens" = 512

[arms.slow]
scheme = "prenorm"
changes = {{ "train.learning_rate" = 1e-5 }}

[benches.train]
arms = ["prenorm", "attnres-block"]
pairs = 6

[[claims]]
key = "slow"
claim = "A rate of almost nothing learns less."
paper = "none"
source = "none"
test = "contrast"
weights = {{ "main/slow" = 1, "main/prenorm" = -1 }}
expected = "above"
assumed = {{ effect = 0.1, standard_deviation = 0.005, source = "a guess" }}

[[claims]]
key = "hopeless"
claim = "A difference that four seeds do not find."
paper = "+0.0001 nats"
source = "none"
test = "contrast"
weights = {{ "main/rezero" = 1, "main/prenorm" = -1 }}
expected = "above"
assumed = {{ effect = 0.0001, standard_deviation = 0.005, source = "a guess" }}

[[claims]]
key = "outputs"
claim = "Outputs grow less with depth."
paper = "none"
source = "none"
test = "contrast"
figure = "output_growth"
weights = {{ "main/attnres-full" = 1, "main/prenorm" = -1 }}
expected = "below"
seeds = 3
assumed = {{ effect = 0.3, standard_deviation = 0.05, source = "a guess" }}

[[claims]]
key = "multiplier"
claim = "Block saves compute."
paper = "1.25×"
source = "none"
test = "multiplier"
arm = "main/slow"
ladder = ["main/prenorm", "longer/prenorm"]
bound = 1.0
assumed = {{ effect = -0.1, standard_deviation = 0.005, source = "a guess" }}

[[claims]]
key = "overhead"
claim = "A training step costs less than 400 times as much."
paper = "< 4 %"
source = "none"
test = "overhead"
bench = "train"
arm = "attnres-block"
bound = 400.0
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    """A folder in which the plan above has run to its end."""
    folder = tmp_path_factory.mktemp("reproduce")
    _write(folder)
    ended = made(["reproduce", "--scale", "plan.toml", "--name", "all", "--jobs", "1", "--json"], folder, shared_cache)
    assert ended.code == 0, ended.err
    return folder


def _write(folder: Path) -> None:
    size: dict[str, Any] = {
        "model.transformer_blocks": 2, "train.horizon_tokens": 64 * 6, "train.micro_batch_sequences": 4,
        "data.documents": 100, "observe.observers": ["magnitudes"],
    }  # fmt: skip
    preset = small_preset(**size)
    (folder / "small.toml").write_text(preset.to_toml())
    (folder / "plan.toml").write_text(PLAN.format(preset="./small.toml"))


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*words]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_every_claim_gets_its_outcome(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(finished)
    document = shown(capsys, "sweep", "show", "all", "--json")
    claims = {each["claim"]: each for each in document["claims"]}
    assert claims["hopeless"]["outcome"] == "needs larger scale"
    assert claims["hopeless"]["power_before"] < 0.8
    assert claims["hopeless"]["estimate"] is None
    assert (claims["slow"]["n"], claims["outputs"]["n"], claims["overhead"]["n"]) == (4, 3, 6)
    tested = [each for each in claims.values() if each["p"] is not None]
    assert len(tested) == 4
    for each in tested:
        smaller = sum(other["p"] < each["p"] for other in tested)
        assert each["p_holm"] >= min(1.0, (4 - smaller) * each["p"]) - 1e-12
        assert (each["outcome"] == "not shown") is (each["p_holm"] >= 0.05)
    assert {run["arm"] for run in document["runs"]} == {"prenorm", "slow", "attnres-full"}
    seeds = {(run["cell"], run["arm"]): 0 for run in document["runs"]}
    for each in document["runs"]:
        seeds[each["cell"], each["arm"]] += 1
    assert seeds == {("main", "prenorm"): 4, ("main", "slow"): 4, ("main", "attnres-full"): 3, ("longer", "prenorm"): 4}


def test_the_numbers_are_those_of_the_run_directories(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(finished)
    document = shown(capsys, "sweep", "show", "all", "--json")
    claims = {each["claim"]: each for each in document["claims"]}

    def losses(arm: str) -> list[float]:
        folders = [RunDirectory(finished / "runs/all" / f"main-{arm}-s{seed}") for seed in range(4)]
        found = [folder.last_evaluation() for folder in folders]
        return [each["loss"] for each in found if each is not None]

    differences = [ours - theirs for ours, theirs in zip(losses("slow"), losses("prenorm"), strict=True)]
    expected = stats.ttest_1samp(differences, 0.0)
    assert claims["slow"]["estimate"] == pytest.approx(sum(differences) / 4)
    assert claims["slow"]["p"] == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert (claims["slow"]["low"], claims["slow"]["high"]) == pytest.approx((interval.low, interval.high))


def test_asking_again_trains_and_times_nothing(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(finished)
    before = json.loads((finished / "runs/all/sweep.json").read_text())
    document = shown(capsys, "reproduce", "--scale", "plan.toml", "--name", "all", "--json")
    assert document["measured"] == before["measured"]
    assert [run["folder"] for run in document["runs"]] == [run["folder"] for run in before["runs"]]


def test_the_table_says_what_was_found(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(finished)
    assert run(["sweep", "show", "all"]) == 0
    text = capsys.readouterr().out
    assert "The paper's claims, tested here" in text
    assert "needs larger scale" in text
    assert "A rate of almost nothing learns less." in text
    assert "Of 5 claims" in text
    assert "Block saves compute." in text


def test_the_plan_is_priced_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _write(tmp_path)
    plan = shown(capsys, "reproduce", "--scale", "plan.toml", "--dry-run", "--json")
    assert plan["schema"] == "attnres.sweep-plan/1"
    assert plan["price"]["runs"] == 15
    assert plan["facts"]["before"]["hopeless"]["tested"] is False
    assert plan["facts"]["before"]["overhead"] == {"tested": True, "power": None}
    assert not Path("runs").exists()


def test_a_part_of_the_runs_is_never_a_verdict(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads((finished / "runs/all/sweep.json").read_text())
    for each in document["runs"]:
        if each["arm"] == "slow" and each["seed"] == 3:
            each["status"] = "interrupted"
    document["measured"] = {}
    Path("runs/all").mkdir(parents=True)
    Path("runs/all/sweep.json").write_text(json.dumps({**document, "status": "interrupted"}))
    shown_claims = shown(capsys, "sweep", "show", "all", "--json")["claims"]
    outcomes = {each["claim"]: each["outcome"] for each in shown_claims}
    assert outcomes["slow"] == outcomes["multiplier"] == outcomes["overhead"] == "not finished"
    whys = {each["claim"]: each["why"] for each in shown_claims}
    assert whys["slow"] == "waits for 1 run, main slow seed 3"
    assert whys["overhead"] == "waits for the bench train"


def test_what_is_missing_is_resumed_and_ends_where_it_would_have(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reproduction that was stopped before its last run and its bench."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    path = Path("runs/all/sweep.json")
    whole = json.loads(path.read_text())
    shutil.rmtree("runs/all/main-slow-s3")
    lost = next(each for each in whole["runs"] if each["folder"] == "main-slow-s3")
    rows = [{**each, "status": "interrupted", "loss": None} if each is lost else each for each in whole["runs"]]
    path.write_text(json.dumps({**whole, "runs": rows, "measured": {}, "status": "interrupted"}))
    again = shown(capsys, "sweep", "resume", "all", "--jobs", "1", "--json")
    assert [each["loss"] for each in again["runs"]] == [each["loss"] for each in whole["runs"]]
    assert set(again["measured"]) == {"train"}
    assert "not finished" not in {each["outcome"] for each in again["claims"]}


def test_a_claim_rests_on_the_seeds_it_was_planned_with(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of the baseline that another claim needs keeps nobody else waiting, and is no evidence for him."""
    monkeypatch.chdir(tmp_path)
    document = json.loads((finished / "runs/all/sweep.json").read_text())
    extra = next(each for each in document["runs"] if each["folder"] == "main-prenorm-s3")
    document["runs"].append({**extra, "arm": "attnres-full"})
    extra["status"] = "interrupted"
    Path("runs/all").mkdir(parents=True)
    Path("runs/all/sweep.json").write_text(json.dumps(document))
    claims = {each["claim"]: each for each in shown(capsys, "sweep", "show", "all", "--json")["claims"]}
    assert (claims["outputs"]["n"], claims["slow"]["outcome"]) == (3, "not finished")


def test_a_run_that_diverged_knows_nothing(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads((finished / "runs/all/sweep.json").read_text())
    for each in document["runs"]:
        if each["arm"] == "slow" and each["seed"] == 3:
            each |= {"status": "diverged", "loss": None}
    Path("runs/all").mkdir(parents=True)
    Path("runs/all/sweep.json").write_text(json.dumps(document))
    after = shown(capsys, "sweep", "show", "all", "--json")
    slow = {each["claim"]: each for each in after["claims"]}["slow"]
    assert (slow["n"], slow["diverged_runs"]) == (4, 1)
    assert run(["sweep", "show", "all"]) == 0
    assert "a model that knows nothing" in capsys.readouterr().out


def test_what_only_survivors_have_decides_nothing(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that diverged has a loss that can stand for it, and no outputs that grow."""
    monkeypatch.chdir(tmp_path)
    document = json.loads((finished / "runs/all/sweep.json").read_text())
    for each in document["runs"]:
        grows = 1.0 if each["arm"] == "attnres-full" else 9.0 + 0.1 * each["seed"]
        each["figures"]["output_growth"] = grows + 0.01 * each["seed"]  # as clear as can be
        if each["seed"] == 3:
            document["runs"].append({**each, "arm": "attnres-full", "status": "diverged", "figures": {}})
            break
    for claim in document["request"]["plan"]["claims"]:
        claim.pop("seeds", None)
    Path("runs/all").mkdir(parents=True)
    Path("runs/all/sweep.json").write_text(json.dumps(document))
    after = shown(capsys, "sweep", "show", "all", "--json")
    outputs = {each["claim"]: each for each in after["claims"]}["outputs"]
    assert (outputs["n"], outputs["diverged_runs"], outputs["outcome"]) == (3, 1, "not shown")
    assert "1 run diverged and left no such figure" in outputs["why"]
    assert run(["sweep", "show", "all"]) == 0
    assert "a model that knows nothing" not in capsys.readouterr().out


def test_a_bench_of_too_few_rounds_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what is assumed of its rounds a bench has a power like any other test."""
    monkeypatch.chdir(tmp_path)
    _write(tmp_path)
    plan = (tmp_path / "plan.toml").read_text()
    for rounds, decided in ((12, "tested"), (6, "needs larger scale")):  # six rounds cannot reach 1.25 %
        more = plan.replace("pairs = 6", f"pairs = {rounds}")
        more += 'assumed = { effect = 399.0, standard_deviation = 0.001, source = "a guess" }\n'
        (tmp_path / "plan.toml").write_text(more)
        document = shown(capsys, "reproduce", "--scale", "plan.toml", "--dry-run", "--json")
        planned = {row["claim"]: row for row in document["tables"]["planned_claims"]["rows"]}
        row = planned["A training step costs less than 400 times as much."]
        assert (row["decided"], row["effect"], row["spread"]) == (decided, 399.0, 0.001)
        assert (row["power"] >= 0.8) is (decided == "tested")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('test = "multiplier"', 'test = "multplier"'), "did you mean multiplier?"),
        (('figure = "output_growth"', 'figure = "growth"'), "there is no figure 'growth'"),
        (('"main/slow" = 1', '"mian/slow" = 1'), "'mian/slow' is no cell of the plan and an arm"),
        (('bench = "train"', 'bench = "decode"'), "there is no bench 'decode'"),
        (("pairs = 6", 'pairs = 6\nchanges = { "train.micro_batch_sequences" = 3 }'), "cannot be timed so"),
        (("seeds = 3", "seeds = 9"), "seeds = 9 is not between 3 and the plan's 4"),
        (('key = "slow"', 'key = "outputs"'), "the claim 'outputs' is there twice"),
        (('expected = "above"', 'expected = "over"'), "expected"),
        (('scheme = "prenorm"', 'scheme = "prnorm"'), "'slow'"),
        (('preset = "./small.toml"', 'preset = "smal"'), "smal"),
        (("seeds = 4", "seeds = 2"), "seeds"),
    ],
)
def test_a_faulty_plan_is_a_sentence(
    change: tuple[str, str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    _write(tmp_path)
    text = Path("plan.toml").read_text()
    assert change[0] in text
    Path("plan.toml").write_text(text.replace(*change, 1))
    assert run(["reproduce", "--scale", "plan.toml", "--dry-run"]) == 3
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_a_scale_that_does_not_exist_names_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["reproduce", "--scale", "cpuu"]) == 2
    assert "nearest: cpu" in capsys.readouterr().err
