"""What a tune leaves behind: one overlay per arm that is tuned, with the figures that chose its values in a comment.

    ./presets/overlays/tuned-<preset>-<arm>.toml          so that `--overlay tuned-<preset>-<arm>` finds it

A line `# tuned: {…}` says the same to programs: which tune, how many trials, which horizon.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attnres_cli.analysis.tuning import Trial
from attnres_cli.errors import ExitCode, UserError
from attnres_cli.preset.catalogue import shown
from attnres_cli.preset.toml import format_key, format_value
from attnres_cli.report.tuning import QUERY_FACTOR, Tuning
from attnres_cli.runs.files import write_whole
from attnres_cli.sweep.resolve import HORIZON
from attnres_cli.sweep.results import Sweep

FOLDER = Path("presets/overlays")
MARK = "# tuned: "
TUNING_SEEDS = "train.tuning_seeds"


@dataclass(frozen=True)
class Mark:
    """What tuned an overlay. preset_digest: of the preset the tune started from. trials: of this arm, each with as many
    seeds. horizon_tokens: at which the winner was found, or checked."""

    tune: str
    preset: str
    preset_digest: str
    arm: str
    trials: int
    seeds: int
    horizon_tokens: int


def overlay_path(preset_name: str, label: str) -> Path:
    return FOLDER / f"tuned-{preset_name}-{label}.toml"


def read_mark(path: Path) -> Mark | None:
    """The mark of an overlay that a tune wrote; None for any other file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        said = next((line.removeprefix(MARK) for line in lines if line.startswith(MARK)), None)
        return None if said is None else Mark(**tomllib.loads(f"mark = {said}")["mark"])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, TypeError):
        return None


def refuse_to_overwrite(paths: Mapping[str, Path], tune: str, *, force: bool) -> None:
    """Raise UserError where a file of that name is not from this tune; before anything is trained for it."""
    for path in paths.values():
        mark = read_mark(path)
        if path.exists() and not force and (mark is None or mark.tune != tune):
            raise UserError(
                f"There is already an overlay {shown(path)}" + (f", of the tune '{mark.tune}'." if mark else "."),
                where=shown(path),
                expected="no such file, or --force to write over it",
                hint=f"mv {shown(path)} {shown(path.with_name(path.stem + '-before.toml'))}",
                exit_code=ExitCode.USAGE,
            )


def write_overlays(sweep: Sweep) -> dict[str, Path]:
    """The overlays of every arm that is tuned, by label; an arm that is not gets none. Raises UserError where a file
    cannot be written."""
    tuning = Tuning.of(sweep.to_dict())
    written = {}
    for label in tuning.labels:
        if not tuning.outcome(label).is_tuned:
            continue
        path = overlay_path(sweep.preset["name"], label)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, overlay_text(sweep, tuning, label))
        except OSError as error:
            raise UserError(f"The overlay cannot be written: {error.strerror or error}.", where=shown(path)) from error
        written[label] = path
    return written


def overlay_text(sweep: Sweep, tuning: Tuning, label: str) -> str:
    """The overlay of an arm that is tuned: its whole [residual] section, its other keys, and those that were tuned."""
    best = tuning.outcome(label).best
    assert best is not None, "the arm is tuned"
    tokens = tuning.tokens(label, best)
    mark = Mark(
        tune=sweep.name,
        preset=sweep.preset["name"],
        preset_digest=sweep.preset["digest"],
        arm=label,
        trials=len(tuning.losses[label]),
        seeds=len(sweep.seeds),
        horizon_tokens=tokens,
    )
    lines = [
        f"# {label} at the learning rate that is best for it on {mark.preset}.",
        f"# Validation loss in nats by learning rate, seed{'s' * (mark.seeds > 1)} {', '.join(map(str, sweep.seeds))}:",
        *_figures(tuning, label),
        f"{MARK}{format_value(asdict(mark))}",
    ]
    for section, values in _values(sweep, tuning, label, best).items():
        lines += ["", f"[{section}]", *(f"{format_key(key)} = {format_value(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _figures(tuning: Tuning, label: str) -> list[str]:
    """A comment line per trial, by horizon and rate."""
    lines = []
    losses = tuning.losses[label]
    for trial, cell in tuning.cells.items():
        if trial not in losses:
            continue
        others = [f"{key.replace('_', ' ')} {value:g}" for key, value in cell["coordinates"].items()
                  if key != "learning_rate" and (key != QUERY_FACTOR or tuning.has_query(label))]  # fmt: skip
        rate = cell["coordinates"]["learning_rate"]
        words = ", ".join([f"{rate:g}", *others, f"{tuning.tokens(label, trial):,} tokens"])
        lines.append(f"#   {words}: {losses[trial]:.4f}")
    return lines


def _values(sweep: Sweep, tuning: Tuning, label: str, best: Trial) -> dict[str, dict[str, Any]]:
    """Section → key → value. What the arm's own overlay left out is left out by the same rules of layers again."""
    tuned: Mapping[str, Any] = next(
        run.changes for run in sweep.runs if (run.cell, run.arm) == (tuning.cells[best]["key"], label)
    )
    arm = sweep.arm(label)
    values: dict[str, dict[str, Any]] = {"residual": dict(arm.residual), "train": {}}
    spent = sorted({*(arm.changes.get(TUNING_SEEDS) or ()), *sweep.seeds})
    for name, value in {**arm.changes, **tuned, TUNING_SEEDS: spent}.items():
        section, _, key = name.partition(".")
        if name != HORIZON and value is not None:
            values.setdefault(section, {})[key] = value
    return values
