"""Is our baseline's training step as fast as that of a plain GPT? Both in one process, taking turns.

    python benchmarks/step_against_nanogpt.py                      # the shape of cpu-small
    python benchmarks/step_against_nanogpt.py --preset cpu-deep --rounds 31 --json FILE

The plain GPT is the well-known recipe, written here on its own: LayerNorm, learned positions, one fused matrix for
q, k and v, GELU feed-forward of width 4 d, tied head, mean cross-entropy, clipping, fused AdamW. Width, depth, heads,
vocabulary, context, tokens per step and micro-batches are those of the preset. The parameter counts differ a little
(SwiGLU's width is rounded up, positions are learned) and are printed.

Printed is the median of our step time over the plain GPT's in the same round, with a distribution-free interval. The
exit code is 6 where even the interval's lower end is above 1: we are slower.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin distort times
sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnres_cli.bench.arms import TrainingArm
from attnres_cli.bench.interleaved import BenchResult, interleave
from attnres_cli.data.prepare import vocabulary_size_of
from attnres_cli.preset.reading import Preset, load_preset
from attnres_cli.train.device import autocast, choose_device, set_up

OURS, PLAIN = "attnres prenorm", "plain GPT"
SLOWER = 6


class PlainAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.num_heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(batch, length, width))


class PlainBlock(nn.Module):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(d_model, bias=False)
        self.attention = PlainAttention(d_model, num_heads)
        self.norm_2 = nn.LayerNorm(d_model, bias=False)
        self.up = nn.Linear(d_model, 4 * d_model, bias=False)
        self.down = nn.Linear(4 * d_model, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class PlainGPT(nn.Module):
    """tokens, targets [B, T] → mean cross-entropy."""

    def __init__(self, vocab_size: int, context_tokens: int, d_model: int, num_heads: int, num_blocks: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(context_tokens, d_model)
        self.blocks = nn.ModuleList(PlainBlock(d_model, num_heads) for _ in range(num_blocks))
        self.norm = nn.LayerNorm(d_model, bias=False)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


def plain_step(preset: Preset, vocab_size: int, device: torch.device) -> tuple[Callable[[], None], int]:
    """One training step of the plain GPT of the preset's shape, and its parameter count."""
    model = preset.model
    gpt = PlainGPT(vocab_size, model.context_tokens, model.d_model, model.num_heads, model.transformer_blocks).to(
        device
    )
    train = preset.train
    decayed = [p for p in gpt.parameters() if p.dim() >= 2]
    rest = [p for p in gpt.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": train.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=train.learning_rate, betas=(train.beta1, train.beta2), fused=True)
    shape = (preset.accumulation_steps, train.micro_batch_sequences, model.context_tokens)
    inputs, targets = torch.from_numpy(np.random.default_rng(0).integers(0, vocab_size, size=(2, *shape)))

    def step() -> None:
        for x, y in zip(inputs, targets, strict=True):
            with autocast(train.precision, device):
                loss = gpt(x.to(device), y.to(device)) / preset.accumulation_steps
            loss.backward()
        torch.nn.utils.clip_grad_norm_(gpt.parameters(), train.grad_clip or float("inf"))
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step, sum(parameter.numel() for parameter in gpt.parameters())


def measure(preset: Preset, rounds: int) -> tuple[BenchResult, dict[str, int]]:
    device = choose_device(preset.train.device)
    set_up(preset.train, device)
    vocab_size = vocabulary_size_of(preset.data, preset.source_folder)
    plain, plain_parameters = plain_step(preset, vocab_size, device)
    ours = TrainingArm.build(preset, vocab_size, device)
    result = interleave(
        {PLAIN: plain, OURS: ours.step},
        pairs=rounds,
        warmup=3,
        synchronize=torch.cuda.synchronize if device.type == "cuda" else None,
        device=device.type,
    )
    return result, {PLAIN: plain_parameters, OURS: sum(parameter.numel() for parameter in ours.model.parameters())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="cpu-small", help="size and training keys of both models")
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar="SECTION.KEY=VALUE")
    parser.add_argument("--rounds", type=int, default=21, help="rounds of one step each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample here")
    asked = parser.parse_args()
    preset = load_preset(asked.preset, residual="prenorm", sets=["train.compile='off'", *asked.sets])
    if preset.model.resolved_num_kv_heads != preset.model.num_heads:
        parser.error("the plain GPT has no grouped-query attention")
    result, parameters = measure(preset, asked.rounds)
    setting = result.setting
    print(
        f"{preset.name}: {asked.rounds} rounds, {preset.train.tokens_per_step:,} tokens a step, "
        f"{preset.train.precision}, {setting.device}, {setting.threads} of {setting.cores} threads, "
        f"OMP_WAIT_POLICY={setting.omp_wait_policy}, "
        f"load {setting.load_average_before} before, torch {torch.__version__}"
    )
    for arm in result.arms:
        print(
            f"{arm.name:16} {parameters[arm.name]:>12,} parameters, median {arm.median_seconds() * 1e3:8.1f} ms wall, "
            f"{arm.median_seconds('cpu') * 1e3:8.1f} ms CPU, spread {arm.spread:.0%}"
        )
    for clock in ("wall", "cpu"):
        ratio = result.ratio(OURS, clock)
        print(
            f"{clock:4} ratio of {OURS} to {PLAIN}: {ratio.median:.3f} "
            f"[{ratio.low:.3f}, {ratio.high:.3f}], {ratio.coverage:.0%} interval"
        )
    for warning in result.warnings:
        print(f"warning: {warning}")
    if asked.json:
        asked.json.write_text(json.dumps({**result.to_dict(), "parameters": parameters}, indent=1) + "\n")
    return SLOWER if result.ratio(OURS, "cpu").low > 1 and result.ratio(OURS, "wall").low > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
