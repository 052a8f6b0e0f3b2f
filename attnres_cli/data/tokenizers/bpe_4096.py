"""Tokenizer `bpe-4096`: 4096 tokens learned from Python source and English prose, shipped with the program.

Trained once by `attnres data train-tokenizer` on the standard library of Python 3.11 and the prose of data_samples/.
"""

from __future__ import annotations

from pathlib import Path

from attnres_cli.data.rank_files import RankFileTokenizer, rank_file_vocabulary_size
from attnres_cli.shipped import shipped_folder

NAME = "bpe-4096"
# Between the two corpora that everybody has: 3.63 on the standard library of Python 3.11, 3.01 on the sources of torch
# 2.13 (2026-12-01).
BYTES_PER_TOKEN = 3.3


def names() -> tuple[str, ...]:
    return (NAME,)


def accepts(name: str) -> bool:
    return name == NAME


def vocabulary_size(name: str, base_folder: Path) -> int:
    return rank_file_vocabulary_size(_path())


def load(name: str, base_folder: Path) -> RankFileTokenizer:
    return RankFileTokenizer(NAME, _path())


def _path() -> Path:
    return shipped_folder("data_samples") / "tokenizers" / "bpe-4096.tiktoken"
