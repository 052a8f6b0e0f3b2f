"""What the user asked for, what was left out filled in from the sweep's definition; and asking again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.residual.arms import default_arms
from attnres_cli.runs.directory import check_name
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.definition import Definition, read_definition
from attnres_cli.sweep.results import Arm, Sweep, SweepDirectory

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

KIND = "depth-width"
MatchKind = Literal["parameters", "flops"]


@dataclass(frozen=True)
class Request:
    """A whole request. arms: the first one is the reference, whose counts are matched and which Δ is taken against.

    learning_rate_power: peak learning rate = the preset's × (d_model / the preset's d_model) ^ this.
    """

    preset: Preset
    arms: tuple[Arm, ...]
    match: MatchKind
    ratios: tuple[float, ...]
    head_ratios: tuple[float, ...]
    learning_rate_power: float
    budget: Budget

    def to_dict(self) -> dict[str, Any]:
        """Plain values that decide every run, for sweep.json and for telling whether two requests are the same."""
        return {
            "preset": self.preset.name,
            "preset_digest": self.preset.digest(),
            "arms": [asdict(arm) for arm in self.arms],
            "match": self.match,
            "ratios": list(self.ratios),
            "head_ratios": list(self.head_ratios),
            "learning_rate_power": self.learning_rate_power,
            "budget": asdict(self.budget),
        }

    @property
    def default_name(self) -> str:
        """A name that is the same for the same request, so that asking again continues instead of starting over."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return f"{KIND}-{self.preset.name}-{hashlib.sha256(text.encode()).hexdigest()[:4]}"


def make_request(
    ref: str | None,
    *,
    overlays: Sequence[str] = (),
    sets: Sequence[str] = (),
    residuals: Sequence[str] = (),
    match: MatchKind = "parameters",
    ratios: tuple[float, ...] | None = None,
    head_ratios: tuple[float, ...] = (),
    budget: Budget | None = None,
    learning_rate_power: float | None = None,
) -> Request:
    """The request that these options make. None and empty: what presets/sweeps/depth-width.toml says.

    Without a budget, a named preset trains for its own horizon; without a preset, the definition's minutes hold.
    Raises UserError for anything the preset room refuses, and for contradictory schemes.
    """
    from attnres_cli.preset.reading import load_preset

    definition = read_definition(KIND)
    preset = load_preset(ref or definition.preset, overlays=overlays, sets=sets)
    if budget is None:
        budget = Budget("preset") if ref is not None else Budget("minutes", definition.budget_minutes)
    return Request(
        preset=preset,
        arms=_arms(preset, ref or definition.preset, overlays, sets, residuals, definition),
        match=match,
        ratios=ratios or tuple(sorted(definition.ratios)),
        head_ratios=head_ratios,
        learning_rate_power=definition.learning_rate_power if learning_rate_power is None else learning_rate_power,
        budget=budget,
    )


def _arms(
    preset: Preset,
    ref: str,
    overlays: Sequence[str],
    sets: Sequence[str],
    residuals: Sequence[str],
    definition: Definition,
) -> tuple[Arm, ...]:
    """The schemes asked for; else the usual ones, where a preset's own other scheme takes the place of the rest."""
    from attnres_cli.preset.reading import load_preset

    own = preset.to_dict()["residual"]
    names = list(residuals)
    if not names:
        usual = definition.arms or default_arms("sweep")
        names = list(usual) if own["scheme"] in usual else [usual[0], own["scheme"]]
    elif lost := [each for each in sets if each.strip().startswith("residual.")]:
        raise UserError(
            f"--set {lost[0]} has no effect: --residual takes the schemes with their defaults.",
            where="--set",
            hint="a preset with that [residual] section, and no --residual",
            exit_code=ExitCode.USAGE,
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"The scheme '{twice}' is given twice.", where="--residual", exit_code=ExitCode.USAGE)
    arms = []
    for name in names:
        if not residuals and name == own["scheme"]:
            section: Mapping[str, Any] = own
        else:
            kept = [each for each in sets if not each.strip().startswith("residual.")]
            section = load_preset(ref, overlays=overlays, residual=name, sets=kept).to_dict()["residual"]
        arms.append(Arm(name, section))
    return tuple(arms)


# ---------------------------------------------------------------------- asking again


@dataclass(frozen=True)
class Continued:
    """A request as it will be planned. earlier: the sweep of that name that is there already, or None."""

    request: Request
    directory: SweepDirectory
    earlier: Sweep | None


def continued(root: Path, name: str, request: Request) -> Continued:
    """Find the sweep of this name, if there is one, and add its cells to the request.

    A sweep's grid may grow; anything else that differs is refused, because the cells would not be comparable.
    Raises UserError that names what differs.
    """
    check_name(name)
    directory = SweepDirectory(root / name)
    if not directory.exists:
        return Continued(request, directory, None)
    earlier = directory.read()
    differences = _differing(earlier, request)
    if differences:
        raise UserError(
            f"Sweep '{name}' exists and was asked for differently: {'; '.join(differences)}.",
            where=str(directory.path),
            expected="the same settings (--ratios and --head-ratios may grow), or another --name",
            hint=f"attnres sweep resume {name}",
        )
    grown = replace(
        request,
        ratios=tuple(sorted({*request.ratios, *earlier.request["ratios"]})),
        head_ratios=tuple(sorted({*request.head_ratios, *earlier.request["head_ratios"]})),
    )
    return Continued(grown, directory, earlier)


def carried_over(sweep: Sweep, earlier: Sweep) -> Sweep:
    """`sweep`, planned anew, with what `earlier` knows: its beginning, its budget, and the runs that are the same."""
    known = {run.digest: run for run in earlier.runs}
    sweep.created, sweep.command, sweep.budget = earlier.created, earlier.command, earlier.budget
    sweep.runs = [known.get(run.digest, run) for run in sweep.runs]
    return sweep


def _differing(earlier: Sweep, request: Request) -> list[str]:
    """What two requests differ in, as phrases; the grid may grow along the axes it has."""
    then, now = earlier.request, request.to_dict()
    found = [] if then.get("preset_digest") == now["preset_digest"] else _differing_keys(earlier, request.preset)
    for key in sorted((then.keys() | now.keys()) - {"preset_digest"}):
        growing = key == "ratios" or (key == "head_ratios" and bool(then.get(key)) == bool(now.get(key)))
        if not growing and then.get(key) != now.get(key):
            found.append(f"{key} was {json.dumps(then.get(key))} and is now {json.dumps(now.get(key))}")
    return found


def _differing_keys(earlier: Sweep, preset: Preset) -> list[str]:
    """The keys of the preset that differ from those of an earlier sweep."""
    then, now = (_by_key(values) for values in (earlier.preset["values"], preset.to_dict()))
    differing = [key for key in {**then, **now} if then.get(key) != now.get(key)]
    return [f"{key} was {_written(then.get(key))} and is now {_written(now.get(key))}" for key in differing]


def _by_key(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """By "section.key"; arrays as JSON has them."""
    flat = {f"{section}.{key}": value for section, keys in values.items() for key, value in keys.items()}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in flat.items()}


def _written(value: Any) -> str:
    from attnres_cli.preset.toml import format_value

    return "left out" if value is None else format_value(value)
