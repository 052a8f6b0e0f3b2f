"""A rank file of one's own, by path: `tokenizer = "my-vocabulary.tiktoken"`."""

from __future__ import annotations

from pathlib import Path

from attnres_cli.data.rank_files import RankFileTokenizer, rank_file_vocabulary_size


def names() -> tuple[str, ...]:
    return ()


def accepts(name: str) -> bool:
    """Whatever is spelt like a path: with a folder in it, or ending in .tiktoken."""
    return "/" in name or "\\" in name or name.endswith(".tiktoken")


def vocabulary_size(name: str, base_folder: Path) -> int:
    return rank_file_vocabulary_size(base_folder / Path(name).expanduser())


def load(name: str, base_folder: Path) -> RankFileTokenizer:
    return RankFileTokenizer(Path(name).name, base_folder / Path(name).expanduser())
