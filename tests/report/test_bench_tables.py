"""What `attnres bench` prints, from fabricated samples: golden texts at 80 columns, in a pipe and as Markdown."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from attnres_cli.bench.interleaved import BenchResult, median_interval
from attnres_cli.report.document import Document, render
from attnres_cli.report.tables.bench import bench_document, headline
from attnres_cli.report.tables.bench_depth import depth_document
from attnres_cli.report.tables.bench_operator import operator_document
from tests.fabricated_bench import CUDA, MIB, SETTING, arm, payload, result
from tests.golden_files import check_golden


def with_judgement(values: dict[str, Any]) -> dict[str, Any]:
    block = values["arms"][1]["ratio"]
    then = {**block, "median": 1.03, "low": 1.02, "high": 1.04}
    changed = [
        {"arm": "attnres-block", "now": block, "then": then, "change": block["median"] - 1.03, "apart": False},
        {"arm": "attnres-full", "now": values["arms"][2]["ratio"], "then": None, "change": None, "apart": None},
    ]
    said = "attnres-block.step_ratio > 1.04: 1.042 > 1.04 is true"
    return {
        **values,
        "against": {"file": "earlier.json", "changes": changed, "differences": ["threads: 1 now, 2 then"]},
        "conditions": [{"text": "attnres-block.step_ratio > 1.04", "holds": True, "said": said}],
    }


def depth_payload() -> dict[str, Any]:
    arms: list[dict[str, Any]] = []
    depths = []
    for blocks, ratio in ((8, 1.02), (64, 1.2)):
        seconds = blocks / 20
        measured = BenchResult(
            (arm("prenorm", seconds, 10 * blocks + 30), arm("attnres-full", ratio * seconds, 10 * blocks + 34)),
            1,
            SETTING,
        )
        bench = payload(measured)
        for each in bench["arms"]:
            each |= {"name": f"{each['name']}@{blocks}", "transformer_blocks": blocks}
        arms += bench["arms"]
        kept = ("setting", "clock", "warnings", "notes", "calls")
        depths.append({"transformer_blocks": blocks, **{key: bench[key] for key in kept}})
    return {**payload(), "arms": arms, "depths": depths}


def operator_payload() -> dict[str, Any]:
    arms = []
    for scheme, backend, milliseconds, fused in (
        ("prenorm", "cpu", 2.0, True),
        ("prenorm", "reference", 3.0, False),
        ("attnres-full", "cpu", 7.0, True),
        ("attnres-full", "reference", 90.0, False),
    ):
        for passes, factor in (("forward", 1.0), ("both", 3.0)):
            seconds = milliseconds * factor / 1000
            ratio = median_interval([seconds / 0.0015 / factor * (1 + index / 100) for index in range(-3, 4)])
            arms.append(
                {
                    "name": f"{scheme}@{backend}", "scheme": scheme, "backend": backend, "passes": passes,
                    "fused": fused, "wall_seconds": [seconds] * 7, "ratio": vars(ratio), "is_baseline": False,
                    "metrics": {
                        "seconds": seconds, "moved_bytes": 12 * MIB * factor, "flops": 1e6 * factor,
                        "bytes_per_second": 12 * MIB * factor / seconds, "flops_per_second": 1e6 * factor / seconds,
                        "floor_seconds": 0.0015 * factor, "floor_ratio": ratio.median, "peak_bytes": 3 * MIB,
                    },
                }
            )  # fmt: skip
    values = payload()
    return {
        **values,
        "arms": arms,
        "load": {"unit": "residual path", "sequences": 2, "tokens": 1024},
        "ceilings": {"copy_bytes_per_second": 9e9, "matrix_flops_per_second": 1e11},
        "notes": ["left out: triton: it computes on CUDA, not on cpu"],
    }


def cuda_payload() -> dict[str, Any]:
    facts = {"backend": "triton", "backend_reason": "first choice on cuda", "device_peak_flops": 9.894e14}
    compiled = {"compiled": True, "first_call_seconds": 40.0, "graphs": 1, "graph_breaks": 0, "recompiles": 0}
    return payload(result(CUDA, **facts, **compiled, flops_per_call=1e14))


DOCUMENTS = {
    "bench": lambda: bench_document(with_judgement(payload())),
    "bench-cuda": lambda: bench_document(cuda_payload()),
    "bench-depth": lambda: depth_document(depth_payload()),
    "bench-operator": lambda: operator_document(operator_payload()),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_at_80_columns(name: str) -> None:
    text = render(DOCUMENTS[name](), "table", width_columns=80)
    assert max(map(len, text.splitlines())) <= 80
    check_golden(f"{name}_80.txt", text)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_format(name: str) -> None:
    document: Document = DOCUMENTS[name]()
    assert "…" not in render(document, "table")
    for format_name in ("markdown", "csv"):
        assert "prenorm" in render(document, format_name)
    loaded = json.loads(render(document, "json"))
    assert loaded["schema"] == f"attnres.{name.removesuffix('-cuda')}/1"
    assert loaded["arms"][0]["metrics"] == document.payload["arms"][0]["metrics"]


def test_a_single_arm_has_no_ratio_and_says_how_to_get_one() -> None:
    alone = replace(result(), arms=result().arms[:1])
    (line,) = headline(payload(alone))
    assert line.startswith("prenorm: 500 ms a training step (process CPU time, 1 thread, 15 rounds)")
    assert "second --residual" in line
    assert "ratio: median" not in render(bench_document(payload(alone)), "table")
