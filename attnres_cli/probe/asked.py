"""What is asked of the probes, and what of it a run's cache can answer: read from files alone, without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnres_cli import __version__, discovery
from attnres_cli.errors import UserError, nearest_name
from attnres_cli.runs import probed
from attnres_cli.runs.checkpoints import find_checkpoint
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.files import Row, read_json

PACKAGE = "probe.probes"
# In this order they are run and shown: from what is there to what it does.
ORDER = ("magnitudes", "gradients", "depth-weights", "mixing", "importance", "removal", "smoothing", "lens")


@dataclass(frozen=True)
class Asked:
    """One checkpoint of one run, and how it is to be looked at. sequences: the first ones of its validation set;
    missing: the probes to run; found: the JSON objects of those that are there already, by name."""

    run: RunDirectory
    step: int
    sequences: int
    weights: str
    names: tuple[str, ...]
    missing: tuple[str, ...] = ()
    found: tuple[Row, ...] = ()

    @property
    def checkpoint(self) -> Path:
        return self.run.checkpoint_folder(self.step)


def probe_names() -> tuple[str, ...]:
    """All probes, in the order in which they are shown."""
    names = discovery.names(PACKAGE)
    return tuple(sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)))


def chosen_probes(only: Sequence[str]) -> tuple[str, ...]:
    """The probes of these names, or all. Raises UserError naming the nearest where there is none of a name."""
    names = probe_names()
    for name in only:
        if name not in names:
            raise UserError(
                f"There is no probe '{name}'.",
                where="--only",
                expected=", ".join(names),
                nearest=nearest_name(name, names),
            )
    return tuple(name for name in names if not only or name in only)


def ask(run: RunDirectory, names: Sequence[str], *, step: int | None = None, tokens: int, again: bool = False) -> Asked:
    """Find the checkpoint (the last, or the one of `step`) and what its cache holds. tokens: most tokens to look at;
    again: whatever the cache holds. Raises UserError when there is no such checkpoint, or when `tokens` are too few."""
    step, folder = find_checkpoint(run, step)
    context, evaluated = _tokens(run, "model", "context_tokens"), _tokens(run, "eval", "tokens")
    sequences = min(tokens, evaluated) // context
    if sequences < 2:
        raise UserError(
            f"{min(tokens, evaluated):,} tokens are fewer than two sequences: nothing could be said about how results "
            "vary.",
            where="--tokens" if tokens < evaluated else f"eval.tokens of run '{run.name}'",
            expected=f"at least {2 * context:,} (two times model.context_tokens)",
        )
    asked = Asked(run, step, sequences, _digest_of_weights(folder), tuple(names))
    known = {} if again else {name: found for name in names if (found := _valid(asked, name)) is not None}
    missing = tuple(name for name in names if name not in known)
    return replace(asked, missing=missing, found=tuple(known.values()))


def _tokens(run: RunDirectory, section: str, key: str) -> int:
    """A number of tokens in the run's resolved preset. Raises UserError where it holds none."""
    keys = run.resolved().get(section)
    found = keys.get(key) if isinstance(keys, dict) else None
    if not isinstance(found, int) or found < 1:
        raise UserError(
            f"The resolved preset of run '{run.name}' has no {section}.{key}.", where=str(run.resolved_toml)
        )
    return found


def key_of(asked: Asked, name: str) -> str:
    """SHA-256 of all that the findings of probe `name` depend on."""
    manifest, resolved = asked.run.manifest(), asked.run.resolved()
    facts: dict[str, Any] = {
        "weights": asked.weights,
        "preset": {section: resolved.get(section) for section in ("model", "residual", "data")},
        "validation": manifest.get("data", {}).get("validation_set_hash"),
        "sequences": asked.sequences,
        "precision": resolved.get("train", {}).get("precision"),
        "version": [__version__, _digest_of_code(name)],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def _valid(asked: Asked, name: str) -> Row | None:
    found = probed.read(asked.run, name, asked.step)
    if found is None or found.get("key") != key_of(asked, name):
        return None
    whole = not found["arrays"] or probed.read_arrays(asked.run, name, asked.step)
    return found if whole else None


def _digest_of_code(name: str) -> str:
    """Of the probe's own file and of what probes share."""
    room = Path(__file__).parent
    files = [room / "probes" / f"{name.replace('-', '_')}.py", *sorted(room.glob("*.py"))]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _digest_of_weights(folder: Path) -> str:
    try:
        return str(read_json(folder / "state.json")["digests"]["model.safetensors"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError("This is no complete checkpoint: its state.json cannot be read.", where=str(folder)) from error
