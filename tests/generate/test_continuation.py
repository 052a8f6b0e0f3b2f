"""Continuations against full recomputation: every next token from the whole window, without a cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.errors import UserError
from attnres_cli.generate.continuation import Continuations, Window
from attnres_cli.generate.sampling import SamplingConfig, choose
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.registry import scheme_names
from tests.small import RESIDUALS, VOCAB_SIZE, small_model

EVERY = {name: {"scheme": name} for name in scheme_names()} | RESIDUALS
GREEDY = SamplingConfig(temperature=0.0)
DRAWN = SamplingConfig(temperature=1.3, top_k=20, top_p=0.95, seed=4)
PROMPT = [3, 1, 4, 1, 5]


def windows(tokens: list[int]) -> list[list[int]]:
    """What the model sees, one after the other: when a context of 16 is full, the last 8 and what follows until it is
    full again."""
    found: list[list[int]] = [[]]
    for token in tokens:
        if len(found[-1]) == 16:
            found.append(found[-1][-7:])
        found[-1].append(token)
    return found


def recomputed_choices(
    model: LanguageModel, prompt: list[int], found: list[int], sampling: SamplingConfig, sample: int
) -> list[int]:
    """What is chosen after the prompt and after each token of `found` but the last, from whole windows without a
    cache: `found` itself, where every token of it is the one to choose after those before it."""
    tokens = [*prompt, *found[:-1]]
    logits: list[Tensor] = []
    with torch.no_grad():
        for number, window in enumerate(windows(tokens)):
            logits += model(torch.tensor([window]))[0, 7 if number else 0 :]
    assert len(logits) == len(tokens)
    after = logits[len(prompt) - 1 :]
    return [choose(each, sampling, sample=sample, place=place) for place, each in enumerate(after)]


@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("residual", EVERY.values(), ids=EVERY.keys())
def test_equal_to_full_recomputation_beyond_the_context(residual: dict[str, Any], sampling: SamplingConfig) -> None:
    """24 tokens after 5 fill the context of 16 twice; two transformer blocks have all the places that there are."""
    model = small_model(residual, stir=0.7, **{"model.transformer_blocks": 2})
    found = list(Continuations(model, PROMPT, 24).draw(sampling, sample=1))
    assert len(found) == 24
    assert found == recomputed_choices(model, PROMPT, found, sampling, 1)


@pytest.mark.parametrize("prompt_tokens", [1, 15, 16])
@pytest.mark.parametrize("count", [1, 2, 30])
def test_prompts_up_to_the_whole_context(prompt_tokens: int, count: int) -> None:
    model = small_model(RESIDUALS["3 blocks"], stir=0.7)
    prompt = [(7 * i) % VOCAB_SIZE for i in range(prompt_tokens)]
    found = list(Continuations(model, prompt, count).draw(DRAWN))
    assert len(found) == count
    assert found == recomputed_choices(model, prompt, found, DRAWN, 0)


def test_logits_to_1e_10_in_parts_and_beyond_the_context() -> None:
    model = small_model(RESIDUALS["full"], stir=0.7)
    tokens = [(11 * i + i * i) % VOCAB_SIZE for i in range(60)]
    for lengths in ([1] * 60, [1, 3, 12, 1, 1, 16, 5, 8, 13]):
        assert sum(lengths) == 60
        window, read = Window(model, 60), 0
        for length in lengths:
            logits = window.read(tokens[read : read + length])
            read += length
            torch.testing.assert_close(
                logits, recomputed(model, window.tokens), rtol=0, atol=1e-10, msg=lambda m, n=read: f"token {n}: {m}"
            )
            assert window.tokens == tokens[read - len(window.tokens) : read]
            assert len(window.tokens) >= min(read, 8)


def recomputed(model: LanguageModel, tokens: list[int]) -> Tensor:
    with torch.no_grad():
        return model(torch.tensor([tokens]))[0, -1]


@pytest.mark.parametrize("count", [6, 40], ids=["within the context", "beyond it"])
def test_a_sample_does_not_depend_on_those_before_it(count: int) -> None:
    model = small_model(RESIDUALS["3 blocks"], stir=0.7)
    together = Continuations(model, PROMPT, count)
    samples = [list(together.draw(DRAWN, sample=sample)) for sample in (0, 1, 2, 1, 0)]
    assert samples[0] == samples[4]
    assert samples[1] == samples[3]
    assert samples[0] != samples[1] != samples[2]
    for sample in range(3):
        assert list(Continuations(model, PROMPT, count).draw(DRAWN, sample=sample)) == samples[sample]


def test_a_sample_that_was_left_unfinished_leaves_no_trace() -> None:
    model = small_model(RESIDUALS["3 blocks"], stir=0.7)
    continuations = Continuations(model, PROMPT, 6)
    begun = continuations.draw(DRAWN, sample=0)
    next(begun), next(begun), next(begun)
    found = list(continuations.draw(DRAWN, sample=1))
    assert len(found) == 6
    assert found == recomputed_choices(model, PROMPT, found, DRAWN, 1)


def test_another_seed_another_text() -> None:
    continuations = Continuations(small_model(stir=0.7), PROMPT, 8)
    texts = [tuple(continuations.draw(SamplingConfig(1.0, seed=seed))) for seed in (0, 1, 2, 0)]
    assert texts[0] == texts[3]
    assert len(set(texts)) == 3


def test_the_token_that_ends_a_text_is_not_given_out() -> None:
    model = small_model(stir=0.7)
    whole = list(Continuations(model, PROMPT, 12).draw(DRAWN))
    for place in range(12):
        if whole[place] not in whole[:place]:
            for count in (place + 1, 12):
                assert list(Continuations(model, PROMPT, count).draw(DRAWN, end=whole[place])) == whole[:place]


def test_counts_of_what_was_read() -> None:
    continuations = Continuations(small_model(), PROMPT, 5)
    assert continuations.decode_tokens == 0
    list(continuations.draw(GREEDY))
    list(continuations.draw(DRAWN))
    assert continuations.decode_tokens == 2 * 4
    assert continuations.prompt_seconds > 0
    assert continuations.decode_seconds > 0


def test_weights_of_a_run_that_diverged_are_a_users_error() -> None:
    model = small_model()
    with torch.no_grad():
        model.embedding.weight[4, 0] = torch.nan
    with pytest.raises(UserError, match="not finite"):
        Continuations(model, PROMPT, 5)
