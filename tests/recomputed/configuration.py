"""Oracle of the table of what differs between runs, from docs/compare.md, "What makes a pair fair".

It reads the presets whole. Which rule a key has decides the order alone; only the keys in which the material differs
stand here.
"""

from __future__ import annotations

from typing import Any

from tests.recomputed.arms import Compared
from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.raw import Run

# By what the table calls them, in the order of the table; keys of one rule in the order in which they are compared.
RULES = {
    "compared": ("residual.scheme", "residual.num_blocks"),
    "UNFAIR": ("train.horizon_tokens", "tokens", "train.beta2", "train.seed"),
    "if tuned": ("residual.query_lr_factor", "train.learning_rate", "train.weight_decay"),
    "timing only": ("train.threads", "environment.threads"),
    "record only": ("eval.every_steps", "observe.every_steps"),
}
# What docs/residuals.md gives as defaults: a key that only some schemes have is left out where all leave it so.
DEFAULTS = {"residual.query_lr_factor": 1.0}
# In the manifest, beside the presets.
FROM_MANIFEST = ("tokens", "environment.threads")


def configuration(compared: Compared) -> Rows:
    facts = {run.path: facts_of(run) for run in compared.runs}
    keys = {key for values in facts.values() for key in values}
    listed = {key for of_rule in RULES.values() for key in of_rule}
    differing = {key for key in keys if len({repr(values.get(key)) for values in facts.values()}) > 1}
    assert differing <= listed, f"the oracle does not know the rule of {sorted(differing - listed)}"
    paired = any(len(arm.runs) > 1 for arm in compared.arms)
    rows = []
    for rule, of_rule in RULES.items():
        for key in of_rule:
            values = {arm.label: [facts[run.path].get(key) for run in arm.runs] for arm in compared.arms}
            if key not in differing or _left_out(
                key, [value for of_arm in values.values() for value in of_arm], paired
            ):
                continue
            rows.append({"key": key, "meaning": rule, **{label: _one(of_arm) for label, of_arm in values.items()}})
    return rows


def facts_of(run: Run) -> dict[str, Any]:
    facts = {f"{section}.{key}": value for section, keys in run.resolved.items() for key, value in keys.items()}
    for key in FROM_MANIFEST:
        found: Any = run.manifest
        for part in key.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        facts[key] = found
    return facts


def _left_out(key: str, values: list[Any], paired: bool) -> bool:
    """The seed where runs are paired by it, and what only some schemes have where it is at its default."""
    of_one_scheme = (
        key in DEFAULTS and None in values and {value for value in values if value is not None} == {DEFAULTS[key]}
    )
    return of_one_scheme or (paired and key == "train.seed")


def _one(values: list[Any]) -> Any:
    """The value of an arm, or all of them one after the other."""
    different = list(dict.fromkeys(values))
    return different[0] if len(different) == 1 else ", ".join(map(str, different))


ORACLES: dict[str, Oracle] = {"configuration": configuration}
BUILT_IN = {"configuration": "report/tables/config_difference.py"}
