"""The observer `answers` against counting one answer after the other."""

from __future__ import annotations

import math

import pytest
import torch

from attnres_cli.train.observation import Probe
from attnres_cli.train.observers import answers
from tests.small import small_model, tokens_and_targets


def test_right_answers_and_losses_by_kind() -> None:
    model = small_model(stir=0.3)
    tokens, targets = tokens_and_targets()
    logits = model(tokens).double()
    kinds = torch.zeros_like(targets)
    for number, place in enumerate([(0, 3), (0, 9), (1, 2), (1, 5), (1, 7)]):
        kinds[place] = 4 if number % 2 else 2
        if number in (0, 1, 4):  # so that some answers are right
            targets[place] = logits[place].argmax()
        else:
            targets[place] = logits[place].argmin()
    found = answers.observe(model, Probe(tokens, targets, "fp32", kinds))
    assert found is not None
    expected: dict[int, list[tuple[bool, float]]] = {2: [], 4: []}
    for row, column in (kinds > 0).nonzero().tolist():
        scores, right = logits[row, column].tolist(), int(targets[row, column])
        loss = math.log(sum(math.exp(score) for score in scores)) - scores[right]
        expected[int(kinds[row, column])].append((scores.index(max(scores)) == right, loss))
    assert found.summary["kinds"] == [2, 4]
    assert found.summary["answers"] == [3, 2]
    assert found.summary["accuracy"] == pytest.approx([2 / 3, 1 / 2])
    for mean, each in zip(found.summary["loss"], expected.values(), strict=True):
        assert mean == pytest.approx(sum(loss for _, loss in each) / len(each), rel=1e-6)
    assert found.summary["accuracy"] == pytest.approx([sum(hit for hit, _ in e) / len(e) for e in expected.values()])


def test_a_corpus_that_does_not_tell_questions_apart_has_none() -> None:
    assert answers.observe(small_model(), Probe(*tokens_and_targets(), "fp32")) is None
