"""A study: what is compared, how often and how long, frozen in one file before the first run.

    ./studies/<name>.toml       the plan, complete: nothing in it follows a preset that may change later
    runs/<name>/                its runs, a group like any other, whose sweep.json keeps plan and hash

The hash is over the file's values, not over its comments or spaces. Why a plan comes first: who starts with three
seeds and looks again after each further one, up to ten, "shows" a difference that is not there in one study of six.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from attnres_cli.errors import ExitCode, UserError, nearest_name
from attnres_cli.preset.catalogue import shown
from attnres_cli.preset.toml import format_key, format_value
from attnres_cli.residual.arms import default_arms
from attnres_cli.runs.files import write_whole
from attnres_cli.runs.names import check_name
from attnres_cli.sweep.arms import Source, named_arm, refuse_twice
from attnres_cli.sweep.definition import Positive, definition_of
from attnres_cli.sweep.resolve import HORIZON
from attnres_cli.sweep.results import SweepDirectory
from attnres_cli.sweep.tuned_overlays import read_mark

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

SCHEMA: Final = "attnres.study/1"
FOLDER = Path("studies")


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Tuning(_Frozen):
    """How an arm came to its values. tune: its name, None where nobody tuned it. trials: with so many seeds each."""

    tune: str | None = None
    trials: int = 0
    seeds: int = 0


class StudyArm(_Frozen):
    """One arm. residual: its whole section. changes: keys of other sections that it says; left_out: that it leaves
    out."""

    label: str
    residual: dict[str, Any]
    changes: dict[str, Any] = Field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    tuning: Tuning = Tuning()


class StudyPreset(_Frozen):
    """The resolved preset that all arms share."""

    name: str
    values: dict[str, dict[str, Any]]


class Study(_Frozen):
    """Everything in the file. seeds: of every arm, paired. smallest_effect: of interest, nats. standard_deviation: of
    paired differences, as it was assumed when the plan was made (nats)."""

    schema_name: Literal["attnres.study/1"] = Field(SCHEMA, alias="schema")
    name: str
    created: str
    hypothesis: str
    seeds: Annotated[tuple[int, ...], Field(min_length=3)]
    horizon_tokens: Annotated[int, Field(gt=0)]
    smallest_effect: Positive
    standard_deviation: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    arms: Annotated[tuple[StudyArm, ...], Field(min_length=2)]
    preset: StudyPreset

    def to_dict(self) -> dict[str, Any]:
        """Plain values as in the file; what was left out is absent."""
        values: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return values

    @property
    def hash(self) -> str:
        """SHA-256, hexadecimal, of the canonical content."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def path(self) -> Path:
        return study_path(self.name)

    def to_toml(self) -> str:
        """The file."""
        values = self.to_dict()
        arms, preset = values.pop("arms"), values.pop("preset")
        lines = [
            f"# Study {self.name}: frozen before its first run. A value that is changed afterwards makes another plan.",
            "# attnres study show prints it, attnres study run trains it.",
            *_assignments(values),
        ]
        for arm in arms:
            residual, changes = arm.pop("residual"), arm.pop("changes")
            lines += ["", "[[arms]]", *_assignments(arm), "[arms.residual]", *_assignments(residual)]
            lines += ["[arms.changes]", *_assignments(changes)]
        sections = preset.pop("values")
        lines += ["", "[preset]", *_assignments(preset)]
        for section, keys in sections.items():
            lines += ["", f"[preset.values.{section}]", *_assignments(keys)]
        return "\n".join(lines) + "\n"


def _assignments(values: Mapping[str, Any]) -> list[str]:
    return [f"{format_key(key)} = {format_value(value)}" for key, value in values.items()]


# ---------------------------------------------------------------------- making one


def new_study(
    source: Source,
    arms: Sequence[str],
    *,
    seeds: int,
    horizon_tokens: int | None,
    smallest_effect: float,
    standard_deviation: float | None = None,
    hypothesis: str | None = None,
    name: str | None = None,
) -> Study:
    """The plan that these options make. arms: schemes or overlays, the reference first. Raises UserError."""
    preset = source.load()
    if horizon_tokens is not None:
        preset = preset.replace({HORIZON: horizon_tokens}, said_by="--horizon")
    refuse_twice(arms, "--arms", "arm")
    if len(arms) < 2:
        raise UserError("A study compares arms.", where="--arms", expected="two or more, the reference first",
                        hint=f"--arms {','.join(default_arms('demo'))}", exit_code=ExitCode.USAGE)  # fmt: skip
    chosen = [_arm(source, preset, each) for each in arms]
    plan: dict[str, Any] = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "hypothesis": hypothesis or _hypothesis(arms, smallest_effect),
        "seeds": tuple(range(preset.train.seed, preset.train.seed + seeds)),
        "horizon_tokens": preset.train.horizon_tokens,
        "smallest_effect": smallest_effect,
        "standard_deviation": standard_deviation,
        "arms": tuple(chosen),
        "preset": StudyPreset(name=preset.name, values=_plain(preset.to_dict())),
    }
    if name is None:
        text = json.dumps(
            [list(arms), plan["seeds"], smallest_effect, plan["preset"].model_dump(mode="json")], sort_keys=True
        )
        name = f"study-{preset.name}-{hashlib.sha256(text.encode()).hexdigest()[:4]}"
    check_name(name)
    return Study(name=name, **plan)


def _arm(source: Source, preset: Preset, said: str) -> StudyArm:
    """A scheme with its defaults, or an overlay, with what a tune wrote into it."""
    arm, entry = named_arm(source, preset, said)
    mark = None if entry is None else read_mark(entry.path)
    tuning = Tuning() if mark is None else Tuning(tune=mark.tune, trials=mark.trials, seeds=mark.seeds)
    if HORIZON in arm.changes and arm.changes[HORIZON] != preset.train.horizon_tokens:
        raise UserError(f"The overlay '{said}' says another horizon than the study.", where="--arms",
                        expected="arms that train equally long", exit_code=ExitCode.USAGE)  # fmt: skip
    return StudyArm(
        label=arm.label,
        residual=_plain(arm.residual),
        changes=_plain({key: value for key, value in arm.changes.items() if value is not None and key != HORIZON}),
        left_out=tuple(key for key, value in arm.changes.items() if value is None),
        tuning=tuning,
    )


def _hypothesis(arms: Sequence[str], smallest_effect: float) -> str:
    return (
        f"At the end of the schedule the mean validation loss of {', '.join(arms[1:])} differs from that of {arms[0]}; "
        f"a difference below {smallest_effect:g} nats is of no interest."
    )


def _plain(value: Any) -> Any:
    """In the types of TOML."""
    return json.loads(json.dumps(value))


# ---------------------------------------------------------------------- the file


def study_path(name: str) -> Path:
    return FOLDER / f"{name}.toml"


def study_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def refuse_existing(study: Study, group: SweepDirectory) -> None:
    """Raise UserError where there is already a plan of this name, or a folder of runs."""
    for path, what in ((study.path, "study"), (group.path, "folder of runs")):
        if path.exists():
            raise UserError(f"There is already a {what} '{study.name}'.", where=shown(path),
                            expected="another --name: a plan is frozen, and comes before its runs",
                            exit_code=ExitCode.USAGE)  # fmt: skip


def write_study(study: Study) -> Path:
    """Freeze the plan. Raises UserError where its file cannot be written."""
    try:
        FOLDER.mkdir(exist_ok=True)
        write_whole(study.path, study.to_toml())
    except OSError as error:
        raise UserError(f"The plan cannot be written: {error.strerror or error}.", where=shown(study.path)) from error
    return study.path


def read_study(ref: str) -> Study:
    """The study of this name (or unique beginning of one), or at this path. Raises UserError with every fault of its
    file."""
    known = study_names()
    beginning = [name for name in known if ref and name.startswith(ref)]
    path = (
        Path(ref) if ref.endswith(".toml") else study_path(ref if ref in known else beginning[0] if beginning else ref)
    )
    if not path.is_file() or (ref not in known and len(beginning) > 1):
        raise UserError(
            f"There is no study '{ref}'." if len(beginning) < 2 else f"'{ref}' is the beginning of several studies.",
            where=shown(FOLDER),
            expected=", ".join(beginning or known) or "a plan, but there is none in ./studies",
            nearest=nearest_name(ref, known),
            hint="attnres study new PRESET --arms A,B",
        )
    study = definition_of(path, Study)
    if study.name != path.stem:
        raise UserError(f"The file is called {path.name}, the study '{study.name}'.", where=shown(path),
                        expected="one name: runs find their plan by it")  # fmt: skip
    return study
