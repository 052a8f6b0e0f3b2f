"""Evaluation: the fixed tokens, loss, perplexity and bits per byte."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attnres_cli.data.prepare import prepare
from attnres_cli.model.cross_entropy import IGNORED_TARGET
from attnres_cli.train.evaluation import ValidationSet, evaluate
from attnres_cli.train.session import fixed_validation_set
from tests.small import VOCAB_SIZE, small_model, small_preset


def test_figures_by_hand() -> None:
    model = small_model()
    random = np.random.default_rng(1)
    inputs, targets = random.integers(0, VOCAB_SIZE, (2, 5, 16))
    targets[4, 3:] = IGNORED_TARGET
    log_p = model(torch.from_numpy(inputs)).detach().log_softmax(-1)
    total = -sum(float(log_p[s, t, targets[s, t]]) for s in range(5) for t in range(16) if targets[s, t] >= 0)
    validation = ValidationSet(inputs, targets, num_bytes=200.0, digest="")
    assert validation.num_tokens == 67
    for sequences in (1, 2, 5):  # how it is cut into batches does not matter
        found = evaluate(model, model.loss, validation, sequences=sequences, precision="fp32")
        assert found.loss == pytest.approx(total / 67, rel=1e-12)
        assert found.perplexity == pytest.approx(math.exp(total / 67), rel=1e-12)
        assert found.bits_per_byte == pytest.approx(total / math.log(2) / 200, rel=1e-12)
    assert model.training


def test_the_validation_set_depends_on_neither_seed_nor_batch() -> None:
    digests = set()
    for changes in ({}, {"train.seed": 5}, {"train.micro_batch_sequences": 4}):
        preset = small_preset(**changes)
        digests.add(fixed_validation_set(prepare(preset), context_tokens=16, tokens=preset.eval.tokens).digest)
    assert len(digests) == 1
    assert fixed_validation_set(prepare(small_preset()), context_tokens=16, tokens=64).digest not in digests
