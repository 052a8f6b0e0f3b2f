"""The sweep file: what a sweep is to do, and how far each of its runs has come.

    <runs>/<sweep name>/
        sweep.json              this file's subject: plan and status, always whole (docs/sweep.md is its contract)
        r16-prenorm-s0/         ordinary run directories, one per cell, arm and seed
        trials/                 those that chose a value for the others, out of the way of comparisons

The file is rewritten after every change; the numbers in it are copies from the run directories, which are the truth.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from attnres_cli.errors import UserError, nearest_name
from attnres_cli.runs.files import read_json, write_json
from attnres_cli.runs.lookup import SWEEP_FILE, TRIALS_FOLDER, below_root, none_in
from attnres_cli.runs.process import own_process
from attnres_cli.runs.shapes import SWEEP, misfit
from attnres_cli.runs.state import judged_status

SCHEMA = "attnres.sweep/2"

RunStatus = Literal["planned", "running", "finished", "interrupted", "diverged", "failed"]
# A run in one of these states has a result that stays: training it again would give the same one.
SETTLED: tuple[RunStatus, ...] = ("finished", "diverged")


@dataclass(frozen=True)
class Arm:
    """One thing that is compared: a residual configuration, or an overlay.

    label: unique in the sweep. residual: the whole [residual] section. changes: keys of other sections that the arm
    says, "section.key" → value (None: left out). facts: what tables may say of it, such as its rows of the paper.
    """

    label: str
    residual: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """One point of the grid. coordinates: where it stands, axis → value. facts: what its kind of sweep says of it."""

    key: str
    coordinates: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Run:
    """One training of the sweep: a cell with an arm and a seed, and what is known of it.

    Its preset is the sweep's, with the arm's residual section, with `changes` ("section.key" → value) and with
    train.seed = `seed`. digest: of that preset, which is what makes a finished run reusable. cost: what it takes
    compared with the other runs (seconds on this machine where they were timed, else FLOPs). flops and planned_tokens:
    what it trains itself, without what it takes over from another run. after: digest of a run that has to finish first,
    or None; after_step: this one starts where that one stood then. trial: the value that it tries ("lr0.004"), where it
    is one of those that choose a value for the runs of its cell and arm; no result counts it. awaits_rate: such trials
    have yet to choose its learning rate, so it does not train, and `changes` say the rule's. folder: its run directory
    inside the sweep's, None before it starts. loss: nats per token on the fixed validation set after the last step.
    """

    cell: str
    arm: str
    digest: str
    seed: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0
    flops: float = 0.0
    planned_tokens: int = 0
    after: str | None = None
    after_step: int | None = None
    trial: str = ""
    awaits_rate: bool = False
    folder: str | None = None
    status: RunStatus = "planned"
    step: int = 0
    steps: int | None = None
    tokens: int | None = None
    loss: float | None = None
    perplexity: float | None = None
    bits_per_byte: float | None = None
    train_seconds: float | None = None
    error: str | None = None
    figures: Mapping[str, float] = field(default_factory=dict)

    # What the plan says of a run; everything else is what became of it.
    PLANNED: ClassVar = (
        "cell",
        "arm",
        "digest",
        "seed",
        "changes",
        "cost",
        "flops",
        "planned_tokens",
        "after",
        "after_step",
        "trial",
        "awaits_rate",
    )

    @property
    def name(self) -> str:
        """What its folder is called, unless that name is taken; a sweep of one cell leaves the cell out."""
        name = "-".join(part for part in (self.cell, self.arm, self.trial, f"s{self.seed}") if part)
        return f"{TRIALS_FOLDER}/{name}" if self.trial else name

    @property
    def title(self) -> str:
        """The same for people: "r16 prenorm seed 0"."""
        return " ".join(part for part in (self.cell, self.arm, self.trial, f"seed {self.seed}") if part)

    def planned_anew(self) -> Run:
        """The run as its plan has it, nothing trained."""
        return Run(**{name: getattr(self, name) for name in self.PLANNED})


@dataclass
class Sweep:
    """Everything in sweep.json.

    kind: a file of sweep/kinds/. report: the file of report/sweeps/ that says how it is shown. request: what was asked
    for, as plain values; a sweep of the same name continues only for the same request. preset: {"name", "digest",
    "values", "source_text"} of the preset it started from. arms: the reference first. seeds: every seed, in the order
    in which they were asked for; the first `planned_seeds` of them before anything had run. budget: where the tokens
    came from, with the timing if there was one. tokens: per run, where the budget decides them. facts: the kind's own.
    impossible: cells, or arms in a cell, that cannot be: {"key", "arm" (None: every arm), "coordinates", "reason"}.
    measured: what was taken beside the runs, once they had ended.
    """

    name: str
    kind: str
    report: str
    created: str
    command: str
    request: dict[str, Any]
    preset: dict[str, Any]
    arms: list[Arm]
    seeds: list[int]
    planned_seeds: int
    vocab_size: int
    budget: dict[str, Any]
    tokens: int
    tokens_per_step: int
    facts: dict[str, Any]
    cells: list[Cell]
    impossible: list[dict[str, Any]]
    runs: list[Run]
    status: str = "planned"
    process: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in sweep.json; those inside arms, cells and runs are the sweep's own, to be read only."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("arms", "cells", "runs"):
            values[name] = [dict(vars(each)) for each in values[name]]
        return {"schema": SCHEMA, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The sweep that `to_dict` wrote. Raises KeyError or TypeError for anything else."""
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}  # older files have fewer
        known["arms"] = [_record(Arm, arm) for arm in known["arms"]]
        known["cells"] = [_record(Cell, cell) for cell in known["cells"]]
        known["runs"] = [_record(Run, run) for run in known["runs"]]
        for name in ("name", "values", "source_text"):
            if known["preset"][name] is None:
                raise TypeError(f"preset.{name} is null")
        return _record(cls, known)

    def cell(self, key: str) -> Cell:
        return next(cell for cell in self.cells if cell.key == key)

    def arm(self, label: str) -> Arm:
        return next(arm for arm in self.arms if arm.label == label)

    @property
    def left(self) -> int:
        """How many runs have no result yet that stays."""
        return sum(run.status not in SETTLED for run in self.runs)

    @property
    def counted(self) -> dict[str, int]:
        """How many runs have each status."""
        found: dict[str, int] = {}
        for run in self.runs:
            found[run.status] = found.get(run.status, 0) + 1
        return found


class SweepDirectory:
    """A sweep on disk: a group of runs with a sweep.json. One process writes it; readers need no lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def file_path(self) -> Path:
        return self.path / SWEEP_FILE

    @property
    def exists(self) -> bool:
        return self.file_path.is_file()

    def document(self) -> dict[str, Any]:
        """sweep.json as it is, for tables and --json; its status is judged ("stale" when the process is gone).

        Raises UserError when it cannot be read or is of another schema.
        """
        try:
            values = read_json(self.file_path)
        except (OSError, ValueError) as error:
            raise UserError(
                f"The file of sweep '{self.name}' cannot be read: {error}.", where=str(self.file_path)
            ) from error
        if values.get("schema") != SCHEMA:
            raise UserError(
                f"The file of sweep '{self.name}' has the schema {values.get('schema')!r}.",
                where=str(self.file_path),
                expected=f"{SCHEMA}, which this version writes",
                hint="its runs are whole (attnres runs ls); start a new sweep under another --name",
            )
        self._check(values)
        if values.get("status") == "running":
            values["status"] = judged_status({"status": "running", **(values.get("process") or {})})
        return values

    def _check(self, values: dict[str, Any]) -> None:
        """Raises UserError for values that are no sweep's."""
        said = misfit(values, SWEEP)
        try:
            if said is None:
                Sweep.from_dict(values)
        except KeyError as error:
            said = f"it lacks {error}"
        except TypeError as error:
            said = str(error)
        if said is not None:
            raise UserError(
                f"The file of sweep '{self.name}' is damaged: {said}.", where=str(self.file_path),
                hint="its runs are whole (attnres runs ls); start a new sweep under another --name",
            )  # fmt: skip

    def read(self) -> Sweep:
        """The sweep. Raises UserError when its file is damaged."""
        return Sweep.from_dict(self.document())

    def write(self, sweep: Sweep) -> None:
        """Write sweep.json whole, with this process as its writer."""
        with self._lock:
            sweep.process = {**own_process(), "heartbeat": time.time()}
            write_json(self.file_path, sweep.to_dict())

    def summary(self) -> dict[str, Any]:
        """What a list of sweeps says of this one; a file that cannot be read is a status, not an error."""
        try:
            sweep, status = self.read(), self.document()["status"]
        except UserError as error:
            return {"name": self.name, "status": "unreadable", "error": str(error)}
        return {
            "name": self.name,
            "kind": sweep.kind,
            "status": status,
            "preset": sweep.preset["name"],
            "arms": [arm.label for arm in sweep.arms],
            "seeds": len(sweep.seeds),
            "runs": len(sweep.runs),
            "counted": sweep.counted,
            "created": sweep.created,
        }


def create_sweep_directory(directory: SweepDirectory) -> None:
    """Make the folder of a new sweep. Raises UserError when something else (a run, somebody's files) has that name."""
    try:
        directory.path.mkdir(parents=True)
    except FileExistsError:
        if not directory.path.is_dir() or any(directory.path.iterdir()):
            raise UserError(
                f"There is already something called '{directory.path.name}' that is no sweep.",
                where=str(directory.path),
                expected="a new name, or the name of a sweep to continue",
                hint="--name ANOTHER",
            ) from None


def list_sweeps(root: Path) -> list[SweepDirectory]:
    """Every sweep below `root`, by name; an absent root holds none."""
    return [SweepDirectory(path.parent) for path in sorted(root.glob(f"*/{SWEEP_FILE}"))]


def sweep_names(root: Path) -> list[str]:
    """Names of the sweeps below `root`, from the file system only (for shell completion)."""
    return [sweep.path.name for sweep in list_sweeps(root)]


def find_sweep(ref: str, root: Path) -> SweepDirectory:
    """The sweep that `ref` means: a name below `root`, a path, or the unique beginning of a name.

    Raises UserError when there is none (with the nearest name) or when several begin so.
    """
    for path in (root / ref, Path(ref)):
        if ref.strip() and (sweep := SweepDirectory(path)).exists:
            return sweep
    names = sweep_names(root)
    beginning = [name for name in names if ref and name.startswith(ref)]
    if len(beginning) == 1:
        return SweepDirectory(root / beginning[0])
    raise UserError(
        f"'{ref}' is the beginning of {len(beginning)} sweeps." if beginning else f"There is no sweep '{ref}'.",
        where=str(root),
        expected=", ".join(beginning or names) or f"a sweep, but {none_in(root)}",
        nearest=None if beginning else nearest_name(ref, names),
        hint=below_root("attnres sweep ls" if names else "attnres sweep depth-width", root),
    )


Record = TypeVar("Record")


def _record(kind: type[Record], values: Mapping[str, Any]) -> Record:
    """Raises TypeError for a null in a field that is always something."""
    made = kind(**values)
    for each in fields(made):  # type: ignore[arg-type]
        if getattr(made, each.name) is None and "None" not in str(each.type):
            raise TypeError(f"{each.name} is null")
    return made
