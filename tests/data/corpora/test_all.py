"""What every corpus promises, over every file of data/corpora/."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnres_cli import discovery
from attnres_cli.data.documents import Document, TokenDocument, TokenFile
from attnres_cli.data.prepare import prepare_corpus, vocabulary_size_of
from attnres_cli.preset.schema import DataConfig
from attnres_cli.shipped import shipped_folder

SAMPLES = shipped_folder("data_samples")
CORPORA = discovery.names("data.corpora")
# Keys that a corpus can't do without. A new corpus that needs some fails here until it says an example.
KEYS: dict[str, dict[str, Any]] = {
    "jsonl": {"files": ("notes.jsonl",), "validation_fraction": 0.2},
    "stdlib": {},
    "synthetic": {"task": "recall", "documents": 200},
    "text": {"files": ("*.txt", "notes.jsonl"), "validation_fraction": 0.2},
    "tokens": {"files": ("prose-*.bin",), "vocab_size": 257},
}


def module_and_section(corpus: str) -> tuple[Any, DataConfig]:
    module = discovery.load("data.corpora", corpus, what="corpus")
    return module, module.Config(corpus=corpus, **KEYS.get(corpus, {}))


def contents(module: Any, section: DataConfig) -> Iterator[tuple[str, bytes]]:
    for document in module.documents(section, SAMPLES):
        if isinstance(document, Document):
            yield document.name, document.text
        elif isinstance(document, TokenDocument):
            yield document.name, document.tokens.tobytes() + np.asarray(document.loss_mask).tobytes()
        else:
            yield document.name, str(document).encode()


@pytest.mark.parametrize("corpus", CORPORA)
def test_documents_are_of_the_kind_announced_and_always_the_same(corpus: str) -> None:
    module, section = module_and_section(corpus)
    assert module.GIVES in (Document, TokenDocument, TokenFile)
    assert all(isinstance(document, module.GIVES) for document in module.documents(section, SAMPLES))
    first, second = list(contents(module, section)), list(contents(module, section))
    assert first == second
    assert first
    assert len({name for name, _ in first}) == len(first)


@pytest.mark.parametrize("corpus", CORPORA)
def test_prepared_ids_are_below_the_vocabulary_size(corpus: str) -> None:
    _, section = module_and_section(corpus)
    dataset = prepare_corpus(section, SAMPLES)
    assert dataset.corpus == corpus
    assert dataset.vocab_size == vocabulary_size_of(section, SAMPLES)
    for store in (dataset.train, dataset.validation):
        assert store.num_tokens > 0
        assert int(store.tokens[:].max()) < dataset.vocab_size
        assert store.loss_mask is None or store.loss_mask.shape == (store.num_tokens,)
    assert dataset.decode(dataset.train.tokens[:20].tolist())
    assert len(dataset.data_hash) == len(dataset.validation_hash) == 64


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_key_is_explained(corpus: str) -> None:
    module, _ = module_and_section(corpus)
    assert all(field.description for field in module.Config.model_fields.values())


def test_sections_load_neither_torch_nor_numpy() -> None:
    """A preset is validated by its corpus's section, also when its name is only listed."""
    code = (
        "import sys\n"
        f"for name in {CORPORA!r}:\n"
        "    __import__(f'attnres_cli.data.corpora.{name}')\n"
        "assert not {'torch', 'numpy', 'tiktoken'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])
