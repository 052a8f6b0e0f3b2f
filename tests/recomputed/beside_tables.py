"""Holds what `attnres compare --json` gives beside its tables against the oracles (figures.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tests.recomputed import figures
from tests.recomputed.arms import Compared
from tests.recomputed.harness import Rows, as_table, faults_of, flat, holds_a_number, same
from tests.recomputed.remarks import REMARKS

# Sentences, which repeat the numbers in words.
WORDS = ("sentence", "reasons", "caveats", "exploratory_because")

# What a bench says of the machine it ran on.
WARNINGS = ("wall times spread", "other processes kept")


def check_figures(document: Mapping[str, Any], compared: Compared) -> None:
    """Every number of the arms, of the verdicts and of the curves."""
    arms = [{"label": arm["label"], **arm["metrics"]} for arm in document["arms"]]
    _check("arms", arms, figures.arms(compared))
    assert document["equal_tokens"] == compared.equal_tokens
    _check_curves(document["curves"]["runs"], figures.curves(compared))
    verdicts = [{key: value for key, value in each.items() if key not in WORDS} for each in document["verdicts"]]
    if document["paired_by_seed"]:
        said = [{**each, "at_equal": None, **{at["budget"]: at for at in each["at_equal"]}} for each in verdicts]
        _check("verdicts", said, figures.paired_verdicts(compared))
    else:
        said = [{**each, "holds_at_equal": None, **(each["holds_at_equal"] or {})} for each in verdicts]
        _check("verdicts", said, figures.single_verdicts(compared))


def _check(what: str, said: Rows, expected: Rows) -> None:
    faults = faults_of(what, as_table([flat(row) for row in said]), expected, {})
    assert not faults, "\n".join(faults)


def _check_curves(said: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert said.keys() == expected.keys()
    for label, curve in expected.items():
        assert said[label]["tokens"] == curve["tokens"]
        assert all(map(same, said[label]["loss_nats"], curve["loss_nats"]))
        assert len(curve["tokens"]) == len(said[label]["loss_nats"]) > 0


def check_remarks(document: Mapping[str, Any], compared: Compared, tables: Collection[str]) -> None:
    """Every sentence with a number below these tables; a bench of the machine may add warnings of its own."""
    for key in tables:
        said = [note for note in document["tables"][key]["notes"] if holds_a_number(note)]
        expected = [note for note in REMARKS[key](compared) if holds_a_number(note)]
        assert [note for note in said if not note.startswith(WARNINGS)] == expected
