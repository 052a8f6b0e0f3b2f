"""`attnres probe` on tiny trained runs, through the program."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from attnres_cli.probe.asked import probe_names
from attnres_cli.runs import probed
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train.loop import train
from tests.cli.starting import loaded_by, on_a_terminal
from tests.fabricated_probes import ALL, findings
from tests.small import small_preset

CHECKPOINTS = {"train.checkpoint_every_steps": 10, "train.horizon_tokens": 20 * 64, "observe.every_steps": 5}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    """runs/ with `plain` and `block`, checkpoints of steps 10 and 20, not probed yet."""
    root = tmp_path_factory.mktemp("trained") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNRES_CACHE", str(shared_cache))
        train(small_preset(None, **CHECKPOINTS), RunDirectory.create(root, "plain", "plain"))
        block = small_preset({"scheme": "attnres-block", "num_blocks": 2}, **CHECKPOINTS)
        train(block, RunDirectory.create(root, "block", "block"))
    return root


@pytest.fixture(scope="module")
def done(trained: Path, tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    """The same, probed by all probes at step 20."""
    root = tmp_path_factory.mktemp("probed") / "runs"
    shutil.copytree(trained, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNRES_CACHE", str(shared_cache))
        patch.chdir(root.parent)
        assert run(["probe", "plain", "block", "-o", str(root.parent / "first.json")]) == ExitCode.DONE
    return root


@pytest.fixture
def runs(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the runs that were not probed, in the current folder."""
    return copied(trained, tmp_path, monkeypatch)


@pytest.fixture
def again(done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the runs that were probed, in the current folder."""
    return copied(done, tmp_path, monkeypatch)


def copied(root: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(root, to / "runs")
    monkeypatch.chdir(to)
    return to / "runs"


def probe(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """stdout and stderr of the command; it has to succeed."""
    code = run(["probe", *words])
    captured = capsys.readouterr()
    assert code == ExitCode.DONE, captured.err
    return captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: ExitCode = ExitCode.INPUT) -> str:
    assert run(["probe", *words]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def tree(folder: Path) -> dict[str, str]:
    """Every file below a folder with the digest of its content."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# ---- what it finds


def test_all_probes_of_both_runs(done: Path) -> None:
    found = json.loads((done.parent / "first.json").read_text())
    assert found["schema"] == "attnres.probe/1"
    assert [each["scheme"] for each in found["runs"]] == ["prenorm", "attnres-block"]
    for each in found["runs"]:
        assert list(each["probes"]) == list(probe_names())
        for name, document in each["probes"].items():
            assert (document["probe"], document["step"], document["sequences"]) == (name, 20, 10)
            assert document["tokens"] == 160
            for key, array in document["arrays"].items():
                assert np.array(array, dtype=float).shape, key
    plain = found["runs"][0]["probes"]
    assert plain["depth-weights"]["summary"] is None
    assert plain["depth-weights"]["nothing"]
    assert set(found["tables"]) >= {"runs", "magnitudes", "gradients", "depth_weights", "mixing", "removal", "lens"}


def test_the_files_are_as_documented(done: Path) -> None:
    block = RunDirectory(done / "block")
    assert probed.steps(block) == [20]
    for name in probe_names():
        document = block.probed(name)
        assert document is not None, name
        arrays = probed.read_arrays(block, name)
        assert {key: list(array.shape) for key, array in arrays.items()} == {
            key: place["shape"] for key, place in document["arrays"].items()
        }
        assert all(array.dtype == np.float64 for array in arrays.values())
        assert document["seconds"] >= 0
    assert RunDirectory(done / "plain").probed("depth-weights") is None
    assert set(ALL) == set(probe_names())


def test_findings_made_by_hand_have_the_fields_of_real_ones(done: Path) -> None:
    """What pictures and reports are tested with is what probes write."""
    block = RunDirectory(done / "block")
    for name, (summary, arrays) in findings(4, plain=False, better_by=0.0).items():
        real = block.probed(name)
        assert real is not None
        assert summary is not None
        assert summary.keys() == real["summary"].keys(), name
        assert {key: list(array.shape) for key, array in arrays.items() if key != "mean_weight"} == {
            key: place["shape"] for key, place in real["arrays"].items() if key != "mean_weight"
        }
        for key in ("sites", "sources", "families"):
            if isinstance(made := summary.get(key), list) and isinstance(made[0], dict):
                assert made[0].keys() == real["summary"][key][0].keys(), (name, key)


def test_the_final_loss_is_that_of_the_evaluation(done: Path) -> None:
    """160 validation tokens are all there are, so the probes see what the run was evaluated on."""
    for name in ("plain", "block"):
        found = RunDirectory(done / name)
        evaluated = found.last_evaluation()
        assert evaluated is not None
        lens, removal = found.probed("lens"), found.probed("removal")
        assert lens is not None
        assert removal is not None
        assert lens["summary"]["final_loss"] == pytest.approx(evaluated["loss"], rel=1e-5)
        assert removal["summary"]["whole_loss"] == pytest.approx(evaluated["loss"], rel=1e-5)


def test_probes_agree_with_the_observers(done: Path) -> None:
    """The observers saw the first two of the ten sequences at the same step."""
    found = RunDirectory(done / "block")
    seen = found.last_observation("magnitudes")
    assert seen is not None
    rms = probed.read_arrays(found, "magnitudes")["stream_rms"].tolist()
    assert rms == pytest.approx(seen["summary"]["stream_rms"], rel=0.2)


def test_tables_side_by_side(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = probe(capsys, "plain", "block")
    assert err == ""
    for words in ("Probed", "Magnitudes", "Gradients", "Depth weights", "Layer removal", "Logit lens", "Through"):
        assert words in out
    assert "A: this scheme does not choose among sources" in out
    head = next(line for line in out.splitlines() if line.split() == ["passed", "prenorm", "attnres-block"])
    assert head


def test_one_run_gets_a_table_by_sublayer(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both, _ = probe(capsys, "plain", "block", "--only", "magnitudes")
    one, _ = probe(capsys, "block", "--only", "magnitudes")
    assert "By sublayer" in one
    assert "By sublayer" not in both
    assert "Gradients" not in one


def test_through_training_shows_first_middle_and_last(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = probe(capsys, "block", "--only", "magnitudes", "--json")
    rows = json.loads(out)["tables"]["through_training"]["rows"]
    assert [row["step"] for row in rows] == [5, 10, 20]
    observed = [row for row in RunDirectory(again / "block").observations() if row["observer"] == "magnitudes"]
    last = observed[-1]["summary"]["stream_rms"]
    assert rows[-1]["growth"] == pytest.approx(last[-1] / last[1])


def test_csv_and_markdown(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = probe(capsys, "plain", "block", "--only", "lens", "--format", "csv")
    table = out.partition("# lens_by_depth\n")[2]
    rows = list(csv.DictReader(io.StringIO(table)))
    stored = probed.read_arrays(RunDirectory(again / "block"), "lens")["loss_after_block"].tolist()
    assert [float(row["B"]) for row in rows] == stored
    out, _ = probe(capsys, "plain", "--only", "lens", "--format", "markdown")
    assert "| run | scheme |" in " ".join(out.split())


def test_on_a_terminal_it_fits_80_columns(again: Path) -> None:
    written = on_a_terminal(again.parent, "probe", "plain", "block", columns=80, NO_COLOR="1")
    assert max(map(len, written.splitlines())) <= 80


def test_groups_and_patterns(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (again / "pair").mkdir()
    for name in ("plain", "block"):
        (again / name).rename(again / "pair" / name)
    group, _ = probe(capsys, "pair", "--only", "lens")
    pattern, _ = probe(capsys, "pair/*", "--only", "lens")
    assert group == pattern
    assert "pair/plain" in group


def test_of_a_group_what_cannot_be_probed_is_left_out(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (again / "pair").mkdir()
    for name in ("plain", "block"):
        (again / name).rename(again / "pair" / name)
    shutil.rmtree(again / "pair" / "block" / "checkpoints")
    out, err = probe(capsys, "pair", "--only", "lens")
    assert "left out: Run 'block' has no weights" in err
    assert "pair/plain" in out
    assert "pair/block" not in out
    shutil.rmtree(again / "pair" / "plain" / "checkpoints")
    assert "None of these runs can be probed." in refused(capsys, "pair")


# ---- the cache


def test_the_second_call_answers_from_files(again: Path) -> None:
    loaded = loaded_by("probe", "plain", "block", cwd=again.parent)
    assert "torch" not in loaded
    assert not {name for name in loaded if name.startswith("attnres_cli.train")}


def test_the_second_call_says_the_same(done: Path, again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = json.loads((done.parent / "first.json").read_text())
    out, err = probe(capsys, "plain", "block", "--json")
    assert json.loads(out) == first
    assert err == ""


def seconds_of(root: Path, name: str = "lens", run: str = "plain", step: int = 20) -> float | None:
    document = probed.read(RunDirectory(root / run), name, step)
    return None if document is None else document["seconds"]


def test_only_what_is_missing_is_measured(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (again / "plain" / "probed" / "step-000020" / "lens.json").unlink()
    _, err = probe(capsys, "plain")
    said = [line.split()[0] for line in err.splitlines() if line.startswith("  ")]
    assert said == ["lens"]


@pytest.mark.parametrize("damage", ["arrays gone", "arrays cut", "no JSON", "another schema"])
def test_a_damaged_cache_is_measured_again(again: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    folder = again / "plain" / "probed" / "step-000020"
    whole = tree(folder)
    if damage == "arrays gone":
        (folder / "lens.safetensors").unlink()
    elif damage == "arrays cut":
        (folder / "lens.safetensors").write_bytes(b"\x00" * 5)
    elif damage == "no JSON":
        (folder / "lens.json").write_text('{"schema": "attnres.pro')
    else:
        (folder / "lens.json").write_text('{"schema": "attnres.probe/0", "summary": {}, "arrays": {}}')
    _, err = probe(capsys, "plain", "--only", "lens")
    assert "  lens " in err
    assert tree(folder)["lens.safetensors"] == whole["lens.safetensors"]


def test_again_measures_anew(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = seconds_of(again)
    _, err = probe(capsys, "plain", "--only", "lens", "--again")
    assert "  lens " in err
    assert seconds_of(again) != before


def test_other_tokens_are_another_question(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = probe(capsys, "plain", "--only", "lens", "--tokens", "70", "--json")
    assert "  lens " in err
    document = json.loads(out)["runs"][0]["probes"]["lens"]
    assert (document["sequences"], document["tokens"]) == (4, 64)
    # More than there are is all there are, and no other question.
    _, err = probe(capsys, "block", "--only", "lens", "--tokens", "1000000")
    assert err == ""


def test_a_changed_checkpoint_is_measured_again(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As after training the run once more to the same step: other weights, another digest."""
    folder = again / "plain" / "checkpoints" / "step-000020"
    before = probed.read_arrays(RunDirectory(again / "plain"), "lens")["loss_after_block"]
    weights = {name: 1.1 * array for name, array in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors")
    state = json.loads((folder / "state.json").read_text())
    state["digests"]["model.safetensors"] = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    (folder / "state.json").write_text(json.dumps(state))
    _, err = probe(capsys, "plain", "--only", "lens")
    assert "  lens " in err
    after = probed.read_arrays(RunDirectory(again / "plain"), "lens")["loss_after_block"]
    assert abs(after - before).max() > 1e-3


def test_an_earlier_checkpoint(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = probe(capsys, "plain", "--checkpoint", "10", "--only", "lens", "--json")
    assert "plain, step 10" in err
    early = json.loads(out)["runs"][0]
    assert early["step"] == 10
    found = RunDirectory(again / "plain")
    assert probed.steps(found) == [10, 20]
    assert found.probed("lens")["step"] == 20  # type: ignore[index]
    assert found.probed("lens", 10)["summary"] == early["probes"]["lens"]["summary"]  # type: ignore[index]


# ---- it leaves the run alone


def test_nothing_else_in_the_run_changes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: tree(runs / name) for name in ("plain", "block")}
    times = {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()}
    probe(capsys, "plain", "block")
    for name, files in before.items():
        after = tree(runs / name)
        assert {path: digest for path, digest in after.items() if not path.startswith("probed/")} == files
        assert any(path.startswith("probed/") for path in after)
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert not list(runs.rglob("*.tmp"))


def test_runs_rm_removes_what_was_probed(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "rm", "plain", "--yes"]) == ExitCode.DONE
    assert not (again / "plain").exists()
    assert not [path for path in again.rglob("*") if "removing" in path.name]


# ---- what it says when something is wrong


def test_an_unknown_probe_names_the_nearest(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = refused(capsys, "plain", "--only", "magnitude")
    assert "There is no probe 'magnitude'." in err
    assert "nearest: magnitudes" in err


def test_a_run_without_a_checkpoint(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(runs / "plain" / "checkpoints")
    assert "Run 'plain' has no weights: it has no checkpoint." in refused(capsys, "plain")


def test_an_unknown_step(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = refused(capsys, "plain", "--checkpoint", "15")
    assert "Run 'plain' has no checkpoint of step 15." in err
    assert "expected: 10 or 20" in err


def test_damaged_weights(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = runs / "plain" / "checkpoints" / "step-000020" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(content)
    err = refused(capsys, "plain", "--only", "lens")
    assert "The checkpoint is damaged: model.safetensors is not the file that was written." in err
    assert not (runs / "plain" / "probed").exists()


def test_a_checkpoint_that_does_not_say_what_it_holds(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "plain" / "checkpoints" / "step-000020" / "state.json").write_text("{")
    assert "This is no complete checkpoint" in refused(capsys, "plain")


def test_too_few_tokens(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = refused(capsys, "plain", "--tokens", "31")
    assert "31 tokens are fewer than two sequences" in err
    assert "at least 32" in err


def test_other_validation_tokens_than_the_run_was_evaluated_on(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    manifest = runs / "plain" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["data"]["validation_set_hash"] = "0" * 64
    manifest.write_text(json.dumps(content))
    err = refused(capsys, "plain", "--only", "lens")
    assert "are not those that run 'plain' was evaluated on" in err
    assert "0" * 12 in err


def test_a_run_that_is_still_training(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = RunDirectory(runs / "plain")
    found.write_state(status="running", pid=os.getpid(), heartbeat=time.time())
    state: dict[str, Any] = found.read_state()
    assert state["status"] == "running", state
    _, err = probe(capsys, "plain", "--only", "lens")
    assert "run 'plain' is still training; this is its checkpoint of step 20" in err


def test_a_preset_without_its_numbers(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "plain" / "resolved.toml").write_text("[model]\nd_model = 16\n")
    assert "The resolved preset of run 'plain' has no model.context_tokens." in refused(capsys, "plain")


def test_no_such_run_and_a_format_that_is_none(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nearest: plain" in refused(capsys, "plane")
    refused(capsys, "plain", "--format", "tabel", code=ExitCode.USAGE)
    refused(capsys, "plain", "-o", "no/such/folder.json", code=ExitCode.USAGE)
    assert not (runs / "plain" / "probed").exists()
