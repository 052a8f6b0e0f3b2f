"""`attnres data`: prepare and inspect a preset's corpus (training a tokenizer is data_tokenizer.py)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from attnres_cli.cli.data_tokenizer import train_tokenizer
from attnres_cli.cli.interruption import raise_again
from attnres_cli.cli.options import JsonOption, OverlayOption, PresetArgument, SetOption
from attnres_cli.cli.preparing import saying_what_is_kept

if TYPE_CHECKING:
    from attnres_cli.data.prepare import Dataset, Progress
    from attnres_cli.preset.preset import Preset
    from attnres_cli.report.table import Row, Table

app = typer.Typer(no_args_is_help=True, help="Prepare and inspect corpora; train a tokenizer.")

_SNIPPET_TOKENS = 64
_SNIPPET_CHARACTERS = 200
_WORTH_A_LINE_BYTES = 10**6


@app.command()
def prepare(
    preset: PresetArgument, overlays: OverlayOption = None, sets: SetOption = None, json_output: JsonOption = False
) -> None:
    """Tokenise a preset's corpus and split it, now instead of when training starts; cached data is not made again."""
    loaded = _load(preset, overlays, sets)
    dataset = _prepare(loaded)
    _notes_to_stderr(dataset, json_output)
    if json_output:
        _print_json("data.prepare", loaded, dataset)
        return
    done = "was in the cache" if dataset.was_cached else "prepared"
    typer.echo(
        f"{dataset.corpus} ({dataset.tokenizer_name}) {done}: {dataset.train.num_tokens:,} training tokens, "
        f"{dataset.validation.num_tokens:,} validation tokens"
    )


@app.command()
def inspect(
    preset: PresetArgument, overlays: OverlayOption = None, sets: SetOption = None, json_output: JsonOption = False
) -> None:
    """Show a preset's corpus: documents, tokens, bytes per token, the split, hashes, epochs, and how it begins."""
    from attnres_cli.report.document import Document, Notice

    loaded = _load(preset, overlays, sets)
    dataset = _prepare(loaded)
    if json_output:
        _print_json("data.inspect", loaded, dataset)
        return
    about = (
        f"documents {dataset.num_documents:,}, vocabulary {dataset.vocab_size:,}, tokenizer {dataset.tokenizer_name}",
        f"data hash {dataset.data_hash}",
        f"validation hash {dataset.validation_hash}",
        f"training sees {_epochs(loaded, dataset):.2f} epochs of {_windows(loaded, dataset):,} sequences "
        f"of {loaded.model.context_tokens:,} tokens",
    )
    _print_document(
        Document(
            "data.inspect",
            (
                Notice(f"Corpus {dataset.corpus}", about),
                _split_table(dataset),
                *([Notice("Note", tuple(dataset.notes), "warning")] if dataset.notes else []),
                Notice("Validation begins", (_snippet(dataset),)),
            ),
        )
    )


app.command("train-tokenizer")(train_tokenizer)


def _load(ref: str, overlays: list[str] | None, sets: list[str] | None) -> Preset:
    from attnres_cli.data.inputs import missing_inputs
    from attnres_cli.preset.reading import load_preset

    return load_preset(ref, overlays=overlays or (), sets=sets or (), inputs=missing_inputs)


def _prepare(preset: Preset) -> Dataset:
    with saying_what_is_kept(), _shown_progress() as show:
        from attnres_cli.data.prepare import prepare  # loads libraries, which takes longer than some corpora

        def progress(stage: str, done_bytes: int, total_bytes: int) -> None:
            raise_again()
            show(stage, done_bytes, total_bytes)

        return prepare(preset, progress=progress)


@contextmanager
def _shown_progress() -> Iterator[Progress]:
    """A bar where somebody is watching stderr; elsewhere one line when a stage begins that takes a while."""
    from attnres_cli.cli.console import is_interactive, stderr

    if not is_interactive(sys.stderr):
        yield _plain_progress()
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stderr(), transient=True) as bars:
        stages: dict[str, Any] = {}

        def show(stage: str, done_bytes: int, total_bytes: int) -> None:
            if stage not in stages:
                for finished in stages.values():
                    bars.update(finished, visible=False)
                stages[stage] = bars.add_task(stage, total=total_bytes or None)
            bars.update(stages[stage], completed=done_bytes, total=total_bytes or None)

        yield show


def _plain_progress() -> Progress:
    begun: set[str] = set()

    def show(stage: str, done_bytes: int, total_bytes: int) -> None:
        if total_bytes >= _WORTH_A_LINE_BYTES and stage not in begun:
            begun.add(stage)
            typer.echo(f"{stage}: {total_bytes / 1e6:.1f} MB", err=True)

    return show


def _notes_to_stderr(dataset: Dataset, json_output: bool) -> None:
    if not json_output:
        for note in dataset.notes:
            typer.echo(f"note: {note}", err=True)


def _print_json(kind: str, preset: Preset, dataset: Dataset) -> None:
    from attnres_cli.cli.console import print_json

    print_json(
        kind,
        {
            "preset": preset.name,
            "corpus": dataset.corpus,
            "tokenizer": dataset.tokenizer_name,
            "vocab_size": dataset.vocab_size,
            "documents": dataset.num_documents,
            "replaced_bytes": dataset.replaced_bytes,
            "data_hash": dataset.data_hash,
            "validation_hash": dataset.validation_hash,
            "split": {
                row["part"]: {key: value for key, value in row.items() if key != "part"} for row in _rows(dataset)
            },
            "context_tokens": preset.model.context_tokens,
            "windows": _windows(preset, dataset),
            "epochs": _epochs(preset, dataset),
            "notes": dataset.notes,
            "was_cached": dataset.was_cached,
            "snippet": _snippet(dataset),
        },
    )


def _split_table(dataset: Dataset) -> Table:
    from attnres_cli.report.table import Column, Table

    columns = (
        Column("part", "part"),
        Column("tokens", "tokens", kind="count"),
        Column("token_share", "share", unit="%", kind="number", scale=100, decimals=1),
        Column("text_bytes", "text", kind="bytes"),
        Column("bytes_per_token", "bytes/token", kind="number", decimals=2),
        Column("counted_tokens", "counted", kind="count"),
    )
    used = [column for column in columns if any(row.get(column.key) is not None for row in _rows(dataset))]
    return Table("split", "Split", tuple(used), tuple(_rows(dataset)))


def _rows(dataset: Dataset) -> list[Row]:
    """One row per side. counted_tokens: those whose prediction counts, None where all do."""
    total = dataset.train.num_tokens + dataset.validation.num_tokens
    return [
        {
            "part": part,
            "tokens": store.num_tokens,
            "token_share": store.num_tokens / total,
            "text_bytes": store.num_bytes,
            "bytes_per_token": None if store.num_bytes is None else store.num_bytes / store.num_tokens,
            "counted_tokens": None if store.loss_mask is None else int(store.loss_mask.sum()),
        }
        for part, store in (("training", dataset.train), ("validation", dataset.validation))
    ]


def _windows(preset: Preset, dataset: Dataset) -> int:
    from attnres_cli.data.batches import num_windows

    return num_windows(dataset.train, preset.model.context_tokens)


def _epochs(preset: Preset, dataset: Dataset) -> float:
    return preset.steps * preset.sequences_per_step / _windows(preset, dataset)


def _snippet(dataset: Dataset) -> str:
    text = dataset.decode(dataset.validation.tokens[:_SNIPPET_TOKENS].tolist())
    if dataset.tokenizer_name == "none" and len(text) > _SNIPPET_CHARACTERS:  # ids: a part of one would be another
        return text[: _SNIPPET_CHARACTERS - 1].rpartition(" ")[0] + " …"
    return text[:_SNIPPET_CHARACTERS]


def _print_document(document: Any) -> None:
    from attnres_cli.cli.console import is_interactive, stdout
    from attnres_cli.report.document import render

    interactive = is_interactive(sys.stdout)
    console = stdout()
    colour = interactive and console.color_system is not None and not console.no_color
    typer.echo(render(document, "table", width_columns=console.width if interactive else None, colour=colour), nl=False)
