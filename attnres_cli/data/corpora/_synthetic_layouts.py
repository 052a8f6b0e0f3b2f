"""What the documents of the synthetic corpus look like, many of them at once.

Random numbers are addressed by the number of the document (data/random_bits.py), so that a document is the same however
many there are.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from attnres_cli.data.corpora._synthetic_tokens import ANSWER, BEGIN, FIRST_SYMBOL, PAD

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from attnres_cli.data.corpora.synthetic import Config

_STREAM_ORDER, _STREAM_VALUES, _STREAM_QUESTIONS, _STREAM_HOPS = 0, 1, 2, 3


def _copy(config: Config, first: int, count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    symbols = _any_symbols(config, first, count, config.length)
    tokens, loss_mask = _blank(config, count)
    length = config.length
    tokens[:, 1 : 1 + length] = symbols
    tokens[:, 1 + length] = ANSWER
    tokens[:, 2 + length : 2 + 2 * length] = symbols
    loss_mask[:, 2 + length : 2 + 2 * length] = True
    return tokens, loss_mask


def _recall(config: Config, first: int, count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    keys = _different_symbols(config, first, count)
    values = _any_symbols(config, first, count, config.length)
    return _pairs_then_questions(config, first, keys, values, values)


def _hops(config: Config, first: int, count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    import numpy as np

    # The nodes in the order of the cycle, so that the node k hops on is k places on; then shuffled for showing.
    cycle = _different_symbols(config, first, count)
    shown = _orders(config, first, count, config.length, _STREAM_VALUES)

    def shuffled(nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.take_along_axis(nodes, shown, axis=1)

    following = shuffled(np.roll(cycle, -1, axis=1))
    if config.fewest_hops is not None:
        return _questions_of_many_hops(config, first, cycle, shuffled(cycle), following)
    answers = shuffled(np.roll(cycle, -config.hops, axis=1))
    return _pairs_then_questions(config, first, shuffled(cycle), following, answers)


def _pairs_then_questions(
    config: Config,
    first: int,
    keys: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    answers: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    """Documents that list keys with values [count, length], then ask for the answers to some of the keys."""
    import numpy as np

    count, length, questions = len(keys), config.length, config.resolved_questions
    tokens, loss_mask, start = _pairs(config, keys, values)
    asked = _orders(config, first, count, length, _STREAM_QUESTIONS)[:, :questions]
    tokens[:, start : start + 2 * questions : 2] = np.take_along_axis(keys, asked, axis=1)
    tokens[:, start + 1 : start + 1 + 2 * questions : 2] = np.take_along_axis(answers, asked, axis=1)
    loss_mask[:, start + 1 : start + 1 + 2 * questions : 2] = True
    return tokens, loss_mask


def _questions_of_many_hops(
    config: Config,
    first: int,
    cycle: npt.NDArray[np.int64],
    keys: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    """Documents that list keys with values [count, length], then ask of some nodes where some number of hops leads.

    cycle: the nodes in their order on it [count, length]. A question takes three tokens, or two for one hop.
    """
    import numpy as np

    count, length, questions = len(keys), config.length, config.resolved_questions
    tokens, loss_mask, start = _pairs(config, keys, values)
    asked = _orders(config, first, count, length, _STREAM_QUESTIONS)[:, :questions]
    hops = _hops_to_follow(config, first, count)
    row, at = np.arange(count), np.full(count, start)
    for question in range(questions):
        place, k = asked[:, question], hops[:, question]
        tokens[row, at] = cycle[row, place]
        is_marked = k > 1
        tokens[row[is_marked], at[is_marked] + 1] = config.vocabulary.first_hops_mark + k[is_marked] - 1
        at = at + 1 + is_marked
        tokens[row, at] = cycle[row, (place + k) % length]
        loss_mask[row, at] = True
        at = at + 1
    return tokens, loss_mask


def _hops_to_follow(config: Config, first: int, count: int) -> npt.NDArray[np.int64]:
    """How many hops every question asks for; int64 [count, questions]. The first column has all numbers alike."""
    import numpy as np

    from attnres_cli.data.random_bits import random_uint64

    assert config.fewest_hops is not None
    shape = (count, config.resolved_questions)
    bits = random_uint64((config.generator_seed, _STREAM_HOPS), shape[0] * shape[1], first=first * shape[1])
    drawn = (bits >> np.uint64(32)).astype(np.int64).reshape(shape)
    numbers = config.hops - config.fewest_hops + 1
    chosen = np.searchsorted(_limits(numbers, config.hops_ratio), drawn, side="right")
    chosen[:, 0] = np.searchsorted(_limits(numbers, 1.0), drawn[:, 0], side="right")
    return chosen + config.fewest_hops


def _limits(numbers: int, ratio: float) -> npt.NDArray[np.int64]:
    """Where the shares 1, ratio, ratio² … of [0, 2³²) end, rounded down, without the last end; int64 [numbers - 1].

    In exact fractions, which are the same everywhere.
    """
    import numpy as np

    weights = [Fraction(ratio) ** power for power in range(numbers)]
    ends = [sum(weights[:place]) / sum(weights) * 2**32 for place in range(1, numbers)]
    return np.array([int(end) for end in ends], dtype=np.int64)


def _pairs(
    config: Config, keys: npt.NDArray[np.int64], values: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_], int]:
    """(documents up to the answer mark, a loss mask with nothing in it, where the questions begin)"""
    count, length = keys.shape
    tokens, loss_mask = _blank(config, count)
    if config.pair_tokens:
        tokens[:, 1 : 1 + length] = (
            config.vocabulary.first_pair + (keys - FIRST_SYMBOL) * config.symbols + (values - FIRST_SYMBOL)
        )
        end = 1 + length
    else:
        tokens[:, 1 : 1 + 2 * length : 2] = keys
        tokens[:, 2 : 2 + 2 * length : 2] = values
        end = 1 + 2 * length
    tokens[:, end] = ANSWER
    return tokens, loss_mask, end + 1


def _blank(config: Config, count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    import numpy as np

    tokens = np.full((count, config.document_tokens), PAD, dtype=np.uint32)
    tokens[:, 0] = BEGIN
    return tokens, np.zeros((count, config.document_tokens), dtype=np.bool_)


def _any_symbols(config: Config, first: int, count: int, per_document: int) -> npt.NDArray[np.int64]:
    """Independent symbols; int64 [count, per_document]."""
    from attnres_cli.data.random_bits import random_below

    stream = (config.generator_seed, _STREAM_VALUES)
    drawn = random_below(config.symbols, stream, count * per_document, first=first * per_document)
    return drawn.reshape(count, per_document) + FIRST_SYMBOL


def _different_symbols(config: Config, first: int, count: int) -> npt.NDArray[np.int64]:
    """`length` different symbols in random order; int64 [count, length]."""
    return _orders(config, first, count, config.symbols, _STREAM_ORDER)[:, : config.length] + FIRST_SYMBOL


def _orders(config: Config, first: int, count: int, of: int, purpose: int) -> npt.NDArray[np.int64]:
    """A random order of 0 … of − 1 per document, by sorting random keys; int64 [count, of]."""
    import numpy as np

    from attnres_cli.data.random_bits import random_uint64

    keys = random_uint64((config.generator_seed, purpose), count * of, first=first * of).reshape(count, of)
    return np.argsort(keys, axis=1, kind="stable").astype(np.int64)


# task → (section, number of the first document, how many) → tokens and loss mask [documents, document_tokens]
LAYOUTS = {"copy": _copy, "recall": _recall, "hops": _hops}
