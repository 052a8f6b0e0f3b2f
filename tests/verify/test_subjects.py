"""Every scheme that is found can be verified, and what cannot be judged is told with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from attnres_cli import discovery
from attnres_cli.errors import UserError
from attnres_cli.preset.reading import load_preset
from attnres_cli.residual.registry import scheme_names
from attnres_cli.verify.checks import oracle
from attnres_cli.verify.depth import sizes_of, why_not_plain
from attnres_cli.verify.finding import within
from attnres_cli.verify.running import CHECKS, run_all
from attnres_cli.verify.subjects import default_subjects, subject_of

# Back ends do not depend on the scheme.
OF_SCHEMES = [name for name in discovery.names(CHECKS) if name != "backends"]


@pytest.mark.parametrize("scheme", scheme_names())
def test_every_scheme_holds(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "STEPS", 2)
    subject = subject_of(load_preset("cpu-tiny", residual=scheme))
    for name in OF_SCHEMES:
        findings = list(discovery.load(CHECKS, name, what="check").check((subject,)))
        assert [finding for finding in findings if finding.status == "fails"] == []
        assert all(finding.detail for finding in findings if finding.status == "does not apply")
        assert scheme in {finding.subject for finding in findings}


def test_default_subjects_are_the_papers() -> None:
    baseline, full, *blocks = default_subjects()
    assert why_not_plain(baseline) == "not a softmax over depth"
    assert [why_not_plain(subject) for subject in (full, *blocks)] == [None] * (1 + len(blocks))
    assert sizes_of(full) == [1] * 10
    assert [sizes_of(subject) for subject in blocks] == [[1] * 7 + [3], [10], [3, 3, 3, 1]]
    assert full.residual.equals_at_initialisation == baseline.name


@pytest.mark.parametrize("option", [{"depth_heads": 2}, {"window": 3}, {"final_mix": False}, {"temperature": 2.0}])
def test_ablations_are_not_held_to_the_papers_equations(option: dict[str, Any]) -> None:
    values = {f"residual.{key}": value for key, value in ({"scheme": "attnres-full"} | option).items()}
    subject = subject_of(load_preset("cpu-tiny").replace(values))
    assert why_not_plain(subject) == "its options change the mathematics of Eq. 1-6"


def test_a_trunk_keeps_what_counts() -> None:
    preset = load_preset("cpu-deep").replace(
        {"model.num_heads": 4, "model.num_kv_heads": 1, "model.norm_epsilon": 1e-5, "model.tie_embeddings": False}
    )
    model = subject_of(preset).preset.model
    assert (model.num_heads, model.resolved_num_kv_heads, model.norm_epsilon) == (4, 2, 1e-5)
    assert not model.tie_embeddings


def test_a_back_end_that_does_not_work_here_is_no_obstacle() -> None:
    preset = load_preset("cpu-tiny").replace({"residual.scheme": "attnres-full", "residual.backend": "triton"})
    assert getattr(subject_of(preset).preset.residual, "backend", None) == "auto"


def test_a_user_error_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(argument: object) -> Any:
        raise UserError("It is yours.")
        yield

    monkeypatch.setattr(oracle, "check", check)
    with pytest.raises(UserError, match="It is yours"):
        list(run_all(CHECKS, ()))


def test_nan_is_within_nothing() -> None:
    assert within("a", float("nan"), 1.0).status == "fails"
    assert within("a", 1.0, 1.0).status == "ok"
    assert within("a", float("inf"), 1.0).status == "fails"
