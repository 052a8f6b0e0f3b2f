"""What the user asked for, of any kind of sweep; and asking again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.runs.names import check_name
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.results import Arm, Sweep, SweepDirectory

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

# More would be a mistyped number rather than a study.
MOST_SEEDS = 1000


@dataclass(frozen=True)
class Request:
    """A whole request. kind: a file of sweep/kinds/. arms: the first one is the reference, which Δ is taken against.
    seeds: how many; seed i of them is the preset's train.seed + i. settings: what the kind asks beyond that, as plain
    values."""

    kind: str
    preset: Preset
    arms: tuple[Arm, ...]
    seeds: int = 1
    budget: Budget = Budget("preset")
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seed_values(self) -> tuple[int, ...]:
        first = self.preset.train.seed
        return tuple(range(first, first + self.seeds))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that decide every run, for sweep.json and for telling whether two requests are the same."""
        return {
            "kind": self.kind,
            "preset": self.preset.name,
            "preset_digest": self.preset.digest(),
            "arms": [
                {"label": arm.label, "residual": dict(arm.residual), "changes": dict(arm.changes)} for arm in self.arms
            ],
            "seeds": self.seeds,
            "budget": {"kind": self.budget.kind, "value": self.budget.value},
            **self.settings,
        }

    @property
    def default_name(self) -> str:
        """A name that is the same for the same request, so that asking again continues instead of starting over."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return f"{self.kind}-{self.preset.name}-{hashlib.sha256(text.encode()).hexdigest()[:4]}"


def checked_seeds(seeds: int) -> int:
    """`seeds` itself. Raises UserError for a number that nobody can mean."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise UserError(
            f"--seeds {seeds}: how many runs of every arm?",
            where="--seeds",
            expected=f"1 to {MOST_SEEDS}; five show differences of the size of the noise between seeds",
            exit_code=ExitCode.USAGE,
        )
    return seeds


# ---------------------------------------------------------------------- asking again


@dataclass(frozen=True)
class Continued:
    """A request as it will be planned. earlier: the sweep of that name that is there already, or None. staying: what of
    that one was not asked for this time and belongs to it all the same, in words."""

    request: Request
    directory: SweepDirectory
    earlier: Sweep | None
    staying: str | None = None

    @property
    def note(self) -> str | None:
        """What the user should know of going on with a sweep that is there."""
        return self.staying and f"sweep '{self.directory.name}' keeps what it was asked for before: {self.staying}"


def continued(root: Path, name: str, request: Request, growing: Sequence[str] = ()) -> Continued:
    """Find the sweep of this name, if there is one, and add what it asked for to the request.

    growing: settings that are lists and may grow. The number of seeds may grow, too; anything else that differs is
    refused, because the cells would not be comparable. Raises UserError that names what differs.
    """
    check_name(name)
    directory = SweepDirectory(root / name)
    if not directory.exists:
        return Continued(request, directory, None)
    earlier = directory.read()
    growing = [key for key in growing if key in request.settings]
    differences = _differing(earlier, request, growing)
    if differences:
        may_grow = " and ".join([*(f"--{each.replace('_', '-')}" for each in growing), "--seeds"])
        raise UserError(
            f"Sweep '{name}' exists and was asked for differently: {'; '.join(differences)}.",
            where=str(directory.path),
            expected=f"the same settings ({may_grow} may grow), or another --name",
            hint=f"attnres sweep resume {name}",
        )
    grown = {key: sorted({*request.settings[key], *earlier.request[key]}) for key in growing}
    whole = replace(request, settings={**request.settings, **grown}, seeds=max(request.seeds, earlier.request["seeds"]))
    return Continued(whole, directory, earlier, _staying(earlier, request, growing))


def _staying(earlier: Sweep, request: Request, growing: Sequence[str]) -> str | None:
    """What belongs to the sweep though it is not asked for this time, in words; None where nothing does."""
    lists = {key: [each for each in earlier.request[key] if each not in request.settings[key]] for key in growing}
    said = [
        f"{key.replace('_', ' ')} {', '.join(f'{each:g}' if isinstance(each, float) else str(each) for each in values)}"
        for key, values in lists.items()
        if values
    ]
    if earlier.request["seeds"] > request.seeds:
        said.append(f"{earlier.request['seeds']} seeds")
    return "; ".join(said) or None


def carried_over(sweep: Sweep, earlier: Sweep) -> Sweep:
    """`sweep`, planned anew, with what `earlier` knows: its beginning, what became of the runs it shares, what was
    measured."""
    known = {run.digest: run for run in earlier.runs}
    sweep.created, sweep.command, sweep.planned_seeds = earlier.created, earlier.command, earlier.planned_seeds
    sweep.runs = [known.get(run.digest, run) for run in sweep.runs]
    sweep.measured = earlier.measured
    return sweep


def _differing(earlier: Sweep, request: Request, growing: Sequence[str]) -> list[str]:
    """What two requests differ in, as phrases."""
    then, now = earlier.request, request.to_dict()
    if then["kind"] != now["kind"]:
        return [f"kind was {json.dumps(then['kind'])} and is now {json.dumps(now['kind'])}"]
    found = [] if then.get("preset_digest") == now["preset_digest"] else _differing_keys(earlier, request.preset)
    # A list may grow along an axis that is there, not by an axis that is not.
    grows = {key for key in growing if bool(then.get(key)) == bool(now.get(key))} | {"seeds", "preset_digest"}
    for key in sorted((then.keys() | now.keys()) - grows):
        if _plain(then.get(key)) != _plain(now.get(key)):
            found.append(f"{key} was {json.dumps(then.get(key))} and is now {json.dumps(now.get(key))}")
    return found


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(value))


def _differing_keys(earlier: Sweep, preset: Preset) -> list[str]:
    """The keys of the preset that differ from those of an earlier sweep."""
    then, now = (by_key(values) for values in (earlier.preset["values"], preset.to_dict()))
    differing = [key for key in {**then, **now} if then.get(key) != now.get(key)]
    return [f"{key} was {_written(then.get(key))} and is now {_written(now.get(key))}" for key in differing]


def by_key(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A preset's values by "section.key"; arrays as JSON has them."""
    flat = {f"{section}.{key}": value for section, keys in values.items() for key, value in keys.items()}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in flat.items()}


def _written(value: Any) -> str:
    from attnres_cli.preset.toml import format_value

    return "left out" if value is None else format_value(value)
