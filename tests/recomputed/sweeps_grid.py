"""Oracles of a depth-width grid: losses and differences by place, the shapes with their counts, the lowest cells, and
the learning rates that trials chose."""

from __future__ import annotations

import math
from typing import Any

from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.sweeps_arms import INTERVAL
from tests.recomputed.sweeps_contrasts import FEWEST_PAIRS, against_reference, contrast, half_width, mean_loss
from tests.recomputed.sweeps_files import Files, Planned

Place = tuple[float | None, float]
Figures = tuple[float | None, float | None]


def rows_of(files: Files) -> list[float | None]:
    """Every heads / L_b that was asked for, ascending; None for a grid without that axis."""
    asked = {each["coordinates"]["head_ratio"] for each in (*files.cells, *files.document["impossible"])}
    return sorted(asked, key=lambda ratio: ratio or 0.0)


def columns_of(files: Files) -> list[float]:
    """Every d_model / L_b that was asked for, ascending; impossible cells included."""
    return sorted({each["coordinates"]["ratio"] for each in (*files.cells, *files.document["impossible"])})


def keys(files: Files) -> dict[Place, str]:
    """Place → key of the cell there."""
    return {(cell["coordinates"]["head_ratio"], cell["coordinates"]["ratio"]): cell["key"] for cell in files.cells}


def _grid(files: Files, word: str, figures: dict[Place, Figures]) -> Rows:
    """Per row of the grid one of values and, with several seeds, one of half-widths."""
    found: Rows = []
    for row in rows_of(files):
        first: dict[str, Any] = {"row": word} if row is None else {"head_ratio": row}
        second: dict[str, Any] = {"row": INTERVAL} if row is None else {"head_ratio": None}
        for ratio in columns_of(files):
            first[f"ratio_{ratio:g}"], second[f"ratio_{ratio:g}"] = figures.get((row, ratio), (None, None))
        found += [first, second] if len(files.seeds) > 1 else [first]
    return found


def losses(files: Files, label: str) -> Rows:
    figures: dict[Place, Figures] = {
        place: (mean_loss(files, key, label), half_width(list(files.losses(key, label).values())))
        for place, key in keys(files).items()
    }
    return _grid(files, "loss", figures)


def differences(files: Files, label: str) -> Rows:
    found = against_reference(files)
    figures: dict[Place, Figures] = {
        place: (found[key, label].mean, found[key, label].half)
        for place, key in keys(files).items()
        if (key, label) in found
    }
    return _grid(files, "Δ", figures)


def oracles_of(files: Files) -> dict[str, Oracle]:
    """The grids are as many as there are arms."""

    def of(label: str, figures: Any) -> Oracle:
        return lambda material: figures(material, label)

    grids: dict[str, Oracle] = {f"loss_{label}": of(label, losses) for label in files.labels}
    return {**ORACLES, **grids, **{f"difference_{label}": of(label, differences) for label in files.labels[1:]}}


def expected_differences(files: Files) -> list[dict[str, Any]]:
    """For --json, by cell and arm in alphabetical order."""
    return [
        {"cell": cell, "arm": arm, **each.values()} for (cell, arm), each in sorted(against_reference(files).items())
    ]


# ---------------------------------------------------------------------- cells


def cells(files: Files) -> Rows:
    """Shapes from resolved.toml, counts from the manifests; what other arms cost more; and the rate that the rule
    gives."""
    own_shape = files.document["facts"]["reference"]["counts"]
    rows: Rows = []
    for cell in files.cells:
        run = files.trained(cell["key"], files.reference)
        model, manifest = run.resolved["model"], run.manifest
        depth, width, heads = (model[key] for key in ("transformer_blocks", "d_model", "num_heads"))
        size = model.get("head_dim", width // heads)
        counts = manifest["model"]
        flops, parameters = manifest["flops"]["training_per_token"], counts["non_embedding_parameters"]
        others = {
            f"flops_{label}": (files.per_token(cell["key"], label) or math.nan) / flops - 1
            for label in files.labels[1:]
        }
        rows.append(
            {
                "cell": cell["key"],
                "shape": f"{depth}×{width}",
                "heads": f"{heads}×{size}",
                "d_ff": model["d_ff"],
                "realised_ratio": width / depth,
                **({} if rows_of(files) == [None] else {"realised_head_ratio": heads / depth}),
                "non_embedding_parameters": parameters,
                "parameters": counts["parameters"],
                "training_flops_per_token": flops,
                "total_flops": manifest["flops"]["total"],
                "non_embedding_parameters_mismatch": parameters / own_shape["non_embedding_parameters"] - 1,
                "training_flops_per_token_mismatch": flops / own_shape["training_flops_per_token"] - 1,
                **others,
                "learning_rate": rule(files, width),
            }
        )
        assert (parameters, flops) == counted_by_hand(model, files.document["vocab_size"])
    return rows


def rule(files: Files, width: int) -> float:
    """The preset's rate × (width / the preset's width) ^ power, in four digits."""
    values, power = files.document["preset"]["values"], files.document["request"]["learning_rate_power"]
    rate = values["train"]["learning_rate"] * (width / values["model"]["d_model"]) ** power
    return float(f"{rate:.4g}")


def counted_by_hand(model: dict[str, Any], vocab_size: int) -> tuple[int, float]:
    """Of the baseline with as many heads of keys as of queries: parameters outside the embedding, and training FLOPs
    per token (three times forward; causal attention meets half of the context)."""
    depth, width, hidden, context = (model[key] for key in ("transformer_blocks", "d_model", "d_ff", "context_tokens"))
    inner = model["num_heads"] * model.get("head_dim", width // model["num_heads"])
    matrices = depth * (4 * width * inner + 3 * width * hidden)
    attention = depth * 4 * inner * context / 2
    forward = 2 * matrices + attention + 2 * vocab_size * width
    return matrices + (2 * depth + 1) * width, 3.0 * forward


# ---------------------------------------------------------------------- lowest cells


def compared(files: Files) -> list[Place]:
    """Where every arm has a loss of every seed."""
    return [
        place
        for place, key in sorted(keys(files).items(), key=lambda each: (each[0][0] or 0.0, each[0][1]))
        if all(files.is_complete(key, label) for label in files.labels)
    ]


def lowest(files: Files) -> dict[str, Any]:
    """The lowest cell of each arm, at which edges of the compared cells it lies, and whether seeds show it against the
    next compared cell on every side."""
    found: dict[str, Any] = {}
    for label in files.labels:
        known = {place: mean_loss(files, keys(files)[place], label) for place in compared(files)}
        place = min(known, key=lambda each: known[each] or math.inf)
        found[label] = {"ratio": place[1], "head_ratio": place[0], "loss": known[place]}
    return {"compared_cells": len(compared(files)), "arms": found}


def lowest_in_words(files: Files) -> dict[str, tuple[str, bool]]:
    """Per arm (key of its lowest cell, whether it is shown)."""
    return {
        label: (
            keys(files)[each["head_ratio"], each["ratio"]],
            _is_shown(files, label, (each["head_ratio"], each["ratio"])),
        )
        for label, each in lowest(files)["arms"].items()
    }


def _is_shown(files: Files, label: str, place: Place) -> bool:
    beside = []
    for axis in (0, 1):
        line = sorted(
            (each for each in compared(files) if each[1 - axis] == place[1 - axis]), key=lambda each: each[axis] or 0
        )
        at = line.index(place)
        beside += [*line[max(0, at - 1) : at], *line[at + 1 : at + 2]]
    own = files.losses(keys(files)[place], label)
    found = [contrast(own, files.losses(keys(files)[each], label)) for each in beside]
    enough = len(files.seeds) >= FEWEST_PAIRS and bool(found)
    return enough and all(each is not None and each.high is not None and each.high < 0 for each in found)


# ---------------------------------------------------------------------- rates that trials chose


def _trials(files: Files) -> dict[tuple[str, str], list[Planned]]:
    """(cell, arm) → its trials, the lowest rate first."""
    found: dict[tuple[str, str], list[Planned]] = {}
    for each in files.everything:
        if each.trial:
            found.setdefault(each.place, []).append(each)
    return {place: sorted(trials, key=_rate) for place, trials in found.items()}


def _rate(each: Planned) -> float:
    return float(each.train["learning_rate"])


def _chosen(trials: list[Planned]) -> float:
    """The rate of the lowest loss; the rule's, in the middle, where every one diverged."""
    known = [each for each in trials if each.loss is not None]
    return _rate(min(known, key=lambda each: each.loss or math.inf) if known else trials[len(trials) // 2])


def rates(files: Files) -> Rows:
    return [
        {
            "cell": cell,
            "arm": label,
            "learning_rate": _chosen(trials),
            "rule": _rate(trials[len(trials) // 2]),
            **{f"trial_{number}": each.loss for number, each in enumerate(trials)},
        }
        for (cell, label), trials in _trials(files).items()
    ]


def rates_payload(files: Files) -> list[dict[str, Any]]:
    for (cell, label), trials in _trials(files).items():
        assert {_rate(each) for each in files.at(cell, label)} == {_chosen(trials)}, (
            "the seeds train at the chosen rate"
        )
    return [
        {
            "learning_rate": _chosen(trials),
            "rule_learning_rate": _rate(trials[len(trials) // 2]),
            "trials": [{"learning_rate": _rate(each), "seed": each.seed, "loss": each.loss} for each in trials],
        }
        for trials in _trials(files).values()
    ]


ORACLES: dict[str, Oracle] = {"cells": cells, "rates": rates}
BUILT_IN = {
    "cells": "report/tables/sweep_cells.py",
    "rates": "report/tables/cell_rates.py",
    "f'loss_{label}'": "report/tables/sweep_grid.py",
    "f'difference_{label}'": "report/tables/sweep_grid.py",
}
