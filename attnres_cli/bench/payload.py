"""Benches as the plain values that `attnres bench --json` writes and its tables are built from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attnres_cli.analysis.carried import carried
from attnres_cli.analysis.plan import memory_accesses
from attnres_cli.bench.backends import without_choice
from attnres_cli.bench.compiling import forget_compiled
from attnres_cli.bench.metrics import METRICS, bench_facts
from attnres_cli.bench.presets import Progress, bench_presets
from attnres_cli.bench.work import load_mode
from attnres_cli.errors import ExitCode, UserError
from attnres_cli.model.build import build_model
from attnres_cli.preset.reading import Preset

# Shorter samples than this are mostly the clock's and the scheduler's.
SAMPLE_SECONDS = 0.02
USUAL_PROMPT_TOKENS = 256

Presets = Mapping[str, Preset]


def mode_facts(presets: Presets, vocab_size: int, mode: str, prompt_tokens: int | None) -> dict[str, Any]:
    """What is timed, known before anything runs. prompt_tokens: None for the usual 256, or less in a shorter context.

    Raises UserError for a prompt that leaves no room for one more token.
    """
    first = next(iter(presets.values()))
    chosen = load_mode(mode)
    work: dict[str, Any] = {"unit": chosen.UNIT}
    if chosen.HAS_PROMPT:
        work["prompt_tokens"] = _prompt(first, prompt_tokens)
    else:
        work |= {"tokens": first.train.tokens_per_step, "micro_batch_sequences": first.train.micro_batch_sequences}
    return {
        "preset": first.name,
        "mode": mode,
        "load": work,
        "precision": first.train.precision,
        "compile": first.train.compile,
        "model": model_facts(first, vocab_size),
    }


def model_facts(preset: Preset, vocab_size: int) -> dict[str, Any]:
    """The shape that all arms share."""
    model = preset.model
    return {
        "transformer_blocks": model.transformer_blocks,
        "d_model": model.d_model,
        "num_heads": model.num_heads,
        "num_kv_heads": model.resolved_num_kv_heads,
        "head_dim": model.resolved_head_dim,
        "d_ff": model.resolved_d_ff,
        "context_tokens": model.context_tokens,
        "vocab_size": vocab_size,
        "tie_embeddings": model.tie_embeddings,
    }


def bench_payload(
    presets: Presets, vocab_size: int, facts: Mapping[str, Any], *, pairs: int, progress: Progress
) -> dict[str, Any]:
    """One bench of all arms. facts: of `mode_facts`."""
    return {
        **facts,
        "metrics": dict(METRICS),
        **_bench(presets, vocab_size, facts, pairs=pairs, progress=progress),
        "memory_accesses": accesses(presets, vocab_size),
    }


def depth_payload(
    presets: Presets,
    depths: Sequence[int],
    vocab_size: int,
    facts: Mapping[str, Any],
    *,
    pairs: int,
    progress: Progress,
) -> dict[str, Any]:
    """A bench at each number of transformer blocks; an arm is called `name@blocks`.

    Raises UserError where a scheme does not fit a depth.
    """
    at_depth = {depth: deepened(presets, depth) for depth in depths}
    benches = []
    for done, (depth, deep) in enumerate(at_depth.items()):
        inner = _within(progress, f"{depth} blocks ({done + 1} of {len(depths)}), ")
        bench = _bench(deep, vocab_size, facts, pairs=pairs, progress=inner, suffix=f"@{depth}")
        for arm in bench["arms"]:
            arm["transformer_blocks"] = depth
        benches.append({"transformer_blocks": depth, **bench})
        forget_compiled()
    return {
        **facts,
        "metrics": dict(METRICS),
        "setting": benches[0]["setting"],
        "clock": benches[0]["clock"],
        "arms": [arm for bench in benches for arm in bench.pop("arms")],
        "depths": benches,
    }


def deepened(presets: Presets, transformer_blocks: int) -> dict[str, Preset]:
    """The presets with another number of transformer blocks and otherwise as they are."""
    return {name: preset.replace({"model.transformer_blocks": transformer_blocks}) for name, preset in presets.items()}


def accesses(presets: Presets, vocab_size: int) -> dict[str, Any]:
    """The paper's Table 1 at the presets' shape, with the number of blocks of the first arm that has any."""
    models = [build_model(without_choice(preset), vocab_size, device="meta") for preset in presets.values()]
    kept = next((count for model in models if (count := carried(model).kept)), 0)
    blocks = next((of_it for model in models if (of_it := model.residual.num_blocks())), None)
    return memory_accesses(next(iter(presets.values())), kept, blocks)


def _bench(
    presets: Presets, vocab_size: int, facts: Mapping[str, Any], *, pairs: int, progress: Progress, suffix: str = ""
) -> dict[str, Any]:
    result = bench_presets(
        presets,
        vocab_sizes=dict.fromkeys(presets, vocab_size),
        mode=facts["mode"],
        prompt_tokens=facts["load"].get("prompt_tokens", 0),
        pairs=pairs,
        sample_seconds=SAMPLE_SECONDS,
        progress=progress,
    )
    values = bench_facts(result, suffix=suffix)
    del values["schema"]
    return values


def _prompt(preset: Preset, wanted: int | None) -> int:
    longest = preset.model.context_tokens - 1
    if wanted is None:
        return min(USUAL_PROMPT_TOKENS, longest)
    if wanted > longest:
        raise UserError(
            f"A prompt of {wanted} tokens and the one after it do not fit the preset's context of "
            f"{preset.model.context_tokens} tokens.",
            where="--prompt-tokens",
            expected=f"up to {longest}",
            hint=f"add --set model.context_tokens={wanted + 1} and the keys that follow from it",
            exit_code=ExitCode.USAGE,
        )
    return wanted


def _within(progress: Progress, prefix: str) -> Callable[[str, int, int], None]:
    return lambda stage, done, total: progress(prefix + stage, done, total)
