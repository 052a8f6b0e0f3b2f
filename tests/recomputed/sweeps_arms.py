"""Oracles of the sweeps that compare arms: residuals, ablations, blocks, depth, groups, studies, and any grid from a
file.

The paper's losses are written down here from its Table 4 and Fig. 6 once more, by the name of the overlay (or the size
of the blocks) that stands for a row.
"""

from __future__ import annotations

import math
from typing import Any

from tests.recomputed.harness import Rows
from tests.recomputed.sweeps_contrasts import (
    Contrast,
    against_reference,
    contrast,
    corrected,
    differences,
    half_width,
    mean_loss,
)
from tests.recomputed.sweeps_files import Files, own_flops, own_steps

INTERVAL = "± 95 %"
# What a run takes outside its training steps (docs/sweep.md).
OVERHEAD_SECONDS = 6.0
MOST_BLOCKS = 1000
PAPER: dict[str, list[tuple[str, str, float]]] = {
    "paper-baseline": [("Table 4", "Baseline (PreNorm)", 1.766)],
    "paper-denseformer": [("Table 4", "DenseFormer", 1.767)],
    "paper-mhc": [("Table 4", "mHC", 1.747)],
    "paper-full": [("Table 4", "AttnRes Full", 1.737), ("Fig. 6", "S = 1", 1.737)],
    "paper-full-input-query": [("Table 4", "Full with input-dependent query", 1.731)],
    "paper-full-scalars": [("Table 4", "Full, input-independent mixing", 1.749)],
    "paper-full-raw-scalars": [("Table 4", "Full, input-independent mixing", 1.749)],
    "paper-full-sigmoid": [("Table 4", "Full with sigmoid", 1.741)],
    "paper-full-no-key-norm": [("Table 4", "Full without RMSNorm", 1.743)],
    "paper-full-window-8": [("Table 4", "SWA, W = 1 + 8", 1.764)],
    "paper-block-4": [("Table 4", "Block, S = 4", 1.746), ("Fig. 6", "S = 4", 1.746)],
    "paper-block-4-heads-16": [("Table 4", "Block, S = 4, multi-head H = 16", 1.752)],
    "paper-block-4-no-key-norm": [("Table 4", "Block, S = 4, without RMSNorm", 1.750)],
    "paper-block-2": [("Fig. 6", "S = 2", 1.746)],
    "paper-block-8": [("Fig. 6", "S = 8", 1.748)],
    "paper-block-16": [("Fig. 6", "S = 16", 1.753)],
    "paper-block-32": [("Fig. 6", "S = 32", 1.757)],
    "size-1": [("Fig. 6", "S = 1", 1.737)],
    "size-2": [("Fig. 6", "S = 2", 1.746)],
    "size-4": [("Fig. 6", "S = 4", 1.746)],
    "size-8": [("Fig. 6", "S = 8", 1.748)],
}
FIGURES = ("loss", "loss_half", "difference", "difference_half", "p_holm", "flops")


def _arms(files: Files, *, by_loss: bool) -> Rows:
    """A row per cell and arm, the reference first; by_loss: then the lowest. What cannot be comes last."""
    found = against_reference(files)
    rows: Rows = []
    for cell in files.cells:
        labels = [label for label in files.labels if files.at(cell["key"], label)]
        means = {label: mean_loss(files, cell["key"], label) for label in labels}
        if by_loss:
            labels[1:] = sorted(labels[1:], key=lambda label: _or_infinite(means[label]))
        rows += [_row(files, cell, label, means[label], found.get((cell["key"], label))) for label in labels]
    return rows + [
        {**files.axes(each["coordinates"]), "arm": each["arm"] or "(all)"} | dict.fromkeys(FIGURES)
        for each in files.document["impossible"]
    ]


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


def _row(files: Files, cell: dict[str, Any], label: str, mean: float | None, found: Contrast | None) -> dict[str, Any]:
    key = cell["key"]
    own, base = files.per_token(key, label), files.per_token(key, files.reference)
    return {
        **files.axes(cell["coordinates"]),
        "arm": label,
        "loss": mean,
        "loss_half": half_width(list(files.losses(key, label).values())),
        "difference": found and found.mean,
        "difference_half": found and found.half,
        "p_holm": found and found.p_if_tested,
        "flops": None if label == files.reference or not own or not base else own / base - 1,
    }


def arms(files: Files) -> Rows:
    return _arms(files, by_loss=False)


def arms_by_loss(files: Files) -> Rows:
    return _arms(files, by_loss=True)


def paper(files: Files) -> Rows:
    """The paper's loss and its difference to its own baseline; a loss that stands in its table and in its figure is one
    row. An arm that does not fit the preset has the paper's numbers alone."""
    found = against_reference(files)
    [(_, _, base)] = PAPER[files.reference]
    unfit = [each["arm"] for each in files.document["impossible"] if each["arm"] not in files.labels]
    rows: Rows = []
    for label in (*files.labels, *unfit):
        said = PAPER.get(label, [])
        for loss in dict.fromkeys(loss for _, _, loss in said):
            here = found.get((files.cells[0]["key"], label))
            rows.append(
                {
                    "arm": label,
                    "difference": here and here.mean,
                    "paper_difference": None if label == files.reference else loss - base,
                    "paper_loss": loss,
                    "paper_row": "; ".join(f"{table}: {row}" for table, row, each in said if each == loss),
                }
            )
    return rows


def seeds(files: Files) -> Rows:
    """Every loss."""
    return [
        {
            **files.axes(cell["coordinates"]),
            "arm": label,
            **{f"seed_{seed}": files.losses(cell["key"], label).get(seed) for seed in files.seeds},
        }
        for cell in files.cells
        for label in files.labels
    ]


# ---------------------------------------------------------------------- deeper, step by step


def _gains(files: Files) -> dict[tuple[str, str], Contrast]:
    """(step such as "2→4", arm) → the deeper model's loss less the shallower one's, corrected over all of them."""
    cells = sorted(files.cells, key=lambda cell: int(cell["coordinates"]["transformer_blocks"]))
    found: dict[tuple[str, str], Contrast | None] = {}
    unfinished = []
    for low, high in zip(cells, cells[1:], strict=False):
        step = "→".join(str(cell["coordinates"]["transformer_blocks"]) for cell in (low, high))
        for label in files.labels:
            found[step, label] = contrast(files.losses(high["key"], label), files.losses(low["key"], label))
            unfinished += [(step, label)] if any(files.waits(cell["key"], label) for cell in (low, high)) else []
    return corrected(found, unfinished)


def steps(files: Files) -> Rows:
    """Per arm a row of differences and one with the half-widths of their intervals."""
    found = _gains(files)
    names = list(dict.fromkeys(step for step, _ in found))
    rows: Rows = []
    for label in files.labels:
        of_arm = {step: found.get((step, label)) for step in names}
        rows.append({"arm": label, **{step: each and each.mean for step, each in of_arm.items()}})
        rows.append({"arm": INTERVAL, **{step: each and each.half for step, each in of_arm.items()}})
    return rows


def steps_payload(files: Files) -> list[dict[str, Any]]:
    return [{"step": step, "arm": label, **each.values()} for (step, label), each in _gains(files).items()]


# ---------------------------------------------------------------------- before anything runs


def plan(files: Files) -> Rows:
    """What was planned, held against the runs that came of it."""
    rows: Rows = []
    for cell in files.cells:
        for label in files.labels:
            if runs := files.at(cell["key"], label):
                manifest = files.trained(cell["key"], label).manifest
                rows.append(
                    {
                        **files.axes(cell["coordinates"]),
                        "arm": label,
                        "runs": len(runs),
                        "non_embedding_parameters": manifest["model"]["non_embedding_parameters"],
                        "training_flops_per_token": manifest["flops"]["training_per_token"],
                        "tokens": manifest["tokens"],
                        "seconds": seconds(files, cell["key"], label),
                    }
                )
    return rows


def seconds(files: Files, cell: str, label: str, budget: dict[str, Any] | None = None) -> float:
    """How long a run is expected to take: its steps, its evaluations at a third of a step's time per token, and what it
    takes outside. Steps were timed at sizes that the budget (of sweep.json, or of a plan) names; between them lie
    straight lines."""
    run = files.trained(cell, label)
    budget = budget or files.document["budget"]
    timed = {float(size): each for size, each in budget["step_seconds"][label].items()}
    train, evaluation = run.resolved["train"], run.resolved["eval"]
    # A size is a number of transformer blocks where cells differ in it, else training FLOPs per token.
    by_blocks = max(timed) < MOST_BLOCKS
    depth, per_token = run.resolved["model"]["transformer_blocks"], run.manifest["flops"]["training_per_token"]
    step = _between(timed, depth if by_blocks else per_token)
    own = own_steps(run)
    evaluations = 1 + (own / evaluation["every_steps"] if evaluation["every_steps"] else 0)
    evaluated_steps = evaluations * evaluation["tokens"] / train["tokens_per_step"] / 3
    return OVERHEAD_SECONDS + step * (own + evaluated_steps)


def _between(timed: dict[float, float], size: float) -> float:
    # sweep.json has the sizes in six digits.
    exact = next((each for each in timed if math.isclose(each, size, rel_tol=1e-5)), None)
    if exact is not None:
        return timed[exact]
    low = max((each for each in timed if each < size), default=min(timed))
    high = min((each for each in timed if each > size), default=max(timed))
    share = 0.0 if high == low else (size - low) / (high - low)
    return timed[low] + share * (timed[high] - timed[low])


def price(files: Files) -> dict[str, Any]:
    """Of the whole sweep, as --json has it. Tokens and FLOPs of the steps that a run trains itself."""
    runs = [each.run or files.trained(*each.place) for each in files.everything]
    tokens = sum(own_steps(run) * run.resolved["train"]["tokens_per_step"] for run in runs)
    return {"runs": len(runs), "tokens": tokens, "flops": sum(own_flops(run) for run in runs)}


def payload(files: Files) -> dict[str, Any]:
    return {"differences": differences(files)}


ORACLES = {"arms": arms, "paper": paper, "seeds": seeds, "steps": steps, "plan": plan}
BUILT_IN = {
    "arms": "report/tables/sweep_arms.py",
    "paper": "report/tables/sweep_arms.py",
    "seeds": "report/tables/sweep_arms.py",
    "plan": "report/tables/sweep_arms.py",
    "steps": "report/sweeps/depth.py",
}
