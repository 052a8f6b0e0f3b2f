"""How long does it take to compare many long runs? Made-up runs of real form, read as `attnres compare` reads them.

    python benchmarks/compare_many_runs.py                     # 200 runs of 10,000 logged steps
    python benchmarks/compare_many_runs.py --runs 50 --steps 1000 --json FILE

Timed, each in a process of its own: reading the rows of all runs without columnar caches (which leaves them behind),
reading them with, and the whole of `attnres compare` on them with. The exit code is 6 where the last takes more than
--limit seconds (5).
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from attnres_cli.runs.columns import cache_path
from attnres_cli.runs.files import json_text
from tests.fabricated_runs import BLOCK_SCHEME, fabricate

ROOT = Path(__file__).parent.parent
TOO_SLOW = 6
EVALUATIONS = 100
TOKENS_PER_STEP = 2048  # of the fabricated preset
READ = """
import sys, time
from pathlib import Path
from attnres_cli.runs.columns import numbers
from attnres_cli.runs.directory import RunDirectory
began = time.perf_counter()
for folder in sorted(Path(sys.argv[1]).iterdir()):
    logged = RunDirectory(folder).logged()
    assert numbers(logged.train, "loss").sum() > 0 and logged.train[-1] and logged.evaluations[-1]
print(time.perf_counter() - began)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="how many (half of either scheme)")
    parser.add_argument("--steps", type=int, default=10_000, help="logged steps of each")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds that compare may take")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        names = make_runs(runs, options.runs, options.steps)
        files = [runs / name / "metrics.jsonl" for name in names]
        figures = {
            "runs": options.runs,
            "steps": options.steps,
            "metrics_mib": sum(file.stat().st_size for file in files) / 2**20,
            "read_without_caches_seconds": read_all(runs),
            "read_with_caches_seconds": read_all(runs),
            "caches_mib": sum(cache_path(file).stat().st_size for file in files if cache_path(file).exists()) / 2**20,
            "compare_seconds": compare(Path(folder), names),
        }
    for key, value in figures.items():
        print(f"{key:>28}  {value:,.2f}" if isinstance(value, float) else f"{key:>28}  {value:,}")
    if options.json:
        options.json.write_text(json_text(figures, indent=2) + "\n", encoding="utf-8")
    return TOO_SLOW if figures["compare_seconds"] > options.limit else 0


def make_runs(root: Path, count: int, steps: int) -> list[str]:
    """Finished runs of two schemes, paired by seed, whose metrics were last written a minute ago."""
    names = []
    for index in range(count):
        name, seed, is_ours = f"r{index:04}", index // 2, index % 2 == 1
        run = fabricate(
            root,
            name,
            residual=BLOCK_SCHEME if is_ours else None,
            change={"train.seed": seed, "train.horizon_tokens": steps * TOKENS_PER_STEP},
            manifest={"seed": seed, "steps": steps, "tokens": steps * TOKENS_PER_STEP},
            better_by=0.02 * is_ours,
        )
        run.write_state(step=steps, steps=steps)
        rows = (json_text(row) for row in rows_of(steps, seed, 0.02 * is_ours))
        run.metrics_path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        names.append(name)
    time.sleep(2.5)  # readers cache no file that was written just now
    return names


def rows_of(steps: int, seed: int, better_by: float) -> list[dict[str, object]]:
    """`steps` train rows and some evaluations, the last at the last step."""
    rows: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        loss = 1.5 + 4 * math.exp(-8 * step / steps) - better_by + 0.01 * math.sin(step + seed)
        place = {"step": step, "tokens": step * TOKENS_PER_STEP}
        rows.append(
            {
                "kind": "train", **place, "loss": loss, "learning_rate": 0.003 * (1 - step / steps),
                "grad_norm": 0.8 + loss / 70, "grad_norm_trunk": 0.7 + loss / 70, "clipped": False,
                "tokens_per_second": 40960 / (1 + loss / 9), "step_seconds": 0.05 * (1 + loss / 9),
                "train_seconds": 0.0523 * step,
            }
        )  # fmt: skip
        if step % max(1, steps // EVALUATIONS) == 0 or step == steps:
            rows.append(
                {
                    "kind": "eval", **place, "loss": loss + 0.03, "perplexity": math.exp(loss + 0.03),
                    "bits_per_byte": (loss + 0.03) / math.log(2), "eval_seconds": 0.4123,
                }
            )  # fmt: skip
    return rows


def read_all(runs: Path) -> float:
    done = subprocess.run([sys.executable, "-c", READ, str(runs)], cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout)


def compare(folder: Path, names: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "attnres_cli", "compare", "--no-bench", *names],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
