"""How long does the report of many long runs take, and how large is it? Made-up runs of real form.

    python benchmarks/report_many_runs.py                     # 20 runs of 10,000 logged steps
    python benchmarks/report_many_runs.py --runs 50 --steps 1000 --json FILE

Twice: the runs as two arms paired by seed, whose curves have intervals, and each as an arm of its own. Every run was
observed --observations times. The columnar caches of the runs are there, as training leaves them. The exit code is 6
where a report takes more than --limit seconds (10) or more than --limit-mb megabytes (8).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.files import json_text
from benchmarks.compare_many_runs import ROOT, TOKENS_PER_STEP, TOO_SLOW, make_runs, read_all
from tests.fabricated_runs import fabricate, observations


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="how many")
    parser.add_argument("--steps", type=int, default=10_000, help="logged steps of each")
    parser.add_argument("--observations", type=int, default=20, help="observed steps of each")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds that a report may take")
    parser.add_argument("--limit-mb", type=float, default=8.0, help="megabytes that a report may have")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()

    figures: dict[str, float] = {"runs": options.runs, "steps": options.steps}
    with tempfile.TemporaryDirectory() as folder:
        for kind, names in (("paired", paired), ("single", single)):
            runs = Path(folder) / kind
            made = names(runs, options.runs, options.steps)
            for name in made:
                observe(RunDirectory(runs / name), options.steps, options.observations)
            read_all(runs)
            seconds, cpu_seconds, size = report(runs, made)
            figures |= {f"{kind}_seconds": seconds, f"{kind}_cpu_seconds": cpu_seconds, f"{kind}_mb": size}
    for key, value in figures.items():
        print(f"{key:>18}  {value:,.2f}" if isinstance(value, float) else f"{key:>18}  {value:,}")
    if options.json:
        options.json.write_text(json_text(figures, indent=2) + "\n", encoding="utf-8")
    slow = max(figures["paired_seconds"], figures["single_seconds"]) > options.limit
    large = max(figures["paired_mb"], figures["single_mb"]) > options.limit_mb
    return TOO_SLOW if slow or large else 0


def paired(root: Path, count: int, steps: int) -> list[str]:
    return make_runs(root, count, steps)


def single(root: Path, count: int, steps: int) -> list[str]:
    """Runs of one seed, of which every one has another number of blocks."""
    names = make_runs(root.with_name("made"), 1, steps)
    rows = (root.with_name("made") / names[0] / "metrics.jsonl").read_bytes()
    found = []
    for index in range(count):
        residual = {"scheme": "attnres-block", "num_blocks": index} if index else None
        change = {"train.horizon_tokens": steps * TOKENS_PER_STEP}
        manifest = {"steps": steps, "tokens": steps * TOKENS_PER_STEP}
        run = fabricate(root, f"single{index:04}", residual=residual, change=change, manifest=manifest)
        run.write_state(step=steps, steps=steps)
        run.metrics_path.write_bytes(rows)
        found.append(run.name)
    time.sleep(2.5)  # readers cache no file that was written just now
    return found


def observe(run: RunDirectory, steps: int, count: int) -> None:
    """Put observations of `count` steps, evenly spread, in place of what there is."""
    resolved = run.resolved()
    rows = [
        json_text(row)
        for number in range(1, count + 1)
        for step in [number * steps // count]
        for row in observations(resolved, step, step * TOKENS_PER_STEP, 0.01 * number)
    ]
    run.observations_path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def report(runs: Path, names: Sequence[str]) -> tuple[float, float, float]:
    """(seconds, seconds of the processor, megabytes) of a page, written in a process of its own."""
    page = runs.parent / "report.html"
    began, cpu_began = time.perf_counter(), cpu_seconds_of_children()
    subprocess.run(
        [sys.executable, "-m", "attnres_cli", "report", *names, "--runs-dir", str(runs), "--no-bench", "-o", str(page)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )
    seconds, cpu_seconds = time.perf_counter() - began, cpu_seconds_of_children() - cpu_began
    return seconds, cpu_seconds, page.stat().st_size / 1e6


def cpu_seconds_of_children() -> float:
    """What the processes that have ended took of the processor: other work on the machine does not add to it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
