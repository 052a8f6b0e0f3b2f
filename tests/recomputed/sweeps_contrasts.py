"""What the seeds of a sweep say, by docs/sweep.md: means with Student's interval, differences paired by seed, p after
Holm."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tests.recomputed.statistics import holm, mean, paired, t_interval
from tests.recomputed.sweeps_files import Files

FEWEST_PAIRS = 3
Key = TypeVar("Key", bound=Hashable)


def half_width(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of a mean; a single value has none."""
    if len(values) < 2:
        return None
    low, high = t_interval(values)
    return (high - low) / 2


@dataclass(frozen=True)
class Contrast:
    """A paired difference. half and p: None with one pair. p is corrected once `corrected` was called, and None while a
    planned run of either side is to come."""

    mean: float
    half: float | None
    p: float | None
    pairs: int

    @property
    def low(self) -> float | None:
        return None if self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        return None if self.half is None else self.mean + self.half

    @property
    def p_if_tested(self) -> float | None:
        """Fewer than three pairs never give a verdict, and no p that is shown."""
        return self.p if self.pairs >= FEWEST_PAIRS else None

    def values(self) -> dict[str, Any]:
        """As --json has it."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "p_holm": self.p, "pairs": self.pairs}


def contrast(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Contrast | None:
    """Over the seeds that both have; None where there is none."""
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    one, other = [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]
    if len(seeds) == 1:
        return Contrast(one[0] - other[0], None, None, 1)
    found = paired(one, other)
    return Contrast(found.mean, (found.high - found.low) / 2, found.p, len(seeds))


def corrected(contrasts: Mapping[Key, Contrast | None], unfinished: Collection[Key] = ()) -> dict[Key, Contrast]:
    """With Holm's correction over all of one table that have three pairs or more. Those that wait for runs are not
    tested yet, and count as p = 1."""
    known = {key: found for key, found in contrasts.items() if found is not None}
    tested = {
        f"tested {number}": key
        for number, key in enumerate(known)
        if known[key].pairs >= FEWEST_PAIRS and key not in unfinished
    }
    p_values = {name: known[key].p or 0.0 for name, key in tested.items()}
    adjusted = holm({**p_values, **{f"waits {number}": 1.0 for number, _ in enumerate(unfinished)}})
    found = {**known, **{key: replace(known[key], p=adjusted[name]) for name, key in tested.items()}}
    return {key: replace(each, p=None) if key in unfinished else each for key, each in found.items()}


def against_reference(files: Files) -> dict[tuple[str, str], Contrast]:
    """(cell, arm) → its difference to the first arm in that cell, corrected over all cells and arms."""
    keys = [(cell["key"], label) for cell in files.cells for label in files.labels[1:]]
    found = {key: contrast(files.losses(*key), files.losses(key[0], files.reference)) for key in keys}
    return corrected(found, [key for key in keys if files.at(*key) and files.waits(key[0], key[1], files.reference)])


def differences(files: Files) -> list[dict[str, Any]]:
    """The same for --json."""
    found = against_reference(files)
    return [{"cell": cell, "arm": label, **each.values()} for (cell, label), each in found.items()]


def mean_loss(files: Files, cell: str, label: str) -> float | None:
    losses = files.losses(cell, label)
    return mean(list(losses.values())) if losses else None
