"""Presets as arms of an interleaved bench, in any mode; their compiling and their peak of memory are measured apart."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from attnres_cli.bench.arms import synchronize
from attnres_cli.bench.compiling import Compiled, compiled_so_far
from attnres_cli.bench.device_peaks import peak_flops_per_second
from attnres_cli.bench.interleaved import Arm, BenchResult, interleave
from attnres_cli.bench.peak import peak_bytes
from attnres_cli.bench.work import Work, load_mode
from attnres_cli.errors import UserError
from attnres_cli.model.counting import training_flops_per_token
from attnres_cli.preset.reading import Preset
from attnres_cli.residual.backends import choose_backend
from attnres_cli.train.device import choose_device, set_up

# (what is being done, done, of how many), off the clock.
Progress = Callable[[str, int, int], None]


def bench_presets(
    presets: Mapping[str, Preset],
    *,
    vocab_sizes: Mapping[str, int],
    mode: str = "train",
    prompt_tokens: int = 0,
    pairs: int = 7,
    warmup: int = 1,
    sample_seconds: float = 0.0,
    progress: Progress = lambda stage, done, total: None,
) -> BenchResult:
    """Time one call of every arm in turn, `pairs` times; the first arm is the baseline of the ratios.

    mode: a file of bench/modes/. sample_seconds: what a sample takes at least, by several calls of all arms alike where
    the fastest arm's is shorter; times are of one call all the same.

    All models are in memory at once. Each arm's first call, which compiles and fills caches, runs off the clock and is
    kept as the fact `first_call_seconds`; a further untimed call measures the peak of memory. Threads and device are
    those of the first preset; raises UserError where another one asks for a different device.
    """
    device = common_device(presets)
    set_up(next(iter(presets.values())).train, device)
    notes: list[str] = []
    arms: dict[str, _Prepared] = {}
    for name, preset in presets.items():
        progress(f"building {name}", len(arms), len(presets))
        build = load_mode(mode).build
        work = build(preset, vocab_sizes[name], device, prompt_tokens=prompt_tokens, announce=notes.append)
        arms[name] = _prepared(work, device)
        if work.compiled and not arms[name].compiled.graphs:
            notes.append(f"{name}: torch.compile made no graph; this arm ran uncompiled")
    calls = _calls_per_sample(arms, sample_seconds)
    for arm in arms.values():
        arm.calls = calls
    result = interleave(
        {name: arm.run for name, arm in arms.items()},
        pairs=pairs,
        warmup=warmup,
        synchronize=lambda: synchronize(device),
        device=device_label(device),
        progress=lambda done, total: progress("rounds", done, total),
    )
    measured = tuple(_measured(timed, arms[timed.name], presets[timed.name], device) for timed in result.arms)
    return replace(result, arms=measured, calls=calls, notes=tuple(dict.fromkeys(notes)))


@dataclass
class _Prepared:
    """An arm after its first call. calls: of the work to one sample. second_seconds: of one call that neither compiled
    nor was watched."""

    work: Work
    first_call_seconds: float
    second_call_seconds: float
    call_peak_bytes: int
    compiled: Compiled
    calls: int = 1
    recompiled: int = field(default=0)

    def run(self) -> None:
        before = compiled_so_far().graphs
        for _ in range(self.calls):
            self.work.call()
        self.recompiled += compiled_so_far().graphs - before


def _prepared(work: Work, device: torch.device) -> _Prepared:
    before = compiled_so_far()
    first = _seconds(work.call, device)
    compiled = compiled_so_far().since(before)
    second = _seconds(work.call, device)
    peak = peak_bytes(work.call, device)
    later = compiled_so_far().since(before).graphs - compiled.graphs
    return _Prepared(work, first, second, peak, compiled, recompiled=later)


def _calls_per_sample(arms: Mapping[str, _Prepared], sample_seconds: float) -> int:
    fastest = min(arm.second_call_seconds for arm in arms.values())
    return max(1, math.ceil(sample_seconds / max(fastest, 1e-9)))


def _measured(timed: Arm, arm: _Prepared, preset: Preset, device: torch.device) -> Arm:
    return replace(
        timed,
        wall_seconds=tuple(seconds / arm.calls for seconds in timed.wall_seconds),
        cpu_seconds=tuple(seconds / arm.calls for seconds in timed.cpu_seconds),
        resident_bytes=arm.work.resident_bytes(),
        step_peak_bytes=arm.call_peak_bytes,
        facts=_facts(arm, preset, device),
    )


def _facts(arm: _Prepared, preset: Preset, device: torch.device) -> dict[str, Any]:
    """What the figures of an arm are derived from and what a reader must know of it."""
    work = arm.work
    facts = {
        "scheme": preset.residual.scheme,
        "parameters": sum(parameter.numel() for parameter in work.model.parameters()),
        "training_flops_per_token": training_flops_per_token(work.model, preset.model.context_tokens),
        "tokens_per_step": preset.train.tokens_per_step,
        "micro_batch_sequences": preset.train.micro_batch_sequences,
        "precision": preset.train.precision,
        "tokens_per_call": work.tokens,
        "flops_per_call": work.flops,
        "device_peak_flops": _device_peak(preset, device),
        "first_call_seconds": arm.first_call_seconds,
        "compiled": work.compiled and arm.compiled.graphs > 0,
        **backend_facts(preset, device),
    }
    if facts["compiled"]:
        facts |= {"graphs": arm.compiled.graphs, "graph_breaks": arm.compiled.breaks, "recompiles": arm.recompiled}
        facts |= {"backend": "torch", "backend_reason": "its unrolled form is what torch.compile traces"}
    return facts


def backend_facts(preset: Preset, device: torch.device) -> dict[str, str | None]:
    """Who computes the residual path, and why; None where the scheme has no choice."""
    wanted = getattr(preset.residual, "backend", None)
    if wanted is None:
        return {"backend": None, "backend_reason": None}
    choice = choose_backend(wanted, device.type)
    return {"backend": choice.op.NAME, "backend_reason": choice.reason}


def _device_peak(preset: Preset, device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    return peak_flops_per_second(torch.cuda.get_device_name(device), preset.train.precision)


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    synchronize(device)
    start = time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - start


def common_device(presets: Mapping[str, Preset]) -> torch.device:
    """The device of all arms. Raises UserError where it is not there or not one."""
    first = next(iter(presets.values()))
    device = choose_device(first.train.device)
    for name, preset in presets.items():
        if choose_device(preset.train.device) != device:
            raise UserError(
                f"The arms are not on one device: {name} asks for {preset.train.device}, the first arm is on {device}.",
                where="train.device",
            )
    return device


def device_label(device: torch.device) -> str:
    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else "cpu"
