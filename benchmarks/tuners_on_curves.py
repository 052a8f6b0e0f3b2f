"""How close the engines of `attnres tune` come to a known optimum: loss curves with noise, nothing is trained.

    python benchmarks/tuners_on_curves.py

A curve is a bowl in the logarithm of every axis, 0.02 nats deep at a factor √2 from its optimum (0.006 for weight
decay and query factor), twice as steep towards higher learning rates. Its optimum is drawn within a factor 2.4 of the
preset's values; every trial gets normal noise. Printed: the mean of the noiseless loss at what was found, above the
minimum, and the share of curves where it counts as tuned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from attnres_cli.analysis.tuning import Search, Trial, next_trials, outcome

CURVES = 60
Curve = Callable[[Trial], float]


def main() -> None:
    one, three = Search(), Search(decay=True, query=True)
    for title, search, noise in (("learning rate", one, 0.01), ("all three", three, 0.005)):
        same = search.trials_per_arm
        for name, trials in (("grid", None), ("optuna", same), ("optuna", 2 * same)):
            asked = replace(search, engine=name, trials=trials)
            found = [searched(replace(asked, sampler_seed=number), number, noise) for number in range(CURVES)]
            away = np.mean([loss for loss, _ in found])
            tuned = np.mean([is_tuned for _, is_tuned in found])
            print(f"{title:14} {name:7} {asked.trials_per_arm:3} trials: {away:.4f} nats above, {tuned:.0%} tuned")


def searched(search: Search, number: int, noise: float) -> tuple[float, bool]:
    """Nats above the minimum at what the search found on curve `number`, and whether that counts as tuned."""
    curve, generator = curve_of(search, number), np.random.default_rng([number, 1])
    losses: dict[Trial, float] = {}
    while new := [trial for trial in next_trials(search, losses, has_query=True) if trial not in losses]:
        losses |= {trial: curve(trial) + noise * generator.normal() for trial in new}
    found = outcome(search, losses, has_query=True)
    assert found.best is not None, "nothing diverges here"
    return curve(found.best), found.is_tuned


def curve_of(search: Search, number: int) -> Curve:
    rate, decay, query = np.random.default_rng(number).uniform(-5, 5, 3)

    def loss(trial: Trial) -> float:
        steep = 2.0 if trial.rate > rate else 1.0
        away = steep * 0.02 * ((trial.rate - rate) / 2) ** 2
        away += 0.006 * ((trial.decay - decay) / 2) ** 2 * search.decay
        return float(away + 0.006 * ((trial.query - query) / 2) ** 2 * search.query)

    return loss


if __name__ == "__main__":
    main()
