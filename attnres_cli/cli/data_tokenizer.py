"""`attnres data train-tokenizer`: learn a byte-pair vocabulary from text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.options import JsonOption, OverlayOption, SetOption, complete_preset
from attnres_cli.errors import ExitCode, UserError

if TYPE_CHECKING:
    from attnres_cli.preset.schema import DataConfig


def _complete_corpus(incomplete: str) -> list[str]:
    from attnres_cli.discovery import names

    return [name for name in names("data.corpora") if name.startswith(incomplete)]


def train_tokenizer(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Write the rank file here.")],
    preset: Annotated[
        str | None,
        typer.Argument(metavar="PRESET", help="Learn from this preset's corpus.", autocompletion=complete_preset),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus",
            metavar="NAME",
            help="Learn from a corpus that needs no keys (stdlib).",
            autocompletion=_complete_corpus,
        ),
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", metavar="GLOB", help="Learn from these text files; repeatable.")
    ] = None,
    size: Annotated[int, typer.Option("--size", help="Tokens in the vocabulary, end of text included.")] = 4096,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Learn a byte-pair vocabulary from text and write it as a rank file (`tokenizer = "FILE"` in a preset uses it)."""
    from attnres_cli.data.rank_files import rank_file_text
    from attnres_cli.data.tokenizer_training import require_trainer, train_ranks
    from attnres_cli.runs.files import write_whole

    require_trainer()
    sections = _text_sections(preset, corpus, text, overlays, sets)
    counted = _Counted()
    if not output.parent.is_dir():
        raise UserError(f"There is no folder {output.parent}.", where="--output", hint=f"mkdir -p {output.parent}")
    ranks = train_ranks(counted.texts(sections), size)
    try:
        write_whole(output, rank_file_text(ranks))
    except OSError as error:
        raise UserError(f"{output} can't be written: {error.strerror}.", where="--output") from error
    if json_output:
        from attnres_cli.cli.console import print_json

        payload = {"path": output, "vocab_size": size, "documents": counted.documents, "text_bytes": counted.text_bytes}
        print_json("data.train-tokenizer", payload)
        return
    typer.echo(f"{output}: {size:,} tokens, learned from {counted.text_bytes:,} bytes of text")


def _text_sections(
    preset: str | None, corpus: str | None, text: list[str] | None, overlays: list[str] | None, sets: list[str] | None
) -> list[tuple[DataConfig, Path]]:
    """The [data] sections to learn from, each with the folder of its relative paths."""
    if preset is None and corpus is None and not text:
        raise UserError(
            "Learn from what?",
            expected="a PRESET, --corpus NAME or --text GLOB (they add up)",
            hint="attnres data train-tokenizer --corpus stdlib --size 4096 -o my.tiktoken",
            exit_code=ExitCode.USAGE,
        )
    if preset is None and (overlays or sets):
        raise UserError("--overlay and --set change a preset; name one.", exit_code=ExitCode.USAGE)
    sections: list[tuple[DataConfig, Path]] = []
    if preset is not None:
        from attnres_cli.data.inputs import missing_text  # the preset may name the tokenizer that is made here
        from attnres_cli.preset.reading import load_preset

        loaded = load_preset(preset, overlays=overlays or (), sets=sets or (), inputs=missing_text)
        sections.append((loaded.data, loaded.source_folder))
    if corpus is not None:
        sections.append((_without_keys(corpus), Path()))
    if text:
        from attnres_cli.data.corpora.text import Config

        sections.append((Config(corpus="text", files=tuple(text)), Path()))
    for section, _ in sections:
        _require_text(section)
    return sections


def _without_keys(corpus: str) -> DataConfig:
    from pydantic import ValidationError

    from attnres_cli.discovery import load

    module = load("data.corpora", corpus, what="corpus", where="--corpus")
    try:
        section: DataConfig = module.Config(corpus=corpus)
    except ValidationError as error:
        keys = ", ".join(str(each["loc"][0]) for each in error.errors())
        raise UserError(
            f"The corpus '{corpus}' needs keys: {keys}.",
            where="--corpus",
            expected="a preset that says them, or --text for plain text files",
        ) from error
    return section


def _require_text(section: DataConfig) -> None:
    from attnres_cli.data.documents import Document
    from attnres_cli.data.sources import corpus_module

    if corpus_module(section).GIVES is not Document:
        raise UserError(f"The corpus '{section.corpus}' holds no text to learn from.", expected="a corpus of text")


class _Counted:
    """Passes texts on, counting them."""

    def __init__(self) -> None:
        self.documents = 0
        self.text_bytes = 0

    def texts(self, sections: list[tuple[DataConfig, Path]]) -> Iterator[str]:
        from attnres_cli.data.sources import corpus_module
        from attnres_cli.data.text import clean

        for section, folder in sections:
            for document in clean(corpus_module(section).documents(section, folder), section.undecodable):
                self.documents += 1
                self.text_bytes += len(document.content)
                yield document.content.decode()
