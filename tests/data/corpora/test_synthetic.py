from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attnres_cli.data.corpora import synthetic
from attnres_cli.data.corpora.synthetic import ANSWER, BEGIN, FIRST_SYMBOL, PAD, Config, documents
from attnres_cli.data.documents import TokenDocument
from attnres_cli.errors import UserError


def section(task: str, **keys: Any) -> Config:
    return Config(corpus="synthetic", task=task, **({"documents": 50} | keys))  # type: ignore[arg-type]


def made(config: Config) -> list[TokenDocument]:
    return list(documents(config, Path()))


def parts(document: TokenDocument) -> tuple[list[int], list[int]]:
    """(what is to be remembered, questions and answers), without begin, answer and padding."""
    tokens = document.tokens.tolist()
    end = tokens.index(ANSWER)
    assert tokens[0] == BEGIN
    after = tokens[end + 1 :]
    used = len(after) if PAD not in after else after.index(PAD)
    assert set(after[used:]) <= {PAD}
    return tokens[1:end], after[:used]


def pairs(flat: list[int]) -> list[tuple[int, int]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def test_copy() -> None:
    for document in made(section("copy", length=11, symbols=5)):
        remembered, answer = parts(document)
        assert len(remembered) == 11
        assert answer == remembered
        assert document.loss_mask is not None
        assert document.tokens[document.loss_mask].tolist() == answer


def test_recall() -> None:
    for document in made(section("recall", length=9, questions=4, symbols=12)):
        remembered, asked = parts(document)
        table = dict(pairs(remembered))
        assert len(table) == 9
        assert len({key for key, _ in pairs(asked)}) == 4
        assert all(table[key] == value for key, value in pairs(asked))
        assert document.loss_mask is not None
        assert document.tokens[document.loss_mask].tolist() == asked[1::2]


@pytest.mark.parametrize("hops", [1, 2, 5])
def test_hops(hops: int) -> None:
    for document in made(section("hops", length=8, hops=hops, symbols=20)):
        remembered, asked = parts(document)
        following = dict(pairs(remembered))
        assert len(following) == 8
        assert len(asked) == 2 * 4
        for start, answer in pairs(asked):
            node = start
            for _ in range(hops):
                node = following[node]
            assert node == answer
        # One cycle through all nodes, so that no number of hops below its length comes back.
        node, seen = remembered[0], set()
        while node not in seen:
            seen.add(node)
            node = following[node]
        assert seen == set(following)
        assert document.loss_mask is not None
        assert document.tokens[document.loss_mask].tolist() == asked[1::2]


@pytest.mark.parametrize("task", ["copy", "recall", "hops"])
@pytest.mark.parametrize("length", [3, 7, 15, 16])
def test_documents_fill_a_power_of_two(task: str, length: int) -> None:
    config = section(task, length=length)
    lengths = {len(document.tokens) for document in made(config)}
    assert lengths == {config.document_tokens}
    assert config.document_tokens & (config.document_tokens - 1) == 0
    used = max(int(np.flatnonzero(document.tokens != PAD)[-1]) + 1 for document in made(config))
    assert used <= config.document_tokens < 2 * used


def test_symbols_stay_in_the_vocabulary_and_all_occur() -> None:
    config = section("recall", symbols=16, length=5, documents=300)
    seen = set(np.concatenate([document.tokens for document in made(config)]).tolist())
    assert seen == {PAD, BEGIN, ANSWER, *range(FIRST_SYMBOL, FIRST_SYMBOL + 16)}
    assert synthetic.vocabulary_size(config) == FIRST_SYMBOL + 16


def test_a_document_does_not_depend_on_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    many = made(section("hops", documents=40))
    monkeypatch.setattr(synthetic, "_NUMBERS_AT_ONCE", 64 * 3)
    few = made(section("hops", documents=7))
    for one, other in zip(few, many, strict=False):
        assert np.array_equal(one.tokens, other.tokens)


def test_seeds_differ() -> None:
    assert not np.array_equal(made(section("copy"))[0].tokens, made(section("copy", generator_seed=1))[0].tokens)


@pytest.mark.parametrize(
    ("task", "digest"), [("copy", "9572e9ecc1ee51ce"), ("recall", "437302aa2157f11a"), ("hops", "cd89b9bbb1e8bd9a")]
)
def test_bytes_are_the_same_everywhere(task: str, digest: str) -> None:
    """Comparisons between machines rest on these: they must never change."""
    content = b"".join(document.tokens.astype("<u4").tobytes() for document in made(section(task)))
    assert hashlib.sha256(content).hexdigest()[:16] == digest


def test_encode_and_decode() -> None:
    tokens, text = [BEGIN, FIRST_SYMBOL + 12, ANSWER, FIRST_SYMBOL + 12, PAD], "^ 12 ? 12 ."
    assert synthetic.decode(section("copy"), tokens) == text
    assert synthetic.encode(section("copy"), text) == tokens
    with pytest.raises(UserError, match="'13x' is no token of this corpus"):
        synthetic.encode(section("copy"), "^ 13x")


@pytest.mark.parametrize(
    ("task", "keys", "context", "key"),
    [
        ("recall", {"length": 70}, 512, "length"),
        ("recall", {"length": 5, "questions": 6}, 512, "questions"),
        ("hops", {"length": 5, "hops": 5}, 512, "hops"),
        ("copy", {"length": 31}, 63, "model.context_tokens"),
        ("copy", {"length": 31}, 64, None),
        ("copy", {"length": 100, "symbols": 2}, 512, None),
    ],
)
def test_check(task: str, keys: dict[str, Any], context: int, key: str | None) -> None:
    preset = SimpleNamespace(model=SimpleNamespace(context_tokens=context))
    complaints = list(section(task, **keys).check(preset))
    assert [complaint.key for complaint in complaints] == ([] if key is None else [key])
