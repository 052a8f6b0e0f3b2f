from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.residual.arms import default_arms
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.definition import read_definition
from attnres_cli.sweep.kinds.depth_width import DepthWidth, make_request


def labels(**options: object) -> list[str]:
    return [arm.label for arm in make_request(**{"ref": "cpu-tiny", **options}).arms]  # type: ignore[arg-type]


def test_left_out_means_what_the_definition_says() -> None:
    definition = read_definition("depth-width", DepthWidth)
    request = make_request(None)
    assert request.preset.name == definition.preset
    assert request.settings["ratios"] == sorted(definition.ratios)
    assert [arm.label for arm in request.arms] == list(default_arms("sweep"))
    assert request.budget == Budget("minutes", definition.budget_minutes)
    assert request.settings["learning_rate_power"] == definition.learning_rate_power
    assert request.settings["match"] == "parameters"


def test_a_named_preset_trains_for_its_own_horizon() -> None:
    assert make_request("cpu-tiny").budget == Budget("preset")
    assert make_request("cpu-tiny", budget=Budget("flops", 1e12)).budget == Budget("flops", 1e12)


def test_a_preset_with_another_scheme_puts_it_beside_the_reference() -> None:
    reference = default_arms("sweep")[0]
    arms = make_request("cpu-tiny", sets=['residual.scheme="attnres-full"', "residual.gain=false"]).arms
    assert [arm.label for arm in arms] == [reference, "attnres-full"]
    assert arms[1].residual["gain"] is False


def test_schemes_asked_for_replace_all_others_in_their_order() -> None:
    assert labels(residuals=["attnres-full", "prenorm"]) == ["attnres-full", "prenorm"]
    assert labels(residuals=["attnres-full"]) == ["attnres-full"]


def test_a_scheme_given_twice_is_refused() -> None:
    with pytest.raises(UserError, match="'prenorm' is given twice") as caught:
        labels(residuals=["prenorm", "prenorm"])
    assert caught.value.exit_code == ExitCode.USAGE


def test_an_unknown_scheme_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError) as caught:
        labels(residuals=["attnres-ful"])
    assert caught.value.faults[0].nearest == "attnres-full"


def test_settings_of_a_scheme_that_residual_would_drop_are_refused() -> None:
    with pytest.raises(UserError, match=r"--set residual.scheme=.* has no effect"):
        labels(residuals=["prenorm"], sets=['residual.scheme="attnres-full"'])


def test_the_default_name_is_that_of_the_request() -> None:
    assert make_request("cpu-tiny").default_name == make_request("cpu-tiny").default_name
    assert make_request("cpu-tiny").default_name.startswith("depth-width-cpu-tiny-")
    different = [
        make_request("cpu-tiny", ratios=(8.0,)),
        make_request("cpu-tiny", match="flops"),
        make_request("cpu-tiny", sets=["train.seed=1"]),
        make_request("cpu-tiny", learning_rate_power=-0.7),
        make_request("cpu-tiny", seeds=3),
    ]
    assert len({request.default_name for request in different}) == 5


def test_seeds_follow_the_presets_own() -> None:
    request = make_request("cpu-tiny", sets=["train.seed=7"], seeds=3)
    assert request.seed_values == (7, 8, 9)
    assert make_request("cpu-tiny").seeds == read_definition("depth-width", DepthWidth).seeds


@pytest.mark.parametrize("seeds", [0, -1, 1001])
def test_a_number_of_seeds_that_nobody_means_is_refused(seeds: int) -> None:
    with pytest.raises(UserError, match=f"--seeds {seeds}") as caught:
        make_request("cpu-tiny", seeds=seeds)
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_project_may_have_its_own_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "presets" / "sweeps").mkdir(parents=True)
    file = tmp_path / "presets" / "sweeps" / "depth-width.toml"
    file.write_text(
        'preset = "cpu-tiny"\narms = ["prenorm"]\nratios = [9]\nbudget_minutes = 1\nlearning_rate_power = 0\n'
    )
    assert [arm.label for arm in make_request(None).arms] == ["prenorm"]
    file.write_text('preset = "cpu-tiny"\narms = "all"\nratios = [-9]\nwidth = 3\n')
    with pytest.raises(UserError) as caught:
        make_request(None)
    text = "\n".join(fault.what for fault in caught.value.faults)
    for key in ("arms", "ratios.0", "width", "budget_minutes", "learning_rate_power"):
        assert key in text
