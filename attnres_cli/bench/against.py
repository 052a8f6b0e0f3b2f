"""A bench beside one that was written earlier: the change of every arm, and conditions over the figures of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnres_cli.analysis.conditions import WHERE, Condition, Name
from attnres_cli.errors import ExitCode, UserError, nearest_name
from attnres_cli.runs.files import read_json

# baseline.attnres-block.step_ratio is a figure of the other file; baseline.step_seconds is one of the first arm here.
BASELINE = "baseline"
Payload = Mapping[str, Any]
Figures = Mapping[str, Mapping[str, float | None]]


def read_bench(path: Path, kind: str) -> Payload:
    """What `attnres bench --json` wrote. kind: "bench", "bench-depth" or "bench-operator".

    Raises UserError for a file that cannot be read or holds something else.
    """
    try:
        found = read_json(path)
        figures(found)
    except FileNotFoundError:
        raise UserError(f"There is no file '{path}'.", where="--against") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"'{path}' is no result of a bench: {error}.", where="--against", hint="attnres bench --json > FILE"
        ) from None
    wanted, schema = f"attnres.{kind}/1", found.get("schema")
    if schema != wanted:
        raise UserError(
            f"'{path}' holds {schema}, which this bench cannot be compared with.", where="--against", expected=wanted
        )
    return found


def figures(payload: Payload) -> Figures:
    """Figure by name of every arm."""
    return {arm["name"]: arm["metrics"] for arm in payload["arms"]}


def changes(payload: Payload, other: Payload) -> list[dict[str, Any]]:
    """One row for every arm but baselines: the ratio with its interval now and then, None where the other file lacks
    it. apart: whether the two intervals share no point, so that a change is shown."""
    before = {arm["name"]: arm["ratio"] for arm in other["arms"]}
    rows = []
    for arm in payload["arms"]:
        if arm["is_baseline"]:
            continue
        now, then = arm["ratio"], before.get(arm["name"])
        row = {"arm": arm["name"], "now": now, "then": then, "change": None, "apart": None}
        if then is not None:
            row["change"] = now["median"] - then["median"]
            row["apart"] = now["low"] > then["high"] or then["low"] > now["high"]
        rows.append(row)
    return rows


def differences(payload: Payload, other: Payload) -> list[str]:
    """What was not the same when the other file was written, one clause each."""
    found = []
    for key, label in _SAME.items():
        now, then = _value(payload, key), _value(other, key)
        if now != then:
            found.append(f"{label}: {now} now, {then} then")
    return found


_SAME = {
    "mode": "mode", "preset": "preset", "model": "model", "load": "work", "precision": "precision",
    "compile": "compiled", "setting.device": "device", "setting.processor": "processor",
    "setting.threads": "threads", "setting.torch": "torch",
}  # fmt: skip


def _value(payload: Payload, dotted: str) -> Any:
    value: Any = payload
    for key in dotted.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def check_names(
    conditions: Sequence[Condition], arms: Sequence[str], metrics: Sequence[str], other: Payload | None
) -> None:
    """Raise UserError for a name that this bench cannot have, before it is measured. metrics: names of its figures."""
    here: Figures = {arm: dict.fromkeys(metrics, 1.0) for arm in arms}
    for condition in conditions:
        for name in condition.names:
            _found(name, here, other)


def lookup(payload: Payload, other: Payload | None) -> Callable[[Name], float]:
    """The value of a name in a condition: arm.metric of this bench (baseline: its first arm), baseline.arm.metric of
    the other file.

    Raises UserError for a name that nothing has and for a figure that was not measured.
    """

    def value_of(name: Name) -> float:
        value = _found(name, figures(payload), other)
        if value is None:
            raise _fault(f"{'.'.join(name)} was not measured.", hint="see the figures with --json")
        return float(value)

    return value_of


def _found(name: Name, here: Figures, other: Payload | None) -> float | None:
    if name[0] == BASELINE and len(name) > 2:
        if other is None:
            raise _fault(f"{'.'.join(name)} needs the result that it means.", hint="add --against FILE")
        arm, metric, there = ".".join(name[1:-1]), name[-1], figures(other)
    else:
        arm, metric, there = ".".join(name[:-1]), name[-1], here
        arm = next(iter(here)) if arm == BASELINE else arm
    if arm not in there:
        where = "the other file" if there is not here else "this bench"
        raise _fault(
            f"There is no arm '{arm}' in {where}.",
            expected=", ".join(there),
            nearest=nearest_name(arm, there),
            hint="a minus sign between two names needs a space before it" if "-" in arm and "." in arm else None,
        )
    if metric not in there[arm]:
        raise _fault(
            f"An arm has no figure '{metric}'.",
            expected=", ".join(there[arm]),
            nearest=nearest_name(metric, there[arm]),
        )
    return there[arm][metric]


def _fault(what: str, **details: str | None) -> UserError:
    return UserError(what, where=WHERE, exit_code=ExitCode.USAGE, **details)
