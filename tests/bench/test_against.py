"""A bench beside an earlier one: figures recomputed from samples, changes, differences, and names in conditions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from attnres_cli.analysis.conditions import parse_condition
from attnres_cli.bench.against import changes, check_names, differences, lookup, read_bench
from attnres_cli.bench.metrics import METRICS, metrics
from attnres_cli.errors import UserError
from tests.fabricated_bench import CUDA, MIB, payload, result


def test_every_figure_comes_from_the_samples() -> None:
    measured = result(compiled=True, first_call_seconds=9.0, graphs=2, graph_breaks=1, recompiles=3)
    base, block, _ = measured.arms
    figures = metrics(measured, block)
    ratios = [ours / theirs for ours, theirs in zip(block.cpu_seconds, base.cpu_seconds, strict=True)]
    wall = median(block.wall_seconds)
    assert figures["step_ratio"] == figures["cpu_ratio"] == median(ratios)
    assert figures["wall_ratio"] == pytest.approx(median(ratios))
    assert figures["step_seconds"] == figures["cpu_seconds"] == median(block.cpu_seconds)
    assert figures["wall_seconds"] == wall
    assert figures["tokens_per_second"] == 1024 / wall
    assert figures["flops_per_second"] == 2e10 / wall
    assert figures["flops_utilisation"] is None
    assert figures["peak_bytes"] == 104 * MIB
    assert figures["peak_ratio"] == 1.04
    assert figures["compile_seconds"] == 9.0 - wall
    assert (figures["graphs"], figures["graph_breaks"], figures["recompiles"]) == (2, 1, 3)
    assert metrics(result(), result().arms[1])["compile_seconds"] is None


def test_on_cuda_the_clock_on_the_wall_counts_and_the_peak_is_known() -> None:
    measured = result(CUDA, device_peak_flops=4e13)
    block = measured.arms[1]
    figures = metrics(measured, block)
    assert figures["step_seconds"] == figures["wall_seconds"] != figures["cpu_seconds"]
    assert figures["flops_utilisation"] == pytest.approx(2e10 / median(block.wall_seconds) / 4e13)


def test_changes_are_shown_only_where_intervals_are_apart() -> None:
    now = payload()
    assert [(row["arm"], row["change"], row["apart"]) for row in changes(now, now)] == [
        ("attnres-block", 0.0, False),
        ("attnres-full", 0.0, False),
    ]
    earlier = json.loads(json.dumps(now))
    earlier["arms"][1]["ratio"] = {"median": 1.20, "low": 1.15, "high": 1.25, "coverage": 0.96}
    del earlier["arms"][2]
    block, full = changes(now, earlier)
    assert block["apart"] is True
    assert block["change"] == now["arms"][1]["ratio"]["median"] - 1.20
    assert (full["then"], full["change"], full["apart"]) == (None, None, None)


def test_what_was_not_the_same_is_said() -> None:
    assert differences(payload(), payload()) == []
    other = payload(replace(result(), setting=CUDA), preset="another", precision="bf16")
    told = " | ".join(differences(payload(), other))
    for part in (
        "preset: small now, another then",
        "precision: fp32 now, bf16 then",
        "threads: 1 now, 8 then",
        "device",
    ):
        assert part in told


def value(text: str, other: dict[str, Any] | None = None) -> float:
    return parse_condition(f"{text} > 0").judge(lookup(payload(), other)).left


def test_names_in_conditions() -> None:
    now, other = payload(), payload(mode="forward")
    other["arms"][1]["metrics"]["step_ratio"] = 7.0
    assert value("attnres-block.step_ratio") == now["arms"][1]["metrics"]["step_ratio"]
    assert value("baseline.step_seconds") == now["arms"][0]["metrics"]["step_seconds"]
    assert value("baseline.attnres-block.step_ratio", other) == 7.0


@pytest.mark.parametrize(
    ("text", "said", "nearest"),
    [
        ("attnres-blok.step_ratio", "There is no arm 'attnres-blok' in this bench.", "attnres-block"),
        ("attnres-block.step_ration", "An arm has no figure 'step_ration'.", "step_ratio"),
        ("baseline.attnres-blok.step_ratio", "There is no arm 'attnres-blok' in the other file.", "attnres-block"),
        ("prenorm.step_ratio-attnres-full.step_ratio", "There is no arm 'prenorm.step_ratio-attnres-full'", None),
    ],
)
def test_unknown_names_are_found_before_anything_runs(text: str, said: str, nearest: str | None) -> None:
    arms = ["prenorm", "attnres-block", "attnres-full"]
    with pytest.raises(UserError) as caught:
        check_names([parse_condition(f"{text} > 1")], arms, list(METRICS), payload())
    fault = caught.value.faults[0]
    assert said in fault.what
    assert fault.nearest == nearest or nearest is None
    if nearest is None:
        assert fault.hint == "a minus sign between two names needs a space before it"


def test_a_figure_of_the_other_file_needs_the_file_and_one_that_was_not_measured_is_no_number() -> None:
    with pytest.raises(UserError, match="needs the result"):
        check_names([parse_condition("baseline.a.step_ratio > 1")], ["a"], list(METRICS), None)
    with pytest.raises(UserError, match=r"prenorm\.flops_utilisation was not measured"):
        value("prenorm.flops_utilisation")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "There is no file"),
        ("{", "is no result of a bench"),
        ("[]", "is no result of a bench"),
        ('{"schema": "attnres.bench/1"}', "is no result of a bench"),
        ('{"schema": "attnres.plan/1", "arms": []}', "holds attnres.plan/1"),
    ],
)
def test_files_that_are_no_bench(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "earlier.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError) as caught:
        read_bench(path, "bench")
    assert said in caught.value.faults[0].what
    assert caught.value.faults[0].where == "--against"
