from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attnres_cli.data.corpora import synthetic
from attnres_cli.data.corpora._synthetic_tokens import ANSWER, BEGIN, FIRST_SYMBOL, PAD
from attnres_cli.data.corpora.synthetic import Config, documents
from attnres_cli.data.documents import TokenDocument
from attnres_cli.errors import UserError


def section(task: str, **keys: Any) -> Config:
    return Config(corpus="synthetic", task=task, **({"documents": 50} | keys))


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


# ---- questions that say their own number of hops


def spoken(document: TokenDocument, config: Config) -> tuple[dict[int, int], list[tuple[int, int, int]]]:
    """(key -> value, (node, hops, answer) of every question), read off the document's text."""
    begin, *words = config.vocabulary.text(document.tokens.tolist()).split()
    assert begin == "^"
    end = words.index("?")
    told = words[:end]
    halves = [word.split("-") for word in told] if config.pair_tokens else pairs(told)  # type: ignore[arg-type]
    asked, rest = [], [word for word in words[end + 1 :] if word != "."]
    while rest:
        node, *rest = rest
        hops = 1
        if rest[0].startswith("*"):
            hops, rest = int(rest[0][1:]), rest[1:]
            assert hops > 1
        answer, *rest = rest
        asked.append((int(node), hops, int(answer)))
    return {int(key): int(value) for key, value in halves}, asked


@pytest.mark.parametrize("pair_tokens", [False, True])
def test_every_question_says_its_hops(pair_tokens: bool) -> None:
    config = section(
        "hops", length=9, symbols=11, questions=5, fewest_hops=1, hops=4, pair_tokens=pair_tokens, documents=200
    )
    counted = dict.fromkeys(range(1, 5), 0)
    for document in made(config):
        following, asked = spoken(document, config)
        assert len(following) == 9
        assert len({node for node, _, _ in asked}) == len(asked) == 5
        for node, hops, answer in asked:
            for _ in range(hops):
                node = following[node]
            assert node == answer
            counted[hops] += 1
        assert document.loss_mask is not None
        assert document.loss_mask.sum() == 5
        assert (document.tokens[document.loss_mask] - FIRST_SYMBOL).tolist() == [answer for _, _, answer in asked]
        assert document.tokens.max() < synthetic.vocabulary_size(config)
        assert len(document.tokens) == config.document_tokens == (32 if pair_tokens else 64)
    assert min(counted.values()) > 200  # 1000 questions, four numbers of hops


def test_the_fewest_hops_may_be_more_than_one() -> None:
    config = section("hops", length=9, symbols=9, fewest_hops=3, hops=4)
    asked = [hops for document in made(config) for _, hops, _ in spoken(document, config)[1]]
    assert set(asked) == {3, 4}


def test_small_numbers_of_hops_may_come_more_often_but_not_in_the_first_question() -> None:
    config = section("hops", length=9, symbols=9, questions=4, fewest_hops=1, hops=3, hops_ratio=0.5, documents=2000)
    asked = [[hops for _, hops, _ in spoken(document, config)[1]] for document in made(config)]
    firsts = [hops[0] for hops in asked]
    later = [each for hops in asked for each in hops[1:]]
    for hops, share in ((1, 4 / 7), (2, 2 / 7), (3, 1 / 7)):
        assert firsts.count(hops) / len(firsts) == pytest.approx(1 / 3, abs=0.06)  # five standard deviations
        assert later.count(hops) / len(later) == pytest.approx(share, abs=0.04)


def test_bytes_of_questions_with_hops_are_the_same_everywhere() -> None:
    config = section("hops", length=9, symbols=11, fewest_hops=1, hops=4, pair_tokens=True)
    content = b"".join(document.tokens.astype("<u4").tobytes() for document in made(config))
    assert hashlib.sha256(content).hexdigest()[:16] == "df7ca2208916a72a"


@pytest.mark.parametrize("keys", [{"fewest_hops": 1}, {"fewest_hops": 1, "pair_tokens": True}, {}])
def test_kinds_of_answers_are_the_hops_of_each_documents_first(keys: dict[str, Any]) -> None:
    config = section("hops", length=9, symbols=11, questions=3, hops=4, **keys)
    documents_ = made(config)
    masks = [document.loss_mask for document in documents_ if document.loss_mask is not None]
    windows = (
        np.stack([document.tokens for document in documents_]).astype(np.int64).reshape(-1, 2 * config.document_tokens)
    )
    counted = np.stack(masks).reshape(windows.shape)
    # a prediction is made one place before what it predicts
    inputs, at = windows[:, :-1], counted[:, 1:]
    kinds = synthetic.answer_kinds(config, inputs, at)
    assert kinds is not None
    assert kinds.shape == inputs.shape
    assert not kinds[~at].any()
    expected = [spoken(document, config)[1][0][1] if keys else 4 for document in documents_]
    assert kinds[kinds > 0].tolist() == expected


def test_other_tasks_have_no_kinds_of_answers() -> None:
    tokens = np.zeros((1, 4), dtype=np.int64)
    assert synthetic.answer_kinds(section("recall"), tokens, tokens > 0) is None


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
    config = section("hops", length=9, symbols=11, fewest_hops=1, hops=4, pair_tokens=True)
    ids = [token for document in made(config) for token in document.tokens.tolist()]
    assert config.vocabulary.ids(synthetic.decode(config, ids)) == ids
    for word in ("*0", "*5", "11", "11-0", "1-", "-1", "²"):
        with pytest.raises(UserError, match="no token of this corpus"):
            synthetic.encode(config, word)


@pytest.mark.parametrize(
    ("task", "keys", "context", "key"),
    [
        ("recall", {"length": 70}, 512, "length"),
        ("recall", {"length": 5, "questions": 6}, 512, "questions"),
        ("hops", {"length": 5, "hops": 5}, 512, "hops"),
        ("hops", {"hops": 2, "fewest_hops": 3}, 512, "fewest_hops"),
        ("hops", {"symbols": 256, "pair_tokens": True}, 512, "symbols"),
        ("hops", {"symbols": 255, "pair_tokens": True, "fewest_hops": 1}, 512, None),
        ("copy", {"length": 31}, 63, "model.context_tokens"),
        ("copy", {"length": 31}, 64, None),
        ("copy", {"length": 100, "symbols": 2}, 512, None),
    ],
)
def test_check(task: str, keys: dict[str, Any], context: int, key: str | None) -> None:
    preset = SimpleNamespace(model=SimpleNamespace(context_tokens=context))
    complaints = list(section(task, **keys).check(preset))
    assert [complaint.key for complaint in complaints] == ([] if key is None else [key])
