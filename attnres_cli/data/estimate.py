"""About how many training tokens a corpus has, before it is prepared: from sizes of files, no text is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attnres_cli.data.documents import Document, TokenFile
from attnres_cli.data.sources import corpus_module
from attnres_cli.data.tokenizers import usual_bytes_per_token
from attnres_cli.preset.schema import DataConfig


def estimated_train_tokens(config: DataConfig, base_folder: Path) -> int | None:
    """Tokens of the training side; None where the corpus or the tokenizer can't say.

    A corpus of text says its size in `text_size(config, base_folder)` → (bytes, documents), one of token documents in
    `num_tokens(config)`. Raises UserError when files are missing.
    """
    module = corpus_module(config)
    if module.GIVES is TokenFile:
        files = list(module.documents(config, base_folder))
        train = sum(file.num_tokens for file in files if file.part == "train")
        return train if any(file.part == "validation" for file in files) else _without_held_out(train, config)
    if module.GIVES is Document:
        text_size: Callable[[DataConfig, Path], tuple[int, int]] | None = getattr(module, "text_size", None)
        per_token = usual_bytes_per_token(config.tokenizer)
        if text_size is None or per_token is None:
            return None
        try:
            text_bytes, documents = text_size(config, base_folder)
        except OSError:  # preparing will say it better
            return None
        return _without_held_out(text_bytes / per_token + documents, config)  # an end of text stands after each
    num_tokens: Callable[[DataConfig], int] | None = getattr(module, "num_tokens", None)
    return None if num_tokens is None else _without_held_out(num_tokens(config), config)


def _without_held_out(tokens: float, config: DataConfig) -> int:
    return round(tokens * (1 - config.validation_fraction))
