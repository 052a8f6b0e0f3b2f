"""Learning a byte-pair vocabulary from a corpus, through rustbpe (the extra `tokenizer`)."""

from __future__ import annotations

from collections.abc import Iterable

from attnres_cli.data.byte_pairs import PLAIN_PATTERN
from attnres_cli.errors import UserError, plural

SMALLEST_VOCABULARY = 257


def require_trainer() -> None:
    """Raises UserError with the pip line when rustbpe is not installed; asked before anything is read."""
    try:
        import rustbpe  # noqa: F401
    except ImportError as error:
        raise UserError(
            "Training a tokenizer needs the package rustbpe, which is not installed.",
            hint="pip install 'attnres-cli[tokenizer]'",
        ) from error


def train_ranks(texts: Iterable[str], vocab_size: int) -> dict[bytes, int]:
    """Ranks of a vocabulary of `vocab_size` tokens: 256 bytes, the merges of the texts, and (without rank) end of text.

    The same texts give the same ranks. Raises UserError when they have too few repetitions for so many tokens.
    """
    require_trainer()
    import rustbpe

    if vocab_size < SMALLEST_VOCABULARY:
        raise UserError(
            f"A vocabulary of {vocab_size} {plural(vocab_size, 'token')} is too small.",
            where="--size",
            expected=f"at least {SMALLEST_VOCABULARY}: 256 bytes and end of text",
        )
    trainer = rustbpe.Tokenizer()
    trainer.train_from_iterator(iter(texts), vocab_size - 1, pattern=PLAIN_PATTERN)
    ranks = {bytes(token): int(rank) for token, rank in trainer.get_mergeable_ranks()}
    if len(ranks) < vocab_size - 1:
        raise UserError(
            f"The texts have too few repetitions for {vocab_size:,} tokens.",
            where="--size",
            expected=f"at most {len(ranks) + 1:,}, or more text",
        )
    return ranks
