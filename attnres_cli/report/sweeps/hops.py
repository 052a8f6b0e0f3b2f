"""How many hops each scheme follows at each depth: the deepest number solved, right answers and loss by number of hops.

A run solves k hops when its share of right answers is at least `solved_accuracy` for k hops and for every smaller
number. An arm solves k at a depth when more than half of its seeds do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnres_cli.report.document import Block, Notice
from attnres_cli.report.phrases import counted
from attnres_cli.report.sweep_results import Results, SweepDocument
from attnres_cli.report.sweeps import arms
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.report.tables.sweep_arms import axis_cells, axis_columns

SHOWS_IMPOSSIBLE = False
Run = Mapping[str, Any]


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    results = Results.of(document)
    if not any(_finished(runs) for runs in results.runs.values()):
        return []
    several = results.num_seeds > 1
    return [
        _solved_table(results),
        *([_seeds_table(results)] if several else []),
        _loss_table(results),
        Notice("How deep", tuple(_sentences(results)), "result"),
    ]


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    facts = document["facts"]
    rule = (
        f"Questions of 1 to {facts['hops']} hops through a cycle of {facts['nodes']} nodes; a number of hops counts as "
        f"solved from {facts['solved_accuracy']:.0%} right answers, where every smaller number is solved, too."
    )
    return [*arms.plan_blocks(document, width_columns), Notice("Task", (rule,))]


def payload(document: SweepDocument) -> dict[str, Any]:
    """Per finished run what it solves, and what that rests on."""
    hops = _hops(document)
    found = [
        {
            **{key: run[key] for key in ("cell", "arm", "seed")},
            "deepest_solved": _deepest(document, run),
            **{name: {str(k): _figure(run, name, k) for k in hops} for name in ("answers", "accuracy", "answer_loss")},
        }
        for run in _finished(document["runs"])
    ]
    return {"hops": found}


# ---------------------------------------------------------------------- what was solved


def _hops(document: SweepDocument) -> range:
    """Every number of hops that is asked for."""
    return range(1, document["facts"]["hops"] + 1)


def _finished(runs: Sequence[Run]) -> list[Run]:
    """Those that have ended and say how many answers are right."""
    return [run for run in runs if run["status"] == "finished" and _figure(run, "accuracy", 1) is not None]


def _figure(run: Run, name: str, k: int) -> float | None:
    value: float | None = run.get("figures", {}).get(f"{name}_{k}")
    return value


def _deepest(document: SweepDocument, run: Run) -> int:
    """The largest number of hops up to which all are solved; 0: not even one hop."""
    threshold = document["facts"]["solved_accuracy"]
    for k in _hops(document):
        accuracy = _figure(run, "accuracy", k)
        if accuracy is None or accuracy < threshold:
            return k - 1
    return int(document["facts"]["hops"])


def _solved_by_most(document: SweepDocument, runs: Sequence[Run]) -> tuple[int, int]:
    """(the largest number of hops that more than half of the runs solve, how many of them solve it); (0, all of them)
    where most do not solve one hop."""
    depths = [_deepest(document, run) for run in runs]
    for k in reversed(_hops(document)):
        solving = sum(depth >= k for depth in depths)
        if 2 * solving > len(depths):
            return k, solving
    return 0, len(depths)


def _mean(runs: Sequence[Run], name: str, k: int) -> float | None:
    values = [value for run in runs if (value := _figure(run, name, k)) is not None]
    return math.fsum(values) / len(values) if values else None


# ---------------------------------------------------------------------- tables


def _solved_table(results: Results) -> Table:
    document = results.document
    rows: list[Row] = []
    for cell, label, runs in _places(results):
        finished = _finished(runs)
        depth, solving = _solved_by_most(document, finished)
        note = f"{label}, {cell['key']}: {_unfinished_words(runs, finished)}" if len(finished) < len(runs) else None
        rows.append(
            {
                **axis_cells(cell["coordinates"]),
                "arm": Cell(label, note=note),
                "solved": depth if finished else None,
                "seeds": Cell(solving, text=f"{solving} of {len(finished)}") if finished else None,
                **{f"accuracy_{k}": _accuracy_cell(_mean(finished, "accuracy", k)) for k in _hops(document)},
            }
        )
    columns = (
        *_depth_columns(results),
        Column("arm", "arm"),
        Column("solved", "solved", kind="count"),
        Column("seeds", "seeds", kind="count"),
        *(Column(f"accuracy_{k}", f"k={k}", kind="number", decimals=0, scale=100) for k in _hops(document)),
    )
    return Table("hops", "Deepest number of hops solved", columns, tuple(rows), _caption(document), _remarks(results))


def _depth_columns(results: Results) -> tuple[Column, ...]:
    """The depth, under a short heading: beside it and eight numbers of hops, 80 columns have no room for more."""
    return tuple(replace(column, heading="blocks") for column in axis_columns(results))


def _accuracy_cell(value: float | None) -> Cell:
    return Cell(value, heat=value)


def _seeds_table(results: Results) -> Table:
    document = results.document
    rows: list[Row] = []
    for cell, label, runs in _places(results):
        found = {run["seed"]: _deepest(document, run) for run in _finished(runs)}
        by_seed = {f"seed_{seed}": found.get(seed) for seed in document["seeds"]}
        rows.append({**axis_cells(cell["coordinates"]), "arm": label, **by_seed})
    columns = (
        *_depth_columns(results),
        Column("arm", "arm"),
        *(Column(f"seed_{seed}", f"seed {seed}", kind="count") for seed in document["seeds"]),
    )
    return Table("hops_by_seed", "Hops solved by seed", columns, tuple(rows))


def _loss_table(results: Results) -> Table:
    document = results.document
    rows: list[Row] = [
        {
            **axis_cells(cell["coordinates"]),
            "arm": label,
            **{f"loss_{k}": _mean(_finished(runs), "answer_loss", k) for k in _hops(document)},
        }
        for cell, label, runs in _places(results)
    ]
    columns = (
        *_depth_columns(results),
        Column("arm", "arm"),
        *(Column(f"loss_{k}", f"k={k}", kind="number", decimals=2) for k in _hops(document)),
    )
    guess = math.log(document["facts"]["nodes"] - 1)
    caption = f"nats per answer, mean over seeds; a guess among the other nodes has {guess:.2f}"
    return Table("hops_loss", "Loss by number of hops", columns, tuple(rows), caption)


def _places(results: Results) -> list[tuple[Mapping[str, Any], str, Sequence[Run]]]:
    """(cell, arm, its runs) in the order of the rows: by depth, then by arm."""
    return [
        (cell, label, results.runs[(cell["key"], label)])
        for cell in results.document["cells"]
        for label in results.labels
        if (cell["key"], label) in results.runs
    ]


def _unfinished_words(runs: Sequence[Run], finished: Sequence[Run]) -> str:
    return f"{counted(len(runs) - len(finished), 'seed')} without a result"


def _caption(document: SweepDocument) -> str:
    facts = document["facts"]
    return (
        f"blocks: transformer blocks; solved: {facts['solved_accuracy']:.0%} right answers or more for that number and "
        "every smaller one, by most seeds; then right answers in %, mean over seeds"
    )


def _remarks(results: Results) -> tuple[str, ...]:
    """How exact a share of right answers is."""
    document = results.document
    answers = [
        count
        for run in _finished(document["runs"])
        for k in _hops(document)
        if (count := _figure(run, "answers", k)) is not None
    ]
    if not answers:
        return ()
    fewest = min(answers)
    points = 100 * 1.96 * math.sqrt(0.25 / fewest)
    return (f"{fewest:.0f} or more held-out answers per run and number of hops: at most ± {points:.0f} points (95 %).",)


# ---------------------------------------------------------------------- in words


def _sentences(results: Results) -> list[str]:
    """Per depth what every arm solves; what so few seeds cannot say."""
    document = results.document
    lines = []
    for cell in document["cells"]:
        parts = []
        for label in results.labels:
            finished = _finished(results.runs.get((cell["key"], label), ()))
            if finished:
                depth, solving = _solved_by_most(document, finished)
                words = f"solves {counted(depth, 'hop')}" if depth else "solves not even one hop"
                parts.append(f"{label} {words} ({solving} of {counted(len(finished), 'seed')})")
        if parts:
            depth_words = counted(cell["coordinates"]["transformer_blocks"], "transformer block")
            lines.append(f"{depth_words}: {'; '.join(parts)}.")
    lines.append(
        "Counts of seeds and no verdict: whether a run learns a hop at all is partly luck, and longer training may add "
        "one."
    )
    return lines
