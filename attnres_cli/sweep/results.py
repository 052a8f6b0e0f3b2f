"""The sweep file: what a sweep is to do, and how far each of its runs has come.

    <runs>/<sweep name>/
        sweep.json          this file's subject: plan and status, always whole (docs/sweep.md is its contract)
        r16-prenorm/        ordinary run directories, one per cell and arm

The file is rewritten after every change; the numbers in it are copies from the run directories, which are the truth.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from attnres_cli.errors import UserError, nearest_name
from attnres_cli.runs.files import read_json, write_json
from attnres_cli.runs.process import own_process
from attnres_cli.runs.state import judged_status
from attnres_cli.sweep.axes import Coordinates
from attnres_cli.sweep.shapes import Counts, Shape

SCHEMA = "attnres.sweep/1"
FILE_NAME = "sweep.json"

RunStatus = Literal["planned", "running", "finished", "interrupted", "diverged", "failed"]
# A run in one of these states has a result that stays: training it again would give the same one.
SETTLED: tuple[RunStatus, ...] = ("finished", "diverged")


@dataclass(frozen=True)
class Arm:
    """One residual scheme with its settings. label: unique in the sweep; residual: the whole [residual] section."""

    label: str
    residual: Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One possible cell of the grid.

    counts: by arm label. mismatch: by quantity ("non_embedding_parameters", "training_flops_per_token"), the first
    arm's real count over that of the preset's own shape, minus one. learning_rate, muon_learning_rate: peaks at this
    cell's width.
    """

    key: str
    coordinates: Coordinates
    shape: Shape
    learning_rate: float
    muon_learning_rate: float | None
    counts: Mapping[str, Counts]
    mismatch: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "ratio": self.coordinates.ratio,
            "head_ratio": self.coordinates.head_ratio,
            "realised_ratio": self.shape.ratio,
            "realised_head_ratio": self.shape.head_ratio,
            "shape": asdict(self.shape),
            "learning_rate": self.learning_rate,
            "muon_learning_rate": self.muon_learning_rate,
            "counts": {label: asdict(counts) for label, counts in self.counts.items()},
            "mismatch": dict(self.mismatch),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(
            key=values["key"],
            coordinates=Coordinates(values["ratio"], values["head_ratio"]),
            shape=Shape(**values["shape"]),
            learning_rate=values["learning_rate"],
            muon_learning_rate=values["muon_learning_rate"],
            counts={label: Counts(**counts) for label, counts in values["counts"].items()},
            mismatch=values["mismatch"],
        )


@dataclass
class Run:
    """One training of the sweep: a cell with an arm, and what is known of it.

    digest: of the resolved preset, which is what makes a finished run reusable. folder: name of its run directory
    inside the sweep's, None before it starts. loss: nats per token on the fixed validation set after the last step.
    """

    cell: str
    arm: str
    digest: str
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

    @property
    def name(self) -> str:
        """What its folder is called, unless that name is taken."""
        return f"{self.cell}-{self.arm}"


@dataclass
class Sweep:
    """Everything in sweep.json.

    request: what was asked for, as plain values; a sweep of the same name continues only for the same request (see
    `differing`). preset: {"name", "digest", "values", "source_folder"} of the preset it started from. reference: its
    shape, its counts with the first arm, its learning rates. budget: where the tokens came from, with the calibration
    if there was one. tokens: per run, the same for all.
    """

    name: str
    kind: str
    created: str
    command: str
    request: dict[str, Any]
    preset: dict[str, Any]
    arms: list[Arm]
    vocab_size: int
    reference: dict[str, Any]
    budget: dict[str, Any]
    tokens: int
    tokens_per_step: int
    learning_rate_rule: str
    cells: list[Cell]
    impossible: list[dict[str, Any]]
    runs: list[Run]
    status: str = "planned"
    process: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in sweep.json."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["arms"] = [asdict(arm) for arm in self.arms]
        values["cells"] = [cell.to_dict() for cell in self.cells]
        values["runs"] = [asdict(run) for run in self.runs]
        return {"schema": SCHEMA, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The sweep that `to_dict` wrote. Raises KeyError or TypeError for anything else."""
        fields = {name: values[name] for name in cls.__dataclass_fields__}
        fields["arms"] = [Arm(**arm) for arm in fields["arms"]]
        fields["cells"] = [Cell.from_dict(cell) for cell in fields["cells"]]
        fields["runs"] = [Run(**run) for run in fields["runs"]]
        return cls(**fields)

    def cell(self, key: str) -> Cell:
        return next(cell for cell in self.cells if cell.key == key)

    def arm(self, label: str) -> Arm:
        return next(arm for arm in self.arms if arm.label == label)

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
        return self.path / FILE_NAME

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
                expected=SCHEMA,
            )
        if values.get("status") == "running":
            values["status"] = judged_status({"status": "running", **values.get("process", {})})
        return values

    def read(self) -> Sweep:
        """The sweep. Raises UserError when its file is damaged."""
        document = self.document()
        try:
            return Sweep.from_dict(document)
        except (KeyError, TypeError) as error:
            raise UserError(
                f"The file of sweep '{self.name}' is damaged: {error!r}.", where=str(self.file_path)
            ) from error

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
    return [SweepDirectory(path.parent) for path in sorted(root.glob(f"*/{FILE_NAME}"))]


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
        expected=", ".join(beginning or names) or f"a sweep, but there are none in {root}",
        nearest=None if beginning else nearest_name(ref, names),
        hint="attnres sweep ls" if names else "attnres sweep depth-width",
    )
