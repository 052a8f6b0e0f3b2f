"""Is our step as fast as public code that does the same? PyPI's attn-res and ours in one process, taking turns.

    pip install --no-deps attn-res==0.1.0
    python benchmarks/step_against_public.py --rounds 21 --json FILE

Both projects build the plain residual, Block and Full in one shape: vocabulary, width, depth, heads, context, tokens
and feed-forward width are equal, the embedding is also the head, there is no dropout. A step is a forward and a
backward pass of the mean cross-entropy on the same random tokens; there is no optimiser in it. In every round each of
the six models takes one step, and "times faster" is the median of their time over ours in the same round, with a
distribution-free interval.

What the two do not share: at the output attn-res sums the sources, where ours mixes them; its attention is written out
(a matrix of scores per head), where ours is torch's; its keys have no gain over channels.

attn-res is no dependency of this project. It has no dependencies but torch, which --no-deps leaves as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin distort times
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

import attnres_cli
from attnres_cli.bench.arms import random_batch
from attnres_cli.bench.interleaved import BenchResult, interleave, median_interval
from attnres_cli.model.build import build_model
from attnres_cli.preset.reading import Preset, load_preset
from attnres_cli.train.device import choose_device, set_up

PACKAGE, VERSION = "attn-res", "0.1.0"
MISSING_PACKAGE = 2
# Theirs by the name of the mode, ours by the scheme.
ARMS = {"baseline": ("NONE", "prenorm"), "Block": ("BLOCK", "attnres-block"), "Full": ("FULL", "attnres-full")}
PUBLIC, OURS = f"{PACKAGE} {VERSION}", "attnres"


def public_package() -> Any | None:
    """The module of the version that is compared; None, with a sentence, where it is not there."""
    try:
        found = metadata.version(PACKAGE)
        import attn_res
    except ImportError as error:
        print(f"{PACKAGE} is not here ({error}).\n  try: pip install --no-deps {PACKAGE}=={VERSION}", file=sys.stderr)
        return None
    if found != VERSION:
        print(f"{PACKAGE} {found} is here, and {VERSION} is compared.", file=sys.stderr)
        print(f"  try: pip install --no-deps {PACKAGE}=={VERSION}", file=sys.stderr)
        return None
    return attn_res


def shape(asked: argparse.Namespace, scheme: str) -> Preset:
    """Our preset in the shape that was asked for; all tokens of a step go through at once."""
    keys = {
        "model.d_model": asked.d_model,
        "model.transformer_blocks": asked.transformer_blocks,
        "model.num_heads": asked.heads,
        "model.context_tokens": asked.context,
        "train.tokens_per_step": asked.tokens,
        "train.micro_batch_sequences": asked.tokens // asked.context,
        "train.threads": asked.threads,
    }
    blocks = [f"residual.num_blocks={asked.blocks}"] if scheme == "attnres-block" else []
    sets = [*(f"{key}={value}" for key, value in keys.items()), *blocks]
    fixed = ["model.mixer='attention'", "model.feed_forward='swiglu'", "model.tie_embeddings=true"]
    fixed += ["train.precision='fp32'", "train.compile='off'", "train.device='cpu'"]
    return load_preset("cpu-small", residual=scheme, sets=[*sets, *fixed])


def public_model(package: Any, preset: Preset, mode: str, asked: argparse.Namespace) -> torch.nn.Module:
    model = preset.model
    config = package.TransformerConfig(
        d_model=model.d_model,
        n_layers=model.num_sublayers,
        n_heads=model.num_heads,
        n_kv_heads=model.num_heads,
        vocab_size=asked.vocab_size,
        max_seq_len=model.context_tokens,
        ffn_mult=model.resolved_d_ff / model.d_model,
        dropout=0.0,
        attn_res_mode=package.AttnResMode[mode],
        n_blocks=asked.blocks,
        rope_theta=model.rope_theta,
    )
    assert config.d_ff == model.resolved_d_ff, f"feed-forward widths differ: {config.d_ff} and {model.resolved_d_ff}"
    torch.manual_seed(0)
    built: torch.nn.Module = package.AttnResTransformer(config)
    return built


def steps(package: Any, asked: argparse.Namespace) -> tuple[dict[str, Callable[[], None]], dict[str, int]]:
    """A forward and a backward pass of every model, theirs first, and its number of parameters."""
    taken: dict[str, Callable[[], None]] = {}
    parameters: dict[str, int] = {}

    def add(name: str, model: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> None:
        def step() -> None:
            loss().backward()
            for parameter in model.parameters():
                parameter.grad = None

        taken[name] = step
        parameters[name] = sum(parameter.numel() for parameter in model.parameters())

    for name, (mode, scheme) in ARMS.items():
        preset = shape(asked, scheme)
        set_up(preset.train, choose_device("cpu"))
        tokens, targets = (torch.from_numpy(array) for array in random_batch(preset, asked.vocab_size))
        theirs, ours = public_model(package, preset, mode, asked), build_model(preset, asked.vocab_size)
        add(arm(PUBLIC, name), theirs, lambda m=theirs, x=tokens, y=targets: m(x, y)[1])
        add(arm(OURS, name), ours, lambda m=ours, x=tokens, y=targets: m.loss(x, y))
        if name == "baseline":
            print(f"ours: {ours.computed_by}")
    return taken, parameters


def arm(project: str, name: str) -> str:
    return f"{project}, {name}"


def header(asked: argparse.Namespace, result: BenchResult, d_ff: int) -> str:
    """Everything that is needed to measure it again."""
    setting = result.setting
    return (
        f"{PUBLIC} and attnres {attnres_cli.__version__}: forward and backward pass, "
        f"{asked.rounds} round{'s' * (asked.rounds > 1)}\n"
        f"shape: vocabulary {asked.vocab_size:,}, d {asked.d_model}, {asked.transformer_blocks} transformer blocks, "
        f"{asked.heads} heads, feed-forward {d_ff}, {asked.tokens:,} tokens in sequences of {asked.context}, "
        f"{asked.blocks} blocks, fp32\n"
        f"setting: torch {setting.torch}, Python {sys.version.split()[0]}, {setting.processor}, "
        f"{setting.threads} of {setting.cores} threads, OMP_WAIT_POLICY={setting.omp_wait_policy}, "
        f"load {_load(setting.load_average_before)} before and {_load(setting.load_average_after)} after"
    )


def _load(average: float | None) -> str:
    return "unknown" if average is None else f"{average:.1f}"


def table(result: BenchResult, clock: Any) -> str:
    """The table of docs/performance.md, by one clock."""
    lines = [f"| {clock} time | " + " | ".join(ARMS) + " |", "| --- |" + " --- |" * len(ARMS)]
    for project in (PUBLIC, OURS):
        medians = (result.arm(arm(project, name)).median_seconds(clock) for name in ARMS)
        lines.append(f"| `{project}` | " + " | ".join(f"{seconds * 1e3:,.0f} ms" for seconds in medians) + " |")
    faster = []
    for name in ARMS:
        pairs = zip(*(result.arm(arm(project, name)).seconds(clock) for project in (PUBLIC, OURS)), strict=True)
        ratio = median_interval([theirs / ours for theirs, ours in pairs])
        faster.append(f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]")
    coverage = result.ratio(result.arms[0].name).coverage
    lines.append("| times faster | " + " | ".join(faster) + " |")
    return "\n".join([*lines, f"({coverage:.0%} interval)"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="rounds of one step of every model")
    parser.add_argument("--warmup", type=int, default=2, help="rounds off the clock before them")
    parser.add_argument("--vocab-size", type=int, default=1024)
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--transformer-blocks", type=int, default=12)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=2048, help="tokens of a step")
    parser.add_argument("--context", type=int, default=256, help="tokens of a sequence")
    parser.add_argument("--blocks", type=int, default=8, help="blocks of Block")
    parser.add_argument("--threads", type=int, default=1, help="0: as many as torch chooses")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample here")
    asked = parser.parse_args()
    package = public_package()
    if package is None:
        return MISSING_PACKAGE
    taken, parameters = steps(package, asked)
    result = interleave(taken, pairs=asked.rounds, warmup=asked.warmup)
    print(header(asked, result, shape(asked, "prenorm").model.resolved_d_ff))
    for name, count in parameters.items():
        print(f"{name:28} {count:>12,} parameters, spread {result.arm(name).spread:.0%}")
    for clock in ("wall", "cpu"):
        print(f"\n{table(result, clock)}")
    for warning in result.warnings:
        print(f"warning: {warning}")
    if asked.json:
        asked.json.write_text(json.dumps({**result.to_dict(), "parameters": parameters}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
