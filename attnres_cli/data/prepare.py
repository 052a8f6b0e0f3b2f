"""From a preset's [data] section to token ids on disk: read, hash, and tokenise what is not in the cache yet.

The documents are read through once to hash them. The hash of their contents, of the tokenizer and of the split rule is
the cache's key: an entry of that key is used as it is. Otherwise the documents are read again, one batch in memory at a
time, split (see split.py), tokenised on all cores and written.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnres_cli.caches import default_cache_folder
from attnres_cli.data import cache
from attnres_cli.data.documents import TokenFile
from attnres_cli.data.inputs import missing_inputs
from attnres_cli.data.sources import Source, corpus_module, size_key, source_of, vocabulary_size_of
from attnres_cli.data.split import SPLIT_RULE
from attnres_cli.data.store import Dataset, Progress, TokenStore
from attnres_cli.data.survey import Survey, choose_split, survey_documents
from attnres_cli.data.token_files import open_token_files
from attnres_cli.data.writing import write_sides
from attnres_cli.errors import Fault, UserError, plural
from attnres_cli.preset.schema import DataConfig
from attnres_cli.preset.validation import placed

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset

__all__ = ["Dataset", "Progress", "find_prepared", "prepare", "prepare_corpus", "vocabulary_size_of"]


def prepare(preset: Preset, *, progress: Progress | None = None, cache_folder: Path | None = None) -> Dataset:
    """The preset's corpus, tokenised and split. What is in the cache (default: `default_cache_folder()`) is not redone.

    Raises UserError when the corpus is missing, empty, or too short for the preset's context, with the preset's line.
    """
    with _at_the_presets_lines(preset):
        dataset = prepare_corpus(preset.data, preset.source_folder, progress=progress, cache_folder=cache_folder)
        _require_fit(dataset, preset)
    return dataset


def find_prepared(preset: Preset, *, cache_folder: Path | None = None) -> Dataset | None:
    """The preset's data set if it is in the cache; None when it would have to be tokenised first.

    The corpus is read through to know which entry is its own, unless the cache has none at all: then its files are only
    looked for. Raises UserError as preparing does.
    """
    missing = list(missing_inputs(preset.data, preset.source_folder))
    if missing:
        raise UserError([placed(fault, _line_of(preset, f"data.{key}")) for key, fault in missing])
    if cache.is_empty(cache_folder or default_cache_folder()):
        return None
    try:
        with _at_the_presets_lines(preset):
            return prepare_corpus(preset.data, preset.source_folder, cache_folder=cache_folder, only_cached=True)
    except cache.NotPrepared:
        return None


def prepare_corpus(
    config: DataConfig,
    base_folder: Path,
    *,
    progress: Progress | None = None,
    cache_folder: Path | None = None,
    only_cached: bool = False,
) -> Dataset:
    """The data set of a [data] section, of whatever length. `base_folder`: relative paths start here.

    only_cached: raise cache.NotPrepared where there would be more to do than to look.
    """
    folder = cache_folder or default_cache_folder()
    if corpus_module(config).GIVES is TokenFile:
        return open_token_files(config, base_folder, folder, progress, only_cached=only_cached)
    source = source_of(config, base_folder)
    survey = survey_documents(source, progress)
    if not survey.sizes.sum():
        raise UserError(
            f"The corpus '{config.corpus}' has no text.",
            where=source.size_key,
            expected="at least one document that is not empty",
            hint=f"{survey.empty} empty documents were found" if survey.empty else None,
        )
    data_hash = _data_hash(source, survey, config.validation_fraction)
    key = f"{data_hash}-{cache.FORMAT}"
    entry = cache.find_entry(folder, key)
    was_cached = entry is not None
    if entry is None:
        if only_cached:
            raise cache.NotPrepared
        split = choose_split(source, survey, config.validation_fraction)
        entry = cache.add_entry(folder, key, lambda new: write_sides(new, source, survey, split, progress))
    return _open(config, source, survey, data_hash, *entry, was_cached=was_cached)


def _data_hash(source: Source, survey: Survey, validation_fraction: float) -> str:
    rule = json.dumps([source.identity, SPLIT_RULE, validation_fraction])
    return hashlib.sha256(rule.encode() + b"\0" + survey.digests).hexdigest()


def _open(
    config: DataConfig,
    source: Source,
    survey: Survey,
    data_hash: str,
    folder: Path,
    meta: dict[str, Any],
    *,
    was_cached: bool,
) -> Dataset:
    return Dataset(
        corpus=config.corpus,
        train=_open_side(folder, "train", source, meta),
        validation=_open_side(folder, "validation", source, meta),
        vocab_size=source.vocab_size,
        tokenizer_name=source.tokenizer_name,
        data_hash=data_hash,
        validation_hash=meta["validation"]["sha256"],
        num_documents=len(survey.sizes),
        replaced_bytes=survey.replaced_bytes,
        document_tokens=None if source.has_text else meta["longest_tokens"],
        notes=_notes(survey, meta),
        decode=source.decode,
        was_cached=was_cached,
    )


def _open_side(folder: Path, part: str, source: Source, meta: dict[str, Any]) -> TokenStore:
    bytes_per_id = np.fromfile(folder / "bytes_per_id.bin", dtype="<u2") if source.has_text else None
    return TokenStore(
        tokens=np.memmap(folder / f"{part}.bin", dtype=meta["dtype"], mode="r"),
        loss_mask=np.memmap(folder / f"{part}.mask.bin", dtype=np.bool_, mode="r") if source.has_loss_masks else None,
        num_bytes=meta[part]["num_bytes"] if source.has_text else None,
        bytes_per_id=bytes_per_id,
    )


def _notes(survey: Survey, meta: dict[str, Any]) -> list[str]:
    notes = []
    if survey.replaced_bytes:
        share = survey.replaced_bytes / int(survey.sizes.sum())
        doubt = " Is this text at all?" if share > 0.05 else ""
        notes.append(
            f"Bytes that are not UTF-8, replaced by U+FFFD: {survey.replaced_bytes:,}, "
            f"in {survey.replaced_documents:,} of {len(survey.sizes):,} documents.{doubt}"
        )
    if survey.empty:
        notes.append(f"Empty documents, skipped: {survey.empty:,}.")
    if 2 * meta["cut_bytes"] > int(survey.sizes.sum()):
        notes.append(
            "The documents are few and long: they were cut at line ends, and some of the pieces are held out, "
            "so validation text comes from documents that are also trained on."
        )
    return notes


@contextmanager
def _at_the_presets_lines(preset: Preset) -> Iterator[None]:
    """Errors of the body whose place is a key, or several ("data.files, model.context_tokens"), name the lines or the
    options that say them."""
    try:
        yield
    except UserError as error:
        faults = [
            replace(fault, where=fault.where and ", ".join(_line_of(preset, each) for each in fault.where.split(", ")))
            for fault in error.faults
        ]
        raise UserError(faults, exit_code=error.exit_code) from error


def _line_of(preset: Preset, where: str) -> str:
    """The line or option that says the key `where`; `where` itself for anything else, and where the preset was put
    together by a program, which has no lines."""
    origin = preset.origins.get(where)
    is_said = origin is not None and (origin.line is not None or origin.source.startswith("--"))
    return str(origin) if is_said else where


def _require_fit(dataset: Dataset, preset: Preset) -> None:
    """Raise UserError, naming both sides where both are short, unless each holds a sequence and its next token."""
    context_tokens, fraction = preset.model.context_tokens, preset.data.validation_fraction
    is_cut = not getattr(preset.data, "validation_files", ())  # else nothing follows for the other side
    in_all = dataset.train.num_tokens + dataset.validation.num_tokens
    faults = [
        Fault(
            f"The {part} part of the corpus has {store.num_tokens:,} {plural(store.num_tokens, 'token')}, "
            "fewer than one sequence needs.",
            where=f"{size_key(preset.data)}, model.context_tokens",
            expected=f"more tokens than context_tokens = {context_tokens}"
            + f"; about {math.ceil((context_tokens + 1) / share):,} in the whole corpus, which has {in_all:,}" * is_cut,
            hint=f"more text, {more}or a shorter context",
        )
        for part, store, share, more in (
            ("training", dataset.train, 1 - fraction, ""),
            ("validation", dataset.validation, fraction, "a larger data.validation_fraction, "),
        )
        if store.num_tokens <= context_tokens
    ]
    if faults:
        raise UserError(faults)
    if dataset.document_tokens is not None and context_tokens % dataset.document_tokens:
        dataset.notes.append(
            f"Sequences of {context_tokens} tokens cut some documents of {dataset.document_tokens}; "
            f"a context that is a multiple of {dataset.document_tokens} cuts none."
        )
