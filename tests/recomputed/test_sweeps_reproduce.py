"""Every number of a reproduction is that of its runs' metrics.jsonl, their observations, and its benches' samples."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import ExitCode
from attnres_cli.preset.preset import Preset
from tests.recomputed import sweeps_arms, sweeps_claims
from tests.recomputed.harness import check_document
from tests.recomputed.sweeps_figures import OBSERVER
from tests.recomputed.sweeps_files import Files
from tests.recomputed.sweeps_lists import ORACLES as LISTS
from tests.recomputed.sweeps_material import Trainer, command, in_a_folder, power_law
from tests.recomputed.sweeps_payload import check_payload

SEEDS = 5
COMMAND = ["reproduce", "--scale", "plan.toml", "--jobs", "1", "--name", "made"]
ORACLES = {**LISTS, **sweeps_claims.ORACLES}
BLOCK, BASE, LONG = "main/attnres-block", "main/prenorm", "longer/prenorm"
DEPTH, WIDTH = "model.transformer_blocks", "model.d_model"
SHAPES = {"wide": (3, 24), "wider": (2, 32), "deep": (8, 12)}  # beside main, which is 4 × 16
BEST = {"attnres-block": 3.1, "prenorm": 5.2, "attnres-full": 60.0}  # of width to depth
# The ends of a compute multiplier, as in the horizon ladder.
ENDS = 1e-5


def plan(claims: list[dict[str, Any]]) -> str:
    """A plan with these claims: two lengths and three shapes more, three arms, a bench."""
    head = {
        "summary": "A plan of a test.", "preset": "./small.toml", "seeds": SEEDS,
        "cells": {
            "main": {},
            **{name: {DEPTH: depth, WIDTH: width} for name, (depth, width) in SHAPES.items()},
            "longer": {"train.horizon_tokens": 64 * 60},
        },
        "arms": {
            "slow": {"scheme": "prenorm", "changes": {"train.learning_rate": 1e-4}},
        },
        "benches": {"step": {"arms": ["prenorm", "attnres-block"], "pairs": 17}},
    }  # fmt: skip
    lines = [f"{key} = {_toml(value)}" for key, value in head.items()]
    for claim in claims:
        lines += ["[[claims]]", *(f"{key} = {_toml(value)}" for key, value in claim.items())]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


def claim(key: str, effect: float | None = 0.5, spread: float = 0.05, **settings: Any) -> dict[str, Any]:
    assumed = (
        {} if effect is None else {"assumed": {"effect": effect, "standard_deviation": spread, "source": "a guess"}}
    )
    words = {"key": key, "claim": f"The claim {key} number {len(key)}.", "paper": "-0.5", "source": "Table 4"}
    return {**words, **assumed, **settings}


def contrast(key: str, effect: float = 0.5, spread: float = 0.05, **settings: Any) -> dict[str, Any]:
    weights = {BLOCK: 1, BASE: -1}
    return claim(key, effect, spread, **{"test": "contrast", "weights": weights, "expected": "below", **settings})


CLAIMS = [
    contrast("lower", -0.3, 0.061),
    contrast(
        "weighted", -0.25, 0.05, weights={BLOCK: 1, BASE: -0.5, LONG: -0.5}, expected="above", bound=0.01, seeds=4
    ),
    contrast("alike", 0.01, 0.02, expected="within", bound=0.12),
    contrast("hopeless", -0.01, 0.05),
    contrast("weak", -0.11, 0.05, weights={"main/slow": 1, BASE: -1}),
    contrast("hopelessly-alike", 0.01, 0.3, expected="within", bound=0.1),
    *(
        contrast(
            name, 3.0 if name != "entropy_share" else 0.4, 0.11, figure=name, expected="above",
            weights={BLOCK: 1, BASE: -1} if OBSERVER[name] != "depth_weights" else {BLOCK: 1}, bound=0.9,
        )
        for name in OBSERVER
    ),
    *(
        claim(
            name, -0.9, 0.11, test="optimum", seeds=seeds,
            **{side: [f"{cell}/{each}" for cell in shapes] for side, each in (("arm", arm), ("baseline", "prenorm"))},
        )
        for name, arm, shapes, seeds in (
            ("moved", "attnres-block", ["wide", "main", "deep", "wider"], 4),
            ("at-an-end", "attnres-full", ["deep", "wide", "main", "wider"], 5),
        )
    ),
    claim("compute", -0.2, 0.02, test="multiplier", arm=BLOCK, ladder=[BASE, LONG], bound=1.1),
    claim("overhead", None, test="overhead", bench="step", arm="attnres-block", bound=1.05),
    claim("cheap", 1.03, 0.02, test="overhead", bench="step", arm="attnres-block", bound=1.07),
    claim("too-cheap", 1.03, 0.05, test="overhead", bench="step", arm="attnres-block", bound=1.04),
]  # fmt: skip


def halfway(preset: Preset, flops: float) -> float:
    """Block as good as a baseline of about twice its compute, which the ladder of two lengths has."""
    ahead = 0.0 if preset.residual.scheme == "prenorm" else 0.1
    shape = preset.model.d_model / preset.model.transformer_blocks / BEST[preset.residual.scheme]
    return power_law(preset.replace({"residual.scheme": "prenorm"}), flops) - ahead + 0.1 * math.log(shape) ** 2


def check(capsys: pytest.CaptureFixture[str], before: dict[str, Any], tables: set[str]) -> list[sweeps_claims.Row]:
    files = Files(Path("runs/made"))
    check_document(before, ORACLES, files, tables={"planned_claims"})
    minutes = sum(sweeps_arms.seconds(files, *each.place) for each in files.everything) / 60
    check_payload(before, {"price": {**sweeps_arms.price(files), "minutes": minutes}})
    shown = command(capsys, "sweep", "show", "made")
    check_document(shown, ORACLES, files, tables=tables | {"claims", "claim_tests", "claims_left_out"})
    wider = {"low": ENDS, "high": ENDS}
    check_payload(shown, {"claims": sweeps_claims.claims_payload(files)}, wider=wider)
    found = sweeps_claims.judged(files)
    outcomes = {each["claim"]: each["outcome"] for each in shown["claims"]}
    assert {key: outcome == "needs larger scale" for key, outcome in outcomes.items()} == {
        each.claim["key"]: not each.is_tested for each in found
    }
    assert shown["outcomes"] == {word: list(outcomes.values()).count(word) for word in shown["outcomes"]}
    assert sum(shown["outcomes"].values()) == len(CLAIMS)
    return found


def test_every_claim_of_a_finished_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run has diverged, and one failed."""
    endings = {"main-attnres-block-s4": "diverged", "longer-prenorm-s0": "failed"}
    in_a_folder(tmp_path, monkeypatch, Trainer(halfway, endings, noise=0.01), **{"train.horizon_tokens": 64 * 20})
    Path("plan.toml").write_text(plan(CLAIMS))
    before = command(capsys, *COMMAND, "--dry-run")
    command(capsys, *COMMAND, code=ExitCode.UNEXPECTED)
    found = check(capsys, before, {"unfinished"})
    powers = [each.power for each in found if each.power is not None]
    assert sum(0.02 < each < 0.995 for each in powers) >= 3, "powers that say something"
    optima = {each.claim["key"]: each.found for each in found if each.claim["test"] == "optimum" and each.found}
    assert optima["moved"].low is not None
    assert optima["at-an-end"].here == "the arm is best at the widest shape or beyond"


def test_every_claim_while_runs_and_the_bench_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endings = {"longer-prenorm-s1": "interrupted"}
    in_a_folder(tmp_path, monkeypatch, Trainer(halfway, endings, noise=0.01), **{"train.horizon_tokens": 64 * 20})
    Path("plan.toml").write_text(plan(CLAIMS))
    before = command(capsys, *COMMAND, "--dry-run")
    command(capsys, *COMMAND, code=ExitCode.INTERRUPTED)
    found = check(capsys, before, {"unfinished"})
    assert {each.claim["key"] for each in found if each.is_tested and each.found is None} >= {"compute", "overhead"}
