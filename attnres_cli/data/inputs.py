"""What a [data] section names and is not there: looked for, not read through, and nothing is prepared.

`load_preset(…, inputs=…)` takes one of these functions, so that a command finds everything that it would miss together
with the other faults of the preset, each at its line: `missing_inputs` where the data will be read, `missing_text`
where no tokenizer is asked, `missing_vocabulary` where only the size of the model depends on the section.

Each yields (key of the section, fault). base_folder: relative paths start here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from attnres_cli.data.sources import corpus_module, vocabulary_size_of
from attnres_cli.data.tokenizers import is_known, load_tokenizer
from attnres_cli.errors import Fault, UserError
from attnres_cli.preset.schema import DataConfig


def missing_inputs(config: DataConfig, base_folder: Path) -> Iterator[tuple[str, Fault]]:
    """Every file, package or vocabulary that training would refuse to start without."""
    yield from missing_text(config, base_folder)
    yield from _missing_tokenizer(config, lambda: load_tokenizer(config.tokenizer, base_folder))


def missing_text(config: DataConfig, base_folder: Path) -> Iterator[tuple[str, Fault]]:
    """The corpus's own files and packages. A corpus says what it needs in `missing(config, base_folder)`; one without
    that function needs nothing."""
    missing: Callable[[DataConfig, Path], Iterator[tuple[str, Fault]]] | None
    missing = getattr(corpus_module(config), "missing", None)
    if missing is not None:
        yield from missing(config, base_folder)


def missing_vocabulary(config: DataConfig, base_folder: Path) -> Iterator[tuple[str, Fault]]:
    """A tokenizer's file without which the size of the vocabulary is not known."""
    yield from _missing_tokenizer(config, lambda: vocabulary_size_of(config, base_folder))


def _missing_tokenizer(config: DataConfig, ask: Callable[[], object]) -> Iterator[tuple[str, Fault]]:
    if config.tokenizer == "none" or not is_known(config.tokenizer):  # an unknown name is the preset's own fault
        return
    try:
        ask()
    except UserError as error:
        yield from (("tokenizer", fault) for fault in error.faults)
