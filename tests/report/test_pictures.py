"""What pictures of runs hold, recomputed from the files of the runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest

from attnres_cli.errors import UserError
from attnres_cli.report.compared_run import read_run
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Heat, Lines, Picture, Series, Views, all_stills, still, to_dict
from attnres_cli.report.pictures import builders, chosen, pictures
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.files import append_row
from tests.fabricated_probes import fabricate_probes
from tests.fabricated_runs import BLOCK_SCHEME, FULL_SCHEME, fabricate, fabricate_arm, observations
from tests.report.groups import comparison, raw

# Student's t, 97.5 %, two degrees of freedom.
T2 = 4.302653
BETTER = (0.050, 0.061, 0.045)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds of three arms, all probed."""
    root = tmp_path_factory.mktemp("group")
    for arm, residual, better in (
        ("prenorm", None, (0.0, 0.0, 0.0)),
        ("attnres-block", BLOCK_SCHEME, BETTER),
        ("attnres-full", FULL_SCHEME, (0.01, -0.02, 0.015)),
    ):
        began = {"prenorm": 0, "attnres-block": 1, "attnres-full": 2}[arm]
        flops = 1e6 * (1 + 0.02 * began)
        runs = fabricate_arm(
            root, arm, residual=residual, better_by=better, began=began, flops_per_token=flops,
        )  # fmt: skip
        for run, of_seed in zip(runs, better, strict=True):
            fabricate_probes(run, better_by=of_seed)
    return root


@pytest.fixture(scope="module")
def group(root: Path) -> Comparison:
    return comparison([RunDirectory(path) for path in sorted(root.iterdir())], baseline="prenorm")


@pytest.fixture(scope="module")
def drawn(group: Comparison) -> dict[str, Picture]:
    return {picture.key: picture for picture in pictures(group)}


def lines_of(picture: Picture, view: str | None = None) -> Lines:
    found = picture.views[picture.names.index(view)] if view and isinstance(picture, Views) else still(picture)
    assert isinstance(found, Lines)
    return found


def heat_of(picture: Picture) -> Heat:
    found = still(picture)
    assert isinstance(found, Heat)
    return found


def series_of(picture: Picture, label: str, view: str | None = None) -> Series:
    return next(each for each in lines_of(picture, view).series if each.label == label)


def evaluations(root: Path, arm: str) -> list[dict[int, float]]:
    """Per seed tokens → loss, read without the program."""
    return [
        {row["tokens"]: row["loss"] for row in raw(RunDirectory(root / f"{arm}-s{seed}")) if row["kind"] == "eval"}
        for seed in range(3)
    ]


def interval(values: Sequence[float]) -> tuple[float, float]:
    half = T2 * stdev(values) / math.sqrt(3)
    return mean(values) - half, mean(values) + half


# ---------------------------------------------------------------------- loss


def test_losses_are_means_of_the_files_with_their_intervals(root: Path, drawn: dict[str, Picture]) -> None:
    curves = evaluations(root, "attnres-block")
    found = series_of(drawn["loss"], "attnres-block")
    assert found.x == tuple(curves[0])
    assert found.low is not None
    assert found.high is not None
    for tokens, y, low, high in zip(found.x, found.y, found.low, found.high, strict=True):
        values = [curve[int(tokens)] for curve in curves]
        assert y == pytest.approx(mean(values))
        assert (low, high) == pytest.approx(interval(values), abs=1e-6)


def test_differences_are_paired_by_seed(root: Path, drawn: dict[str, Picture]) -> None:
    ours, theirs = evaluations(root, "attnres-block"), evaluations(root, "prenorm")
    found = series_of(drawn["loss-difference"], "attnres-block")
    last = int(found.x[-1])
    differences = [one[last] - other[last] for one, other in zip(ours, theirs, strict=True)]
    assert found.y[-1] == pytest.approx(mean(differences))
    assert found.low is not None
    assert found.low[-1] == pytest.approx(interval(differences)[0], abs=1e-6)
    assert [each.label for each in lines_of(drawn["loss-difference"]).series] == ["attnres-block", "attnres-full"]
    assert f"attnres-block ends at {mean(differences):+.4f}" in still(drawn["loss-difference"]).alternative


def test_the_horizontal_axis_can_be_flops_and_seconds(group: Comparison, drawn: dict[str, Picture]) -> None:
    loss = drawn["loss"]
    assert isinstance(loss, Views)
    assert loss.names == ("training tokens", "training FLOPs", "training time")
    tokens = series_of(loss, "attnres-block").x
    assert series_of(loss, "attnres-block", "training FLOPs").x == pytest.approx([1.02e6 * each for each in tokens])
    assert group.bench is not None
    timed = group.bench.arm("attnres-block")
    assert timed is not None
    per_token = timed["derived"]["median_wall_seconds"] / 2048
    assert series_of(loss, "attnres-block", "training time").x == pytest.approx([per_token * each for each in tokens])
    same = {tuple(series_of(loss, "attnres-block", name).y) for name in loss.names}
    assert len(same) == 1


def test_seconds_without_a_bench_are_left_out_with_the_reason(root: Path) -> None:
    untimed = comparison([RunDirectory(path) for path in sorted(root.iterdir())], slower=None)
    loss = next(picture for picture in pictures(untimed) if picture.key == "loss")
    assert isinstance(loss, Views)
    assert "training time" not in loss.names
    assert "Training time left out: --no-bench." in loss.views[0].caption


def test_the_steep_beginning_is_no_part_of_the_first_look(drawn: dict[str, Picture]) -> None:
    picture = lines_of(drawn["loss"])
    assert picture.y_range is not None
    first = max(y for series in picture.series for y in series.y if y is not None)
    assert picture.y_range[1] < first
    lowest = min(y for series in picture.series for y in series.y if y is not None)
    assert picture.y_range[0] < lowest


def test_single_runs_have_no_interval(tmp_path: Path) -> None:
    found = {picture.key: picture for picture in pictures(two_runs(tmp_path))}
    for key in ("loss", "loss-difference", "stream-rms"):
        assert all(series.low is None and series.high is None for series in lines_of(found[key]).series)
    assert [series.label for series in lines_of(found["loss"]).series] == ["A prenorm", "B attnres-block"]
    assert "single runs: no interval".capitalize() in lines_of(found["loss-difference"]).caption


def test_a_long_training_curve_keeps_its_mean(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "long", steps=100)
    for step in range(101, 2101):
        append_row(run.metrics_path, {"kind": "train", "step": step, "tokens": 2048 * step, "loss": 2.0 + step % 2})
    found = {picture.key: picture for picture in pictures(alone(run))}
    series = lines_of(found["training-loss"]).series[0]
    assert len(series.x) == 400
    assert series.x[-1] == 2048 * 2100
    assert series.y[-1] == pytest.approx(2.5, abs=0.11)
    assert "Mean over 400 stretches of the training." in lines_of(found["training-loss"]).caption


def two_runs(root: Path, **how: Any) -> Comparison:
    fabricate(root, "a", **how)
    fabricate(root, "b", residual=BLOCK_SCHEME, better_by=0.05, **how)
    return Comparison.of_runs([read_run(RunDirectory(root / name), label) for name, label in (("a", "A"), ("b", "B"))])


def alone(run: RunDirectory) -> Comparison:
    return Comparison.of_runs([read_run(run, "A")])


# ---------------------------------------------------------------------- by depth, through training


def observed(run: RunDirectory, step: int, better_by: float) -> None:
    resolved = run.resolved()
    for row in observations(resolved, step, 2048 * step, better_by):
        run.append_observation(row)


def test_magnitudes_are_those_of_the_observers_step_by_step(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a", observed=False)
    for step, better in ((10, 0.0), (50, 0.1), (100, 0.2)):
        observed(run, step, better)
    picture = next(each for each in pictures(alone(run)) if each.key == "stream-rms")
    assert isinstance(picture, Views)
    assert (picture.by, picture.names, picture.shown) == ("training step", ("10", "50", "100"), 2)
    rows = raw(run, "probes/observations.jsonl")
    written = [row["summary"]["stream_rms"] for row in rows if row["observer"] == "magnitudes"]
    assert [list(view.series[0].y) for view in picture.views if isinstance(view, Lines)] == written
    assert [view.series[0].x for view in picture.views if isinstance(view, Lines)] == [(0, 1, 2, 3, 4, 5)] * 3
    scales = {(view.y.logarithmic, view.y_range) for view in picture.views if isinstance(view, Lines)}
    assert len(scales) == 1, "views that are compared share their scale"
    ((logarithmic, ends),) = scales
    assert logarithmic
    assert ends is not None
    assert ends[0] < min(min(each) for each in written) < max(max(each) for each in written) < ends[1]


def test_gradients_count_blocks_as_the_record_does(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a")
    found = {picture.key: picture for picture in pictures(alone(run))}
    parameters = lines_of(found["parameter-gradients"]).series[0]
    activations = lines_of(found["activation-gradients"]).series[0]
    assert (parameters.x, activations.x) == ((0, 1, 2, 3, 4), (1, 2, 3, 4, 5))
    assert parameters.y == pytest.approx([0.5 / (b + 1) for b in range(5)])


def test_of_many_steps_so_many_are_shown_that_a_slider_has_room(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a", observed=False)
    for step in range(1, 101):
        observed(run, step, 0.0)
    picture = next(each for each in pictures(alone(run)) if each.key == "output-rms")
    assert isinstance(picture, Views)
    assert len(picture.names) == 16
    assert (picture.names[0], picture.names[-1]) == ("1", "100")


def test_a_run_that_ended_earlier_is_shown_as_it_ended(tmp_path: Path) -> None:
    short = fabricate(tmp_path, "a", steps=60)
    long = fabricate(tmp_path, "b", residual=BLOCK_SCHEME, steps=100)
    both = Comparison.of_runs([read_run(short, "A"), read_run(long, "B")])
    picture = next(each for each in pictures(both) if each.key == "stream-rms")
    assert isinstance(picture, Views)
    assert picture.names == ("60", "100")
    early, late = (view for view in picture.views if isinstance(view, Lines))
    assert [series.label for series in early.series] == ["A prenorm"]
    assert [series.label for series in late.series] == ["A prenorm", "B attnres-block"]


def test_a_probe_of_the_same_step_goes_before_the_observer(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a")
    plain = next(each for each in pictures(alone(run)) if each.key == "stream-rms")
    fabricate_probes(run, better_by=0.2, only=("magnitudes",))
    probed = next(each for each in pictures(alone(run)) if each.key == "stream-rms")
    assert lines_of(probed).series[0].y != lines_of(plain).series[0].y
    assert lines_of(probed).series[0].y[-1] == pytest.approx(0.3 * 5 ** (1.2 - 0.4))
    assert "Probed at step 100 on 8,192 validation tokens." in lines_of(probed).caption
    assert "robed" not in lines_of(plain).caption


def test_an_axis_is_logarithmic_only_where_every_value_is_positive(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a", observed=False)
    resolved = run.resolved()
    rows = observations(resolved, 100, 204800, 0.0)
    rows[0]["summary"]["stream_rms"][0] = 0.0
    for row in rows:
        run.append_observation(row)
    picture = lines_of(next(each for each in pictures(alone(run)) if each.key == "stream-rms"))
    assert not picture.y.logarithmic
    assert picture.y_range is not None
    assert picture.y_range[0] <= 0.0


# ---------------------------------------------------------------------- depth weights


def test_depth_weights_are_means_over_the_runs_on_one_scale(root: Path, group: Comparison) -> None:
    found = {picture.key: heat_of(picture) for picture in pictures(group) if picture.key.startswith("depth-weights")}
    assert list(found) == ["depth-weights-attnres-block", "depth-weights-attnres-full"]
    ((low, high, diverging),) = {(heat.low, heat.high, heat.diverging) for heat in found.values()}
    assert (low, diverging) == (0.0, False)
    choosing = sorted(
        weight
        for each in found.values()
        for row in each.values
        if len(weights := [value for value in row if value is not None]) > 2
        for weight in weights
    )
    assert (
        sum(weight <= high for weight in choosing)
        >= 0.95 * len(choosing)
        > sum(weight <= high - 0.05 for weight in choosing)
    )
    assert all(f"Colours end at {high:g}" in heat.caption for heat in found.values())
    heat = found["depth-weights-attnres-block"]
    written = json.loads((root / "attnres-block-s0" / "probed" / "step-000100" / "depth-weights.json").read_text())
    for row, (site, values) in enumerate(zip(written["summary"]["sites"], heat.values, strict=True)):
        weights = dict(zip(site["sources"], site["mean"], strict=True))
        assert values == tuple(None if name not in weights else pytest.approx(weights[name]) for name in heat.columns)
        kind = site["kind"].replace("_", "-")
        assert heat.rows[row] == (kind if kind == "output" else f"{kind} {site['ordinal'] // 2}")


def test_the_weights_of_a_deep_model_are_told_apart_by_their_colours(tmp_path: Path) -> None:
    """Half of them are below 0.05: on a scale from 0 to 1 all of those have one colour."""
    run = fabricate(tmp_path, "deep", residual=FULL_SCHEME, change={"model.transformer_blocks": 24}, observed=False)
    sites = [
        {"ordinal": n, "kind": ("attention", "feed_forward")[n % 2], "sources": [f"source {m}" for m in range(n + 1)],
         "mean": [2 * (m + 1) / ((n + 1) * (n + 2)) for m in range(n + 1)]}
        for n in range(48)
    ]  # fmt: skip
    run.append_observation({"step": 100, "tokens": 1, "observer": "depth_weights", "summary": {"sites": sites}})
    heat = heat_of(next(each for each in pictures(alone(run)) if each.key.startswith("depth-weights")))
    shares = [heat.share(value) for row in heat.values[2:] for value in row if value is not None]
    assert sorted(shares)[len(shares) // 2] > 0.1
    assert sum(share == 1.0 for share in shares) <= 0.05 * len(shares)
    assert heat.values[0][0] == 1.0, "the number stays, whatever its colour"


def test_with_two_sources_at_most_the_scale_is_that_of_all_shares(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a", residual=BLOCK_SCHEME, observed=False)
    site = {"ordinal": 1, "kind": "feed_forward", "sources": ["embedding", "block 1"], "mean": [0.25, 0.75]}
    run.append_observation({"step": 100, "tokens": 1, "observer": "depth_weights", "summary": {"sites": [site]}})
    heat = heat_of(next(each for each in pictures(alone(run)) if each.key.startswith("depth-weights")))
    assert (heat.low, heat.high) == (0.0, 1.0)


# ---------------------------------------------------------------------- probes beside observers


def test_a_mean_is_over_probes_only_where_every_run_was_probed_alike(tmp_path: Path) -> None:
    """A probe looks at other tokens than the observers: a mean over some of both is a mean of nothing."""
    runs = [
        *fabricate_arm(tmp_path, "prenorm", better_by=(0.0, 0.0)),
        *fabricate_arm(tmp_path, "block", residual=BLOCK_SCHEME, better_by=(0.05, 0.06), began=1),
    ]
    keys = ("stream-rms", "parameter-gradients", "depth-weights-block")

    def found() -> dict[str, Picture]:
        return {each.key: each for each in pictures(comparison(runs)) if each.key in keys}

    before = found()
    for run in runs[1:]:
        fabricate_probes(run, better_by=0.3)
    for key, picture in found().items():
        view, same = still(picture), still(before[key])
        assert to_dict(view) == to_dict(same) | {"caption": view.caption}, key
        assert "Probed at" not in view.caption
        if key != "depth-weights-block":
            expected = "Shown is what the observers recorded in training (1 of 2 runs of prenorm probed)."
            assert expected in view.caption
    fabricate_probes(runs[0], better_by=0.3)
    for key, picture in found().items():
        view = still(picture)
        assert "Probed at step 100 on 8,192 validation tokens." in view.caption
        if isinstance(view, Lines):
            assert view.series != lines_of(before[key]).series
    described = runs[0].path / "probed" / "step-000100" / "magnitudes.json"
    described.write_text(described.read_text().replace('"tokens": 8192', '"tokens": 4096'))
    view = still(found()["stream-rms"])
    assert to_dict(view) == to_dict(still(before["stream-rms"])) | {"caption": view.caption}
    assert "(probed at different steps or on different tokens)" in view.caption


def test_without_observers_the_probes_are_shown_and_the_caption_counts_them(tmp_path: Path) -> None:
    runs = [
        *fabricate_arm(tmp_path, "prenorm", better_by=(0.0, 0.0), observed=False),
        *fabricate_arm(tmp_path, "block", residual=BLOCK_SCHEME, better_by=(0.05, 0.06), began=1, observed=False),
    ]
    for run in runs[1:]:
        fabricate_probes(run)
    view = still(next(each for each in pictures(comparison(runs)) if each.key == "stream-rms"))
    assert "Probed at step 100 on 8,192 validation tokens; 1 of 2 runs of prenorm probed." in view.caption


def test_weights_that_are_no_shares_get_a_scale_around_zero(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a", residual=BLOCK_SCHEME, observed=False)
    site = {"ordinal": 1, "kind": "feed_forward", "sources": ["embedding", "block 1"], "mean": [-0.5, 1.7]}
    run.append_observation({"step": 100, "tokens": 1, "observer": "depth_weights", "summary": {"sites": [site]}})
    heat = heat_of(next(each for each in pictures(alone(run)) if each.key.startswith("depth-weights")))
    assert (heat.low, heat.high, heat.diverging) == (-1.7, 1.7, True)


@pytest.mark.parametrize("sites", [None, "x", [1], [{"ordinal": 0, "sources": ["a"], "mean": []}], [{"mean": [1.0]}]])
def test_a_record_that_says_something_else_is_passed_over(sites: object, tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a", residual=BLOCK_SCHEME, observed=False)
    run.append_observation({"step": 100, "tokens": 1, "observer": "depth_weights", "summary": {"sites": sites}})
    assert not [each for each in pictures(alone(run)) if each.key.startswith("depth-weights")]


@pytest.mark.parametrize("values", [None, "x", [], ["x", None], [{}], 3.0])
def test_figures_that_are_no_numbers_are_no_curve(values: object, tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a", observed=False)
    run.append_observation({"step": 100, "tokens": 1, "observer": "magnitudes", "summary": {"stream_rms": values}})
    assert not [each for each in pictures(alone(run)) if each.key == "stream-rms"]


def test_arms_whose_names_look_alike_in_a_file_name_have_keys_of_their_own(tmp_path: Path) -> None:
    from dataclasses import replace

    found = two_runs(tmp_path)
    arms = [replace(arm, label=label) for arm, label in zip(found.arms, ("x 1", "x-1"), strict=True)]
    alike = Comparison(arms, arms[0])
    for run in alike.runs:
        fabricate_probes(RunDirectory(run.path))
    assert {each.key for each in pictures(alike) if each.key.startswith("mixing")} == {"mixing-x-1-0", "mixing-x-1-1"}


# ---------------------------------------------------------------------- what probes found


def test_what_probes_found_is_drawn_with_the_interval_over_seeds(drawn: dict[str, Picture]) -> None:
    found = series_of(drawn["skipped-blocks"], "attnres-block")
    values = [0.8 + better for better in BETTER]
    assert found.y[0] == pytest.approx(mean(values))
    assert found.low is not None
    assert found.low[0] == pytest.approx(interval(values)[0], abs=1e-6)
    assert lines_of(drawn["skipped-blocks"]).zero
    assert "Removable within 1 % of the loss: 2 of prenorm, 2 of attnres-block" in still(drawn["pruning"]).alternative
    assert series_of(drawn["pruning"], "prenorm").x == (1, 2, 3, 4, 5)
    assert series_of(drawn["lens"], "prenorm").x == (0, 1, 2, 3, 4, 5)
    assert series_of(drawn["lens"], "prenorm").y[0] == pytest.approx(5.5)
    cosine = lines_of(drawn["token-cosine"])
    assert not cosine.y.logarithmic


def test_a_single_probed_run_shows_the_interval_over_sequences(tmp_path: Path) -> None:
    run = fabricate_probes(fabricate(tmp_path, "a", residual=FULL_SCHEME))
    found = {picture.key: picture for picture in pictures(alone(run))}
    skipped = lines_of(found["skipped-blocks"])
    assert skipped.series[0].low is not None
    assert skipped.series[0].low[0] == pytest.approx(0.9 * 0.8 - 0.005)
    assert "Interval: 95 % over validation sequences" in skipped.caption
    importance = lines_of(found["importance-a"])
    assert importance.x.names == ("embedding", "block 1", "block 2", "block 3")
    assert importance.series[0].y == pytest.approx([0.4, 0.2, 0.4 / 3, 0.1])
    assert importance.series[0].low == pytest.approx([0.8 * each for each in (0.4, 0.2, 0.4 / 3, 0.1)])
    beside = lines_of(found["importance"]).series[0]
    assert list(zip(beside.x, beside.y, strict=True)) == [
        (pytest.approx(0.3 / place), pytest.approx(0.4 / place)) for place in (4, 3, 2, 1)
    ]
    assert not beside.joined
    assert lines_of(found["importance-families"]).x.names == ("embedding", "attention", "feed-forward")


def test_an_arm_that_was_probed_in_part_says_so(tmp_path: Path) -> None:
    for arm, residual in (("prenorm", None), ("attnres-block", BLOCK_SCHEME)):
        first, *_ = fabricate_arm(tmp_path, arm, residual=residual, better_by=(0.0, 0.1, 0.2))
        fabricate_probes(first)
    found = comparison([RunDirectory(path) for path in sorted(tmp_path.iterdir())], baseline="prenorm")
    by_key = {picture.key: picture for picture in pictures(found)}
    for key in ("skipped-blocks", "mixing-prenorm", "importance", "importance-attnres-block"):
        assert re.search(r"1 of 3 runs of (prenorm|attnres-block) probed\.", still(by_key[key]).caption)
    assert "Interval: 95 % over validation sequences" in still(by_key["skipped-blocks"]).caption


def test_the_mixing_matrices_share_a_scale_and_are_empty_above_the_diagonal(drawn: dict[str, Picture]) -> None:
    heats = [heat_of(picture) for key, picture in drawn.items() if key.startswith("mixing")]
    assert len(heats) == 3
    assert len({(heat.low, heat.high) for heat in heats}) == 1
    for heat in heats:
        assert (len(heat.rows), len(heat.columns)) == (11, 11)
        for row, values in enumerate(heat.values):
            assert [value is None for value in values] == [column > row for column in range(11)]
    assert "effective rank 6.6 of 11" in heats[0].alternative


# ---------------------------------------------------------------------- every picture


def comparisons(tmp_path: Path, group: Comparison) -> Iterator[Comparison]:
    yield group
    yield two_runs(tmp_path / "two")
    probed = fabricate_probes(fabricate(tmp_path / "one", "x", residual=BLOCK_SCHEME))
    yield alone(probed)
    broken = fabricate(tmp_path / "broken", "diverged", status="diverged", until_step=40)
    (broken.path / "probes" / "observations.jsonl").write_text('{"step": 1, "observer": "magni')
    fine = fabricate(tmp_path / "broken", "fine", residual=BLOCK_SCHEME)
    yield Comparison.of_runs([read_run(broken, "A"), read_run(fine, "B")])
    empty = RunDirectory.create(tmp_path / "empty", "x", "nothing")
    yield Comparison.of_runs([read_run(empty, "A")])


def test_every_picture_is_whole_and_says_in_words_what_it_shows(tmp_path: Path, group: Comparison) -> None:
    for found in comparisons(tmp_path, group):
        for picture in pictures(found):
            assert picture.title
            if isinstance(picture, Views):
                assert len(picture.names) == len(picture.views) > 1
                assert 0 <= picture.shown < len(picture.views)
            for view in all_stills(picture):
                check_still(view)


def check_still(view: Lines | Heat) -> None:
    assert any(character.isdigit() for character in view.alternative), view.key
    assert "nan" not in view.alternative.lower()
    json.dumps(to_dict(view), allow_nan=False)
    if isinstance(view, Heat):
        assert len(view.values) == len(view.rows)
        assert all(len(row) == len(view.columns) for row in view.values)
        known = [value for row in view.values for value in row if value is not None]
        assert view.low <= min(known)
        assert max(known) <= view.high or f"colours end at {view.high:g}" in view.caption.lower(), view.key
        return
    for series in view.series:
        assert len(series.x) == len(series.y)
        assert (series.low is None) == (series.high is None)
        assert all(len(side) == len(series.x) for side in (series.low, series.high) if side is not None)
        if view.y.logarithmic:
            assert all(value > 0 for side in (series.y, series.low or ()) for value in side if value is not None)
        if view.x.names:
            assert all(0 <= x < len(view.x.names) for x in series.x)


def test_runs_that_recorded_nothing_have_no_picture(tmp_path: Path) -> None:
    assert pictures(alone(RunDirectory.create(tmp_path, "x", "nothing"))) == []


def test_every_file_of_pictures_takes_part() -> None:
    orders = [module.ORDER for module in builders()]
    assert len(orders) >= 9
    assert orders == sorted(set(orders)), "every file has a place of its own"


def test_pictures_are_chosen_by_key_and_pattern(drawn: dict[str, Picture]) -> None:
    available = list(drawn.values())
    assert [each.key for each in chosen(available, ["mixing*", "loss"], where="--only")] == [
        "loss", "mixing-prenorm", "mixing-attnres-block", "mixing-attnres-full",
    ]  # fmt: skip
    with pytest.raises(UserError, match="no picture 'los'") as failure:
        chosen(available, ["los"], where="--only")
    assert failure.value.faults[0].nearest == "loss"
