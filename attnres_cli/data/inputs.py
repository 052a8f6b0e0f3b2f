"""Whether the files that a [data] section names are there: looked for, not read through, and nothing is prepared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from attnres_cli.data.sources import corpus_module
from attnres_cli.data.tokenizers import load_tokenizer
from attnres_cli.errors import Fault, UserError
from attnres_cli.preset.schema import DataConfig


def missing_inputs(config: DataConfig, base_folder: Path) -> Iterator[tuple[str, Fault]]:
    """(key of the section, fault) for every file, package or vocabulary that training would refuse to start without.

    base_folder: relative paths start here. A corpus says what it needs in `missing(config, base_folder)`; one without
    that function needs nothing.
    """
    missing: Callable[[DataConfig, Path], Iterator[tuple[str, Fault]]] | None
    missing = getattr(corpus_module(config), "missing", None)
    if missing is not None:
        yield from missing(config, base_folder)
    if config.tokenizer != "none":
        try:
            load_tokenizer(config.tokenizer, base_folder)
        except UserError as error:
            yield from (("tokenizer", fault) for fault in error.faults)
