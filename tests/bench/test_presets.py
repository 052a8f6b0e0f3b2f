"""Presets as arms in every mode: what is counted, that every call does the same work, and the round trip to JSON."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from attnres_cli.bench.interleaved import BenchResult
from attnres_cli.bench.presets import bench_presets
from attnres_cli.bench.work import Work, load_mode, mode_names
from attnres_cli.errors import UserError
from attnres_cli.model.counting import forward_flops_per_token, training_flops_per_token
from tests.small import RESIDUALS, VOCAB_SIZE, small_model, small_preset

PROMPT = 9


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def work_of(mode: str, residual: str = "full", **changes: Any) -> Work:
    return load_mode(mode).build(
        small_preset(RESIDUALS[residual], **changes),
        VOCAB_SIZE,
        torch.device("cpu"),
        prompt_tokens=PROMPT,
        announce=lambda text: None,
    )


def test_bench_of_two_schemes() -> None:
    presets = {name: small_preset(RESIDUALS[name]) for name in ("prenorm", "full")}
    told: list[tuple[str, int, int]] = []
    result = bench_presets(
        presets,
        vocab_sizes=dict.fromkeys(presets, VOCAB_SIZE),
        pairs=3,
        progress=lambda stage, done, total: told.append((stage, done, total)),
    )
    assert [arm.name for arm in result.arms] == ["prenorm", "full"]
    building = [("building prenorm", 0, 2), ("building full", 1, 2)]
    assert told == [*building, ("rounds", 1, 3), ("rounds", 2, 3), ("rounds", 3, 3)]
    full = result.arm("full")
    assert len(full.wall_seconds) == len(full.cpu_seconds) == 3
    assert full.facts["scheme"] == "attnres-full"
    assert full.facts["parameters"] - result.arm("prenorm").facts["parameters"] == 9 * 2 * 16
    assert full.facts["training_flops_per_token"] == training_flops_per_token(small_model(RESIDUALS["full"]), 16)
    assert full.facts["flops_per_call"] == 64 * full.facts["training_flops_per_token"]
    assert full.facts["first_call_seconds"] > 0
    assert full.facts["backend"] in ("cpu", "torch")
    assert full.facts["compiled"] is False
    # Weights, two moments of each, a step counter of each parameter, and the rotary tables.
    model = small_model(RESIDUALS["full"], dtype=torch.float32)
    weights = 4 * full.facts["parameters"]
    tables = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    counters = 4 * sum(1 for name, _ in model.named_parameters() if "sites.0" not in name)
    dead = sum(p.numel() for name, p in model.named_parameters() if "sites.0" in name)  # no gradient, so no moments
    assert full.resident_bytes == weights + 2 * (weights - 4 * dead) + counters + tables
    assert full.peak_bytes is not None
    assert full.peak_bytes > full.resident_bytes
    assert BenchResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


@pytest.mark.parametrize("mode", mode_names())
def test_every_mode_is_timed_for_every_scheme(mode: str) -> None:
    presets = {name: small_preset(RESIDUALS[name]) for name in ("prenorm", "3 blocks")}
    result = bench_presets(
        presets, vocab_sizes=dict.fromkeys(presets, VOCAB_SIZE), mode=mode, prompt_tokens=PROMPT, pairs=2
    )
    for arm in result.arms:
        assert min(arm.wall_seconds) > 0
        assert arm.resident_bytes is not None
        assert arm.resident_bytes > 4 * arm.facts["parameters"]


def test_short_calls_are_repeated_alike_and_times_are_of_one_call() -> None:
    presets = {name: small_preset(RESIDUALS[name]) for name in ("prenorm", "full")}
    options: dict[str, Any] = {"vocab_sizes": dict.fromkeys(presets, VOCAB_SIZE), "mode": "decode", "prompt_tokens": 4}
    assert bench_presets(presets, **options, pairs=1).calls == 1
    began = time.perf_counter()
    result = bench_presets(presets, **options, pairs=3, sample_seconds=0.05)
    elapsed = time.perf_counter() - began
    assert result.calls > 1
    assert result.calls * sum(sum(arm.wall_seconds) for arm in result.arms) < elapsed


def test_what_the_modes_count() -> None:
    model = small_model(RESIDUALS["full"])
    parts = forward_flops_per_token(model, 16)
    forward = work_of("forward")
    assert (forward.tokens, forward.flops) == (64, 64 * sum(parts.values()))
    train = work_of("train")
    assert (train.tokens, train.flops) == (64, 3 * forward.flops)

    # Per layer and query, each key costs a dot product and a weighted sum over all heads' channels: 4 d FLOPs.
    d, layers = 16, 4
    without_keys = sum(forward_flops_per_token(model, 0).values())
    decode = work_of("decode")
    assert (decode.tokens, decode.flops) == (1, without_keys + layers * 4 * d * (PROMPT + 1))
    prefill = work_of("prefill")
    keys = PROMPT * PROMPT / 2  # the house's count for a causal pass
    body = (without_keys - parts["head"]) * PROMPT + layers * 4 * d * keys
    assert (prefill.tokens, prefill.flops) == (PROMPT, body + parts["head"])


def test_decode_holds_the_cache_and_every_call_does_the_same() -> None:
    work = work_of("decode", "prenorm")
    # Keys and values of every layer for the prompt and the token after it, and the prompt itself.
    cache = 2 * 4 * (PROMPT + 1) * 16 * 4
    model = small_model(RESIDUALS["prenorm"], dtype=torch.float32)
    own = sum(each.numel() * each.element_size() for each in (*model.parameters(), *model.buffers()))
    assert work.resident_bytes() == own + cache + 8 * (PROMPT + 1)
    for _ in range(20):  # the cache would be full after the first one if the token stayed in it
        work.call()
    assert work.resident_bytes() == own + cache + 8 * (PROMPT + 1)


@pytest.mark.parametrize("compiler", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_arms_say_what_compiling_took(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is that makes code of a graph; the one that needs g++ takes half a minute."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=compiler))
    preset = small_preset(RESIDUALS["prenorm"], **{"train.compile": "on", "model.transformer_blocks": 1})
    result = bench_presets({"a": preset}, vocab_sizes={"a": VOCAB_SIZE}, mode="forward", pairs=1)
    facts = result.arms[0].facts
    if not facts["compiled"]:
        pytest.skip(f"no compiler here: {result.notes}")
    assert (facts["graphs"], facts["recompiles"]) == (1, 0)
    assert facts["first_call_seconds"] > result.arms[0].median_seconds()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_device_that_is_not_there() -> None:
    presets = {"a": small_preset(), "b": small_preset(**{"train.device": "cuda:0"})}
    with pytest.raises(UserError, match="cuda:0"):
        bench_presets(presets, vocab_sizes=dict.fromkeys(presets, VOCAB_SIZE), pairs=1)


def test_an_unknown_mode_names_the_nearest() -> None:
    with pytest.raises(UserError) as caught:
        load_mode("decod")
    assert caught.value.faults[0].nearest == "decode"
