"""What a training step costs under every residual scheme, beside the plain residual: time and peak memory.

    python benchmarks/cost_of_schemes.py                     # the shape of cpu-small
    python benchmarks/cost_of_schemes.py --preset cpu-deep --rounds 15 --json FILE

All schemes are in one process and take turns; a ratio is the median over rounds of a scheme's step time over the plain
residual's in the same round, with a distribution-free interval. Peak memory is measured in a step of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin distort times
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

from attnres_cli.bench.arms import bench_presets
from attnres_cli.bench.interleaved import BenchResult
from attnres_cli.data.prepare import vocabulary_size_of
from attnres_cli.preset.reading import load_preset
from attnres_cli.residual.registry import scheme_names

PLAIN = "prenorm"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="cpu-small")
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar="SECTION.KEY=VALUE")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of one step of each scheme")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample here")
    asked = parser.parse_args()
    schemes = [PLAIN, *(name for name in scheme_names() if name != PLAIN)]
    presets = {name: load_preset(asked.preset, residual=name, sets=asked.sets) for name in schemes}
    first = presets[PLAIN]
    vocab_size = vocabulary_size_of(first.data, first.source_folder)
    result = bench_presets(presets, vocab_sizes=dict.fromkeys(presets, vocab_size), pairs=asked.rounds)
    show(result, asked.preset, first.train.tokens_per_step)
    if asked.json:
        asked.json.write_text(json.dumps(result.to_dict(), indent=1) + "\n")


def show(result: BenchResult, preset: str, tokens_per_step: int) -> None:
    setting = result.setting
    print(
        f"{preset}: {result.pairs} rounds of {tokens_per_step:,} tokens a step, {setting.device}, "
        f"{setting.threads} of {setting.cores} threads, OMP_WAIT_POLICY={setting.omp_wait_policy}, "
        f"load {setting.load_average_before} before, torch {torch.__version__}"
    )
    plain_peak = result.arms[0].peak_bytes
    for arm in result.arms:
        wall, cpu = result.ratio(arm.name), result.ratio(arm.name, "cpu")
        assert arm.peak_bytes is not None
        assert plain_peak is not None
        print(
            f"{arm.name:16} {arm.median_seconds() * 1e3:8.1f} ms"
            f"  wall × {wall.median:.3f} [{wall.low:.3f}, {wall.high:.3f}]"
            f"  CPU × {cpu.median:.3f} [{cpu.low:.3f}, {cpu.high:.3f}]"
            f"  peak {arm.peak_bytes / 2**20:7.1f} MiB × {arm.peak_bytes / plain_peak:.3f}"
        )
    for warning in result.warnings:
        print(f"warning: {warning}")


if __name__ == "__main__":
    main()
