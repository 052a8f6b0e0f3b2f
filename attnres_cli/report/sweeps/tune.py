"""A tune: what each arm's best is and whether it is one, every trial, and what the comparison looks like at the common
rate and at each arm's own."""

from __future__ import annotations

import math
import shlex
from typing import Any

from attnres_cli.analysis.optimum import FEWEST_CELLS, RowOptimum, optimum_shift, row_optimum
from attnres_cli.analysis.paired import FEWEST_PAIRS
from attnres_cli.analysis.tuning import HALF_OCTAVE, Edge, Outcome, Trial, engine, factor
from attnres_cli.report.document import Block, Notice
from attnres_cli.report.phrases import nats
from attnres_cli.report.sweep_results import SweepDocument
from attnres_cli.report.tables.tune import best_table, trials_plan_table, trials_table
from attnres_cli.report.tuning import KEYS, OWN, Tuning, difference, finite, seeds_words

SHOWS_IMPOSSIBLE = False
NAMES = {"rate": "learning rate", "decay": "weight decay", "query": "query learning-rate factor"}


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    tuning = Tuning.of(document)
    if not any(tuning.searched(label) for label in tuning.labels):
        return [trials_table(tuning)] if document["runs"] else []
    untuned = any(not tuning.outcome(label).is_tuned for label in tuning.labels)
    return [
        best_table(tuning),
        trials_table(tuning),
        Notice("Tuned?", tuple(_judgements(tuning)), "warning" if untuned else "result"),
        Notice("What the rates do to the comparison", tuple(_comparison(tuning))),
    ]


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    return [trials_plan_table(document)]


def payload(document: SweepDocument) -> dict[str, Any]:
    """Per arm what the overlay says, at full precision."""
    tuning = Tuning.of(document)
    return {"tuned": [_facts(tuning, label) for label in tuning.labels]}


def _facts(tuning: Tuning, label: str) -> dict[str, Any]:
    found, searched = tuning.outcome(label), tuning.searched(label)
    losses = tuning.losses[label]
    return {
        "arm": label,
        "is_tuned": found.is_tuned,
        "is_complete": found.is_complete,
        "trials": len(losses),
        "edges": [{"key": KEYS[edge.axis], "side": edge.side, "at_full_horizon": edge.full} for edge in found.edges],
        "best": None if found.best is None else dict(tuning.cells[found.best]["coordinates"]),
        "loss": None if found.best is None else losses[found.best],
        "search_loss": None if searched is None else losses[searched],
        "common_loss": finite(losses.get(OWN)),
    }


# ---------------------------------------------------------------------- sentences


def _judgements(tuning: Tuning) -> list[str]:
    """Per arm whether it is tuned, and what to do where it is not."""
    lines = []
    for label in tuning.labels:
        found = tuning.outcome(label)
        if found.is_tuned:
            assert found.best is not None, "tuned"
            rate = tuning.value(found.best, "learning_rate")
            trials = len(tuning.losses[label])
            lines.append(f"{label}: tuned, learning rate {rate:g}, {trials} trials; both sides of it are worse.")
        elif found.edges:
            lines += [f"{label}: not tuned: {_edge(tuning, found, edge)}" for edge in found.edges]
        elif found.is_complete:
            lines.append(f"{label}: not tuned: every trial diverged. Start from a lower learning rate.")
        else:
            lines.append(f"{label}: not tuned yet: trials are missing.")
    if any(edge for label in tuning.labels for edge in tuning.outcome(label).edges if not edge.full):
        lines.append(_widening(tuning))
    return lines


def _widening(tuning: Tuning) -> str:
    """The command whose range is wider: the same tune where its engine lets it grow, else another one."""
    document = tuning.document
    grows = engine(tuning.search).POINTS_MAY_GROW
    name = shlex.quote(document["name"] if grows else f"{document['name']}-wider")
    wider = f"{document['command']} --name {name} --points {len(document['request']['points']) + 2}"
    return f"Widen: {wider}" if grows else f"Widen, in a tune of its own: {wider}"


def _edge(tuning: Tuning, found: Outcome, edge: Edge) -> str:
    assert found.best is not None, "an edge is of a best"
    value = tuning.value(found.best, KEYS[edge.axis])
    if edge.full:
        return (
            f"at the full horizon the {edge.side} of the three learning rates, {value:g}, is better than the one that "
            "the shorter search found. Search at the full horizon (--horizon-fraction 1)."
        )
    outermost = _outermost(tuning, found, edge)
    name = NAMES[edge.axis]
    if outermost == value:
        return f"its lowest loss is at the {edge.side} {name} tried, {value:g}; the optimum may lie beyond."
    return (
        f"its lowest loss is at {value:g}, less than √2 from the {edge.side} {name} tried, {outermost:g}; the optimum "
        "may lie beyond."
    )


def _outermost(tuning: Tuning, found: Outcome, edge: Edge) -> float:
    """The value of an axis beyond which the search tried nothing."""
    tried = [tuning.value(trial, KEYS[edge.axis]) for trial in found.trials if not trial.full]
    known = [value for value in tried if value is not None]
    return min(known) if edge.side == "lowest" else max(known)


def _comparison(tuning: Tuning) -> list[str]:
    """Whether the optima differ, and Δ at the common rate and at each arm's own."""
    reference, *others = tuning.labels
    base_best = tuning.searched(reference)
    n = len(tuning.document["seeds"])
    lines = []
    for label in others:
        best = tuning.searched(label)
        if best is None or base_best is None:
            lines.append(f"{label}: nothing to compare with {reference}.")
            continue
        lines.append(_optima(tuning, label, best, base_best))
        own = difference(tuning.own_loss(label), tuning.own_loss(reference))
        common = difference(*(finite(tuning.losses[each].get(OWN)) for each in (label, reference)))
        parts = [
            f"{'not known' if value is None else nats(value, signed=True) + ' nats'} at {where}"
            for value, where in ((common, f"the common rate {_rate(tuning, OWN)}"), (own, "each arm's own"))
        ]
        lines.append(f"{label} against {reference}: {', '.join(parts)}.")
    lines.append(
        f"{seeds_words(n)[:1].upper()}{seeds_words(n)[1:]}, and these runs chose the rates: no verdict rests on them. "
        "Train the arms at their own rates with other seeds (attnres study new)."
    )
    return lines


def _optima(tuning: Tuning, label: str, best: Trial, base_best: Trial) -> str:
    """Whether an arm's best rate is the reference's. A parabola through the losses says it with an interval."""
    reference = tuning.labels[0]
    ratio = factor(best.rate - base_best.rate)
    apart = f"the best learning rate of {label} is {_rate(tuning, best)}, of {reference} {_rate(tuning, base_best)}"
    words = f"{apart[:1].upper()}{apart[1:]}: "
    if best.rate == base_best.rate:
        words += "the same of those that were tried"
    elif abs(best.rate - base_best.rate) <= HALF_OCTAVE:
        words += f"× {ratio:.3g}, no further apart than the finest step of the search, √2"
    else:
        words += f"× {ratio:.3g}"
    ours, theirs = (_fitted(tuning, each) for each in (label, reference))
    shift = optimum_shift(ours, theirs) if ours and theirs else None
    few = len(tuning.document["seeds"]) < FEWEST_PAIRS
    if few and best.rate == base_best.rate:
        return f"{words}."
    if few:
        return f"{words}; with fewer than {FEWEST_PAIRS} seeds nothing says whether more than noise."
    if shift is None or shift.n < FEWEST_PAIRS:
        return f"{words}; no smooth optimum inside the range says whether more than noise."
    low, high = math.exp(shift.low), math.exp(shift.high)
    verdict = "not shown to differ" if shift.low <= 0 <= shift.high else "they differ, shown"
    return f"{words}; fitted optima × {math.exp(shift.mean):.3g} ({low:.3g} to {high:.3g}): {verdict}."


def _fitted(tuning: Tuning, label: str) -> RowOptimum | None:
    """The smooth optimum over the learning rates that were tried with the preset's other values."""
    seeds = tuning.document["seeds"]
    rates, losses = [], []
    for trial, cell in tuning.cells.items():
        if trial == Trial(rate=trial.rate) and trial in tuning.losses[label]:
            runs = {
                run["seed"]: run["loss"]
                for run in tuning.document["runs"]
                if (run["cell"], run["arm"], run["status"]) == (cell["key"], label, "finished")
            }
            if runs:
                rates.append(cell["coordinates"]["learning_rate"])
                losses.append([runs.get(seed, math.nan) for seed in seeds])
    return row_optimum(rates, losses) if len(rates) >= FEWEST_CELLS else None


def _rate(tuning: Tuning, trial: Trial) -> str:
    return f"{tuning.value(trial, 'learning_rate'):g}"
