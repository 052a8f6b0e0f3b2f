"""The depth-width sweep: a grid of shapes at one size, every cell with every scheme, as ordinary presets.

request (preset, schemes, grid, what is pinned, budget) → cells with integer shapes → one resolved preset per cell
and scheme
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attnres_cli.errors import Fault, UserError
from attnres_cli.sweep.axes import Coordinates, grid
from attnres_cli.sweep.budget import (
    Calibrate,
    TimedRun,
    estimated_seconds,
    interpolated,
    sample_positions,
    tokens_for_flops,
    tokens_for_minutes,
)
from attnres_cli.sweep.matching import Match, match_cells
from attnres_cli.sweep.request import KIND, Request
from attnres_cli.sweep.results import Arm, Cell, Run, Sweep
from attnres_cli.sweep.shapes import Counts, Family, Shape

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

# What each kind of matching holds equal: the field of Counts.
PINNED = {"parameters": "non_embedding_parameters", "flops": "training_flops_per_token"}


class Counter:
    """Counts real models on the meta device; each shape and scheme once."""

    def __init__(self, preset: Preset, vocab_size: int) -> None:
        self.preset, self.vocab_size = preset, vocab_size
        self._known: dict[tuple[Shape, str], Counts] = {}

    def __call__(self, shape: Shape, arm: Arm) -> Counts:
        """Raises UserError when the scheme does not fit the shape."""
        from attnres_cli.model.build import build_model
        from attnres_cli.model.counting import non_embedding_parameters, training_flops_per_token

        key = (shape, arm.label)
        if key not in self._known:
            model = build_model(with_arm(self.preset, arm, shape.settings()), self.vocab_size, device="meta")
            self._known[key] = Counts(
                parameters=sum(parameter.numel() for parameter in model.parameters()),
                non_embedding_parameters=non_embedding_parameters(model),
                training_flops_per_token=training_flops_per_token(model, self.preset.model.context_tokens),
            )
        return self._known[key]


def with_arm(preset: Preset, arm: Arm, changes: Mapping[str, Any]) -> Preset:
    """`preset` with the arm's whole [residual] section and some keys changed ("section.key" → value)."""
    theirs = preset.to_dict().get("residual", {})
    dropped = {f"residual.{key}": None for key in theirs if key not in arm.residual}
    return preset.replace({**dropped, **{f"residual.{key}": value for key, value in arm.residual.items()}, **changes})


def plan(
    request: Request,
    *,
    name: str,
    command: str,
    vocab_size: int,
    parallel_runs: int,
    calibrate: Calibrate,
    tokens: int | None = None,
) -> Sweep:
    """Every cell with shape and counts, every impossible cell with its reason, one planned run per cell and arm.

    parallel_runs: how many will train beside each other (for the time). calibrate: called only for a budget in minutes.
    tokens: per run, where that is settled already (a sweep that is continued); nothing is timed then.
    Raises UserError when the preset is too small for its schemes, or the budget for the sweep.
    """
    preset, reference_arm = request.preset, request.arms[0]
    count = Counter(preset, vocab_size)
    reference = Shape.of(preset.model)
    cells, impossible = _cells(request, count, reference)
    if not cells:
        raise UserError([_impossible_fault(each) for each in impossible])
    presets = {(cell.key, arm.label): with_arm(preset, arm, _changes(cell)) for cell in cells for arm in request.arms}
    budget: dict[str, Any] = asdict(request.budget)
    if tokens is None:
        tokens, found = _tokens(request, cells, presets, count(reference, reference_arm), parallel_runs, calibrate)
        budget |= found
    runs = [
        Run(cell.key, arm.label, presets[cell.key, arm.label].replace({"train.horizon_tokens": tokens}).digest())
        for cell in cells
        for arm in request.arms
    ]
    return Sweep(
        name=name,
        kind=KIND,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        request=request.to_dict(),
        preset={
            "name": preset.name,
            "digest": preset.digest(),
            "values": preset.to_dict(),
            "source_text": preset.source_text,
        },
        arms=list(request.arms),
        vocab_size=vocab_size,
        reference={
            "shape": asdict(reference),
            "counts": asdict(count(reference, reference_arm)),
            "learning_rate": preset.train.learning_rate,
        },
        budget=budget,
        tokens=tokens,
        tokens_per_step=preset.train.tokens_per_step,
        learning_rate_rule=learning_rate_rule(request),
        cells=cells,
        impossible=impossible,
        runs=runs,
    )


def run_preset(sweep: Sweep, run: Run) -> Preset:
    """The resolved preset of one run, from the sweep file alone."""
    from attnres_cli.preset.reading import preset_from_dict

    values, name, source_text = (sweep.preset[key] for key in ("values", "name", "source_text"))
    preset = replace(preset_from_dict(values, name), source_text=source_text)
    changes = _changes(sweep.cell(run.cell)) | {"train.horizon_tokens": sweep.tokens}
    return with_arm(preset, sweep.arm(run.arm), changes)


def learning_rate_rule(request: Request) -> str:
    """The rule as a sentence with its numbers."""
    train, width = request.preset.train, request.preset.model.d_model
    rate = f"{train.learning_rate:g} × (d_model / {width})^{request.learning_rate_power:g}"
    return f"Peak learning rate = {rate}, the same for every scheme."


def _cells(request: Request, count: Counter, reference: Shape) -> tuple[list[Cell], list[dict[str, Any]]]:
    pinned, first = PINNED[request.match], request.arms[0]
    target = count(reference, first)
    matches, failures = match_cells(
        grid(request.ratios, request.head_ratios),
        family=Family.of(reference),
        reference=reference,
        measure=lambda shape: getattr(count(shape, first), pinned),
        target=getattr(target, pinned),
    )
    impossible = [_impossible(each.coordinates, each.reason) for each in failures]
    cells = []
    for match in matches:
        try:
            cells.append(_cell(match, request, count, target))
        except UserError as error:  # a scheme that does not fit this depth: without it the cell has nothing to compare
            impossible.append(_impossible(match.coordinates, f"{match.shape}: {error}"))
    order = {
        coordinates.key: position for position, coordinates in enumerate(grid(request.ratios, request.head_ratios))
    }
    return cells, sorted(impossible, key=lambda cell: order[cell["key"]])


def _impossible(coordinates: Coordinates, reason: str) -> dict[str, Any]:
    return {"key": coordinates.key, "ratio": coordinates.ratio, "head_ratio": coordinates.head_ratio, "reason": reason}


def _impossible_fault(cell: Mapping[str, Any]) -> Fault:
    return Fault(f"Cell {cell['key']} is impossible: {cell['reason']}.", hint="other --ratios, or another preset")


def _cell(match: Match, request: Request, count: Counter, target: Counts) -> Cell:
    shape, train = match.shape, request.preset.train
    counts = {arm.label: count(shape, arm) for arm in request.arms}
    ours = counts[request.arms[0].label]
    scale = (shape.d_model / request.preset.model.d_model) ** request.learning_rate_power
    # Without a rate of its own Muon takes learning_rate, which is scaled already.
    muon = train.muon_learning_rate if train.optimizer == "muon" else None
    return Cell(
        key=match.coordinates.key,
        coordinates=match.coordinates,
        shape=shape,
        learning_rate=rounded(train.learning_rate * scale),
        muon_learning_rate=None if muon is None else rounded(muon * scale),
        counts=counts,
        mismatch={name: getattr(ours, name) / getattr(target, name) - 1 for name in PINNED.values()},
    )


def rounded(rate: float) -> float:
    """A learning rate in four significant digits, so that presets stay readable."""
    return float(f"{rate:.4g}")


def _changes(cell: Cell) -> dict[str, Any]:
    changes: dict[str, Any] = {**cell.shape.settings(), "train.learning_rate": cell.learning_rate}
    if cell.muon_learning_rate is not None:
        changes["train.muon_learning_rate"] = cell.muon_learning_rate
    return changes


# ---------------------------------------------------------------------- tokens


def _tokens(
    request: Request,
    cells: Sequence[Cell],
    presets: Mapping[tuple[str, str], Preset],
    reference: Counts,
    parallel_runs: int,
    calibrate: Calibrate,
) -> tuple[int, dict[str, Any]]:
    """(tokens per run, what the sweep file keeps about where they came from)"""
    budget, preset = request.budget, request.preset
    per_step = preset.train.tokens_per_step
    if budget.kind == "preset":
        return preset.train.horizon_tokens, {}
    assert budget.value is not None
    if budget.kind == "flops":
        return tokens_for_flops(budget.value, reference.training_flops_per_token, per_step), {}
    step_seconds = _timed(cells, request.arms, presets, calibrate)
    evaluation_every_tokens = preset.eval.every_steps * per_step or None
    runs = [
        TimedRun(seconds / per_step, preset.eval.tokens, evaluation_every_tokens)
        for cell in cells
        for arm in request.arms
        for seconds in [interpolated(step_seconds[arm.label], cell.shape.transformer_blocks)]
    ]
    tokens = tokens_for_minutes(budget.value, runs, parallel_runs, per_step)
    seconds = estimated_seconds(runs, tokens, parallel_runs)
    return tokens, {
        "estimated_minutes": seconds / 60,
        "parallel_runs": parallel_runs,
        "step_seconds": {
            label: {str(depth): value for depth, value in timed.items()} for label, timed in step_seconds.items()
        },
    }


def _timed(
    cells: Sequence[Cell], arms: Sequence[Arm], presets: Mapping[tuple[str, str], Preset], calibrate: Calibrate
) -> dict[str, dict[int, float]]:
    """Seconds of one training step by arm and depth, for the cells that stand for the rest."""
    chosen = [cells[position] for position in sample_positions([cell.shape.transformer_blocks for cell in cells])]
    timed: dict[str, dict[int, float]] = {arm.label: {} for arm in arms}
    for cell in chosen:
        seconds = calibrate({arm.label: presets[cell.key, arm.label] for arm in arms})
        for label, value in seconds.items():
            timed[label][cell.shape.transformer_blocks] = value
    return timed
