"""Fabricated runs of which every picture and table of a report has something, some under hostile names."""

from __future__ import annotations

from pathlib import Path

from attnres_cli.runs.directory import RunDirectory
from tests.fabricated_probes import ALL, fabricate_probes
from tests.fabricated_runs import BLOCK_SCHEME, FULL_SCHEME, fabricate_arm, observations

# What a name may be: each means something to HTML, to Plotly, to Rich, to LaTeX, or to a template.
HOSTILE = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "[bold]", "$x$ 50 %", "%{y} @ink & \\")
STEPS = (20, 40, 60, 80, 100)
BETTER = {"prenorm": (0.0, 0.0, 0.0), "block": (0.05, 0.061, 0.045), "full": (0.01, -0.021, 0.015)}


def arms_of_three(root: Path, *, probes: tuple[str, ...] = ALL) -> list[RunDirectory]:
    """Three arms with three seeds each, observed at five steps and probed: one arm shown to be better, one not."""
    runs = [
        *fabricate_arm(root, "prenorm", better_by=BETTER["prenorm"]),
        *fabricate_arm(root, "block", residual=BLOCK_SCHEME, better_by=BETTER["block"], began=1),
        *fabricate_arm(root, "full", residual=FULL_SCHEME, better_by=BETTER["full"], began=2),
    ]
    for run, better in zip(runs, (value for values in BETTER.values() for value in values), strict=True):
        _observe(run, better)
        fabricate_probes(run, better_by=better, only=probes)
    return runs


def hostile_arms(root: Path) -> list[RunDirectory]:
    """Two seeds each of a baseline and of arms whose schemes are called by the hostile names, as are their presets and
    commands; and the folders, as far as a folder can."""
    runs = fabricate_arm(root, "prenorm", better_by=(0.0, 0.0))
    for number, name in enumerate(HOSTILE, start=1):
        runs += fabricate_arm(
            root,
            f"{number} {name.replace('/', '').replace(chr(92), '')}",
            residual={"scheme": name},
            better_by=(0.01 * number, 0.02 * number),
            began=number,
            manifest={"command": f"attnres train {name}", "preset_name": name},
        )
    return runs


def _observe(run: RunDirectory, better_by: float) -> None:
    """At the steps before the last one, which has been observed."""
    resolved = run.resolved()
    for step in STEPS[:-1]:
        for row in observations(resolved, step, 2048 * step, better_by * step / STEPS[-1]):
            run.append_observation(row)
