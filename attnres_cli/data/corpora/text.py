"""Corpus `text`: plain text files; one file is one document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from attnres_cli.data.documents import Document
from attnres_cli.data.file_patterns import find_files, is_pattern, missing_files, read_file
from attnres_cli.errors import Fault, UserError
from attnres_cli.preset.schema import DataConfig, FilePath

GIVES = Document


class Config(DataConfig):
    """[data] with corpus = "text"."""

    corpus: Literal["text"] = Field(description="text: plain text files, one document each")
    files: Annotated[tuple[str, ...], Field(min_length=1), FilePath()] = Field(
        description="paths and globs (`**` for any depth), relative to the preset's folder"
    )


def missing(config: Config, base_folder: Path) -> Iterator[tuple[str, Fault]]:
    """(key, fault) of every path and glob that leads nowhere."""
    return (("files", fault) for fault in missing_files(config.files, base_folder, key="data.files"))


def text_size(config: Config, base_folder: Path) -> tuple[int, int]:
    """(bytes, documents), by the sizes of the files. Raises UserError when one is missing, OSError as the disk does."""
    sizes = [path.stat().st_size for _, path in find_files(config.files, base_folder, key="data.files")]
    return sum(sizes), sum(size > 0 for size in sizes)


def documents(config: Config, base_folder: Path) -> Iterator[Document]:
    """The files' texts. Raises UserError when a file is missing, can't be read, or is named and empty."""
    named = {pattern for pattern in config.files if not is_pattern(pattern)}
    for name, path in find_files(config.files, base_folder, key="data.files"):
        text = read_file(name, path)
        if not text and name in named:  # an empty file under a glob is skipped and counted instead
            raise UserError(f"The file {name} is empty.", where=str(path), expected="a file with text in it")
        yield Document(name, text)
