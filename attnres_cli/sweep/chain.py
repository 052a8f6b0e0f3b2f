"""Does the chain from a preset to a verdict hold? One scheme against itself, and an effect that is known.

Everything that a study rests on is used as it is: groups are trained by the sweep engine, read from their run
directories, paired and judged as `attnres compare` does. Only what it should say is known beforehand:

    the same runs twice     nothing differs, so every loss is the same to the last bit
    A/A                     one scheme with other seeds: nothing is shown, and a step takes as long
    planted effect          a known number taken off the losses on disk comes out again, and is shown
    promised power          drawn with the spread of these runs, an effect of the size that so many pairs are said to
                            find four times in five is found four times in five; none is found in one of twenty

What chance alone fails in a twentieth of all studies (A/A) or less is tried a second time, on new runs or samples; it
fails where both do.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from attnres_cli.analysis.binomial import share_interval
from attnres_cli.analysis.paired import t_quantile
from attnres_cli.analysis.power import smallest_detectable
from attnres_cli.bench.interleaved import Interval
from attnres_cli.errors import ExitCode, Interrupted, UserError
from attnres_cli.preset.preset import Preset
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.paired_verdicts import ALPHA, POWER, PairedVerdict
from attnres_cli.report.redrawn import compared_groups, share_of_draws, verdict_of
from attnres_cli.runs.files import read_rows
from attnres_cli.sweep.arms import own_arm
from attnres_cli.sweep.engine import Listener, run_sweep
from attnres_cli.sweep.kinds import group as group_kind
from attnres_cli.sweep.layout import Context
from attnres_cli.sweep.request import Request, continued
from attnres_cli.sweep.results import Sweep, SweepDirectory, create_sweep_directory
from attnres_cli.sweep.slots import choose_slots

SEEDS = 5
DRAWS = 2000
DRAWS_SEED = 0
SHARE_CONFIDENCE = 0.99
ROUNDS = 11  # the interval of the median leaves out the extreme sample on either side
SAMPLE_SECONDS = 0.2
TRIES = 2
# Of a mean of losses near 1 to 10 that went through JSON, which keeps every bit: sums of a few such numbers.
ROUNDING = 1e-12

Say = Callable[[str], None]
Shown = Callable[[SweepDirectory, Sweep], AbstractContextManager[Listener]]


@dataclass(frozen=True)
class Link:
    """One link of the chain. measured: the figure, with its interval low, high where it has one. allowed: what it has
    to be, or to hold. rule: the same in words. detail: one sentence on what was looked at."""

    check: str
    what: str
    status: Literal["ok", "fails"]
    measured: float | None
    low: float | None
    high: float | None
    allowed: float | None
    rule: str
    detail: str


@dataclass(frozen=True)
class Chain:
    """preset: what is trained. root, prefix: runs go to <root>/<prefix>-…; those that are there are not trained again.
    scratch: a folder for copies that are changed. show: who shows a group's progress. groups: of which runs were needed
    so far."""

    preset: Preset
    root: Path
    prefix: str
    scratch: Path
    vocab_size: int
    show: Shown
    say: Say
    jobs: int | None = None
    command: str = "attnres verify --study"
    groups: list[str] = field(default_factory=list)

    def links(self) -> Iterator[Link]:
        first = self.preset.train.seed
        one = self._trained("a", first)
        yield _twice(verdict_of(compared_groups([one, self._trained("a-again", first)], self.root)))
        apart, names = self._apart()
        verdict = verdict_of(apart)
        yield _apart_link(verdict)
        yield self._time()
        if verdict.difference is None or verdict.difference.standard_deviation == 0:
            detail = "; ".join(verdict.reasons) or "all pairs of runs with other seeds differ by the same"
            yield Link("planted", "spread of the pairs", "fails", None, None, None, None, "> 0", detail)
            return
        yield from self._planted(apart, names)
        yield from _power(apart)

    def _apart(self) -> tuple[Comparison, tuple[str, str]]:
        """One scheme with other seeds; where that shows a difference, a second time with further seeds."""
        first = self.preset.train.seed
        for attempt in range(TRIES):
            start = first + 2 * SEEDS * attempt
            mark = "" if attempt == 0 else str(attempt + 1)
            names = (self._trained(f"a{mark}", start), self._trained(f"b{mark}", start + SEEDS))
            comparison = compared_groups(names, self.root, seeds_of_first=True)
            if verdict_of(comparison).outcome not in ("better", "worse"):
                break
        return comparison, names

    def _trained(self, name: str, seed: int) -> str:
        """The name of the group with SEEDS runs from this seed on, trained as far as it was not."""
        preset = self.preset.replace({"train.seed": seed})
        request = Request("group", preset, (own_arm(preset),), seeds=SEEDS)
        full_name = f"{self.prefix}-{name}"
        self.groups.append(full_name)
        found = continued(self.root, full_name, request)
        slots = choose_slots(preset.train.device, preset.train.threads, SEEDS, self.jobs)
        context = Context(full_name, self.command, self.vocab_size, parallel_runs=len(slots))
        sweep = found.earlier or group_kind.plan(found.request, context)
        if sweep.left == 0:
            return full_name
        self.say(f"{full_name}: {SEEDS} runs with seeds {seed} to {seed + SEEDS - 1} …")
        if not found.directory.exists:
            create_sweep_directory(found.directory)
        with self.show(found.directory, sweep) as listener:
            run_sweep(found.directory, sweep, slots=slots, listener=listener)
        if sweep.status == "interrupted":
            hint = f"again with: {self.command} (with --name it goes on where it stopped)"
            raise Interrupted("Interrupted while training.", hint=hint)
        for run in sweep.runs:
            if run.status != "finished":
                raise UserError(
                    f"Run {run.title} of {full_name} {run.status}: {run.error}", exit_code=ExitCode.UNEXPECTED
                )
        return full_name

    def _time(self) -> Link:
        """The training step of one preset under two names, in turn; to two decimals, as comparisons print it."""
        from attnres_cli.bench.presets import bench_presets

        presets = {"one": self.preset, "other": self.preset}
        for _ in range(TRIES):
            self.say("timing the training step under two names, in turn …")
            result = bench_presets(
                presets,
                vocab_sizes=dict.fromkeys(presets, self.vocab_size),
                pairs=ROUNDS,
                sample_seconds=SAMPLE_SECONDS,
            )
            link = time_link(result.ratio("other", result.clock), result.clock)
            if link.status == "ok":
                break
        return link

    def _planted(self, apart: Comparison, names: tuple[str, str]) -> Iterator[Link]:
        """A number that no spread of these runs hides, taken off every loss of a copy of the second group on disk."""
        before = verdict_of(apart).difference
        assert before is not None, "looked at by the caller"
        half_width = t_quantile(1 - ALPHA, before.n - 1) * before.standard_deviation / math.sqrt(before.n)
        effect = abs(before.mean) + 3 * half_width
        for name in names:
            shutil.copytree(self.root / name, self.scratch / name)
        for path in sorted((self.scratch / names[1]).glob("*/metrics.jsonl")):
            plant(path, -effect)
        verdict = verdict_of(compared_groups(names, self.scratch, seeds_of_first=True))
        found = verdict.difference
        moved = math.nan if found is None else found.mean - before.mean
        off = abs(moved + effect)
        detail = f"{effect:.4f} nats off every validation loss in the metrics.jsonl of the second arm's copies"
        what = "comes out: off by"
        yield _link("planted", what, off <= ROUNDING, off, None, None, ROUNDING, f"≤ {ROUNDING:g}", detail)
        p = None if found is None else found.p
        shown = verdict.outcome == "better"
        yield _link("planted", "is shown: p", shown, p, None, None, ALPHA, "better", verdict.sentence)


def plant(metrics: Path, change: float) -> None:
    """Add `change` (nats) to every validation loss of a metrics.jsonl."""
    rows = read_rows(metrics).rows
    for row in rows:
        if row.get("kind") == "eval":
            row["loss"] += change
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _twice(verdict: PairedVerdict) -> Link:
    differences = () if verdict.difference is None else verdict.difference.differences
    largest = max(map(abs, differences), default=None)
    holds = verdict.outcome == "equal"
    detail = verdict.sentence if holds else f"the same preset and seeds, trained twice: {verdict.sentence}"
    return _link("repeat", "largest difference", holds, largest, None, None, 0.0, "equal", detail)


def _apart_link(verdict: PairedVerdict) -> Link:
    found = verdict.difference
    holds = verdict.outcome == "not shown"
    mean, low, high = (None, None, None) if found is None else (found.mean, found.low, found.high)
    return _link("A/A", "loss, other seeds", holds, mean, low, high, 0.0, "reads ~", verdict.sentence)


def time_link(ratio: Interval, clock: str) -> Link:
    holds = round(ratio.low, 2) <= 1.0 <= round(ratio.high, 2)
    detail = f"over its own in {ROUNDS} rounds, {clock} time; interval of the median at {ratio.coverage:.1%}"
    return _link("A/A", "time of a step", holds, ratio.median, ratio.low, ratio.high, 1.0, "holds 1.00", detail)


def _power(apart: Comparison) -> Iterator[Link]:
    """How often the verdict finds what it says it finds, over draws with the spread of these pairs."""
    difference = verdict_of(apart).difference
    assert difference is not None, "looked at by the caller"
    n, spread = difference.n, difference.standard_deviation
    effect = smallest_detectable(spread, n, power=POWER, alpha=ALPHA)
    found, _ = share_of_draws(apart, -effect, spread, draws=DRAWS, seed=DRAWS_SEED)
    _, alarms = share_of_draws(apart, 0.0, spread, draws=DRAWS, seed=DRAWS_SEED + 1)
    sizes = f"share of {DRAWS:,} draws of {n} pairs, differences normal with a standard deviation of {spread:.4f} nats"
    interval = f"interval at {SHARE_CONFIDENCE:.0%}"
    yield _share("finds an effect", found, POWER, f"{sizes}, mean {-effect:.4f}; {interval}")
    yield _share("finds one of none", alarms, ALPHA, f"{sizes}, mean 0; {interval}")


def _share(what: str, hits: int, promised: float, detail: str) -> Link:
    low, high = share_interval(hits, DRAWS, confidence=SHARE_CONFIDENCE)
    holds = low <= promised <= high
    return _link("power", what, holds, hits / DRAWS, low, high, promised, f"holds {promised:.2f}", detail)


def _link(
    check: str,
    what: str,
    holds: bool,
    measured: float | None,
    low: float | None,
    high: float | None,
    allowed: float,
    rule: str,
    detail: str,
) -> Link:
    return Link(check, what, "ok" if holds else "fails", measured, low, high, allowed, rule, detail)
