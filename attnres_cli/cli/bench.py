"""`attnres bench [PRESET]`: what the residual schemes cost on this machine, side by side in one process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnres_cli.cli.bench_options import arms_of, depths_of, refuse_together
from attnres_cli.cli.options import (
    FormatOption,
    JsonOption,
    OutputOption,
    OverlayOption,
    SetOption,
    complete_preset,
    complete_residual,
)
from attnres_cli.discovery import names
from attnres_cli.errors import ExitCode, Fault, UserError

if TYPE_CHECKING:
    from attnres_cli.analysis.conditions import Condition
    from attnres_cli.preset.reading import Preset
    from attnres_cli.report.document import Document

app = typer.Typer()

DEFAULT_PRESET = "cpu-small"
PAIRS = 15
OPERATOR_PAIRS = 7


def complete_mode(incomplete: str) -> list[str]:
    return [name for name in names("bench.modes") if name.startswith(incomplete)]


def complete_backend(incomplete: str) -> list[str]:
    return [name for name in ("auto", *names("residual.ops")) if name.startswith(incomplete)]


@app.command()
def bench(
    preset: Annotated[
        str,
        typer.Argument(
            metavar="PRESET",
            help="The shape: a preset's name or the path of a TOML file.",
            autocompletion=complete_preset,
        ),
    ] = DEFAULT_PRESET,
    residual: Annotated[
        list[str] | None,
        typer.Option(
            "--residual",
            metavar="SCHEME",
            help="An arm; repeat it. The others are compared with the first; without it the usual ones. The same "
            "scheme twice shows the noise.",
            autocompletion=complete_residual,
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            metavar="MODE",
            help=f"What is timed: {', '.join(names('bench.modes'))}.",
            autocompletion=complete_mode,
        ),
    ] = "train",
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            metavar="NAME",
            help=f"Who computes the residual path: auto, {', '.join(names('residual.ops'))}.",
            autocompletion=complete_backend,
        ),
    ] = None,
    compile_: Annotated[
        bool | None,
        typer.Option("--compile/--no-compile", help="torch.compile in every arm; without it as the preset says."),
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(
            "--pairs",
            min=1,
            metavar="N",
            help=f"Rounds of all arms in turn; default {PAIRS}, with --operator {OPERATOR_PAIRS}.",
        ),
    ] = None,
    prompt_tokens: Annotated[
        int | None,
        typer.Option("--prompt-tokens", min=1, metavar="N", help="Length of the prompt of prefill and decode."),
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option("--vocab-size", min=2, metavar="N", help="Vocabulary instead of that of the preset's tokenizer."),
    ] = None,
    depth: Annotated[
        str | None,
        typer.Option("--depth", metavar="A,B,…", help="Repeat it with these numbers of transformer blocks."),
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="Time the residual path alone, for every back end that works here.")
    ] = False,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FILE", help="Compare with what --json wrote earlier.")
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="CONDITION",
            help="Exit with 6 where it holds, such as 'ARM.step_ratio > 1.05'; repeatable.",
        ),
    ] = None,
    format_name: FormatOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
) -> None:
    """Time and memory of the residual schemes: arms in turn in one process, ratios taken within a round.

    --mode train (the default) times whole optimiser steps, forward the loss without gradients, prefill the reading of a
    prompt, decode one token after it. One thread gives the steadiest ratios: --set train.threads=1. Nothing is
    trained to an end and no data is needed.
    """
    from attnres_cli.cli.output import check_writable, chosen_format, print_document, write_document

    chosen = chosen_format(format_name, output, json)
    if output is not None:
        check_writable(output)
    _quiet_profiler()
    refuse_together(
        operator=operator, depth=depth, mode=mode, compile_=compile_, prompt_tokens=prompt_tokens, vocab_size=vocab_size
    )
    needs_vocabulary = not operator and vocab_size is None
    presets = arms_of(
        preset, residual or (), overlays or (), sets or (), backend, compile_, needs_vocabulary=needs_vocabulary
    )
    if operator:
        document = _operator(presets, backend, pairs or OPERATOR_PAIRS, against, fail_on or ())
    else:
        document = _bench(
            presets, mode, prompt_tokens, vocab_size, depths_of(depth), pairs or PAIRS, against, fail_on or ()
        )
    if output is None:
        print_document(document, chosen)
    else:
        write_document(document, chosen, output)
    _leave(document.payload["conditions"])


# ---------------------------------------------------------------------- the two benches


def _bench(
    presets: dict[str, Preset],
    mode: str,
    prompt_tokens: int | None,
    vocab_size: int | None,
    depths: Sequence[int],
    pairs: int,
    against: Path | None,
    fail_on: Sequence[str],
) -> Document:
    from attnres_cli.bench.metrics import METRICS
    from attnres_cli.bench.payload import bench_payload, deepened, depth_payload, mode_facts
    from attnres_cli.cli.bench_display import bench_progress
    from attnres_cli.data.prepare import vocabulary_size_of
    from attnres_cli.report.tables.bench import bench_document
    from attnres_cli.report.tables.bench_depth import depth_document

    first = next(iter(presets.values()))
    vocab_size = vocab_size or vocabulary_size_of(first.data, first.source_folder)
    facts = mode_facts(presets, vocab_size, mode, prompt_tokens)
    for blocks in depths:
        deepened(presets, blocks)  # a scheme that does not fit is found before anything is timed
    arms = [f"{name}@{blocks}" for blocks in depths for name in presets] or list(presets)
    judge = _Judge("bench-depth" if depths else "bench", arms, METRICS, against, fail_on)
    with bench_progress() as progress:
        if depths:
            payload = depth_payload(presets, depths, vocab_size, facts, pairs=pairs, progress=progress)
        else:
            payload = bench_payload(presets, vocab_size, facts, pairs=pairs, progress=progress)
    judged = {**payload, **judge.of(payload)}
    return depth_document(judged) if depths else bench_document(judged)


def _operator(
    presets: dict[str, Preset], backend: str | None, pairs: int, against: Path | None, fail_on: Sequence[str]
) -> Document:
    from attnres_cli.bench.backends import usable_backends
    from attnres_cli.bench.operator import METRICS, arm_names, operator_payload
    from attnres_cli.cli.bench_display import bench_progress
    from attnres_cli.report.tables.bench_operator import operator_document

    backends = usable_backends(presets, backend)
    judge = _Judge("bench-operator", arm_names(presets, backends), METRICS, against, fail_on)
    with bench_progress() as progress:
        payload = operator_payload(presets, backends, pairs=pairs, progress=progress)
    return operator_document({**payload, **judge.of(payload)})


class _Judge:
    """The earlier result and the conditions, read and checked before anything is measured."""

    def __init__(
        self,
        kind: str,
        arms: Sequence[str],
        metrics: Mapping[str, str],
        against: Path | None,
        fail_on: Sequence[str],
    ) -> None:
        from attnres_cli.analysis.conditions import parse_condition
        from attnres_cli.bench.against import check_names, read_bench

        self.file = against
        self.conditions: list[Condition] = [parse_condition(text) for text in fail_on]
        self.other = None if against is None else read_bench(against, kind)
        check_names(self.conditions, arms, list(metrics), self.other)

    def of(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The payload's "against" and "conditions"."""
        from attnres_cli.bench.against import changes, differences

        compared = None
        if self.other is not None:
            compared = {
                "file": str(self.file),
                "changes": changes(payload, self.other),
                "differences": differences(payload, self.other),
            }
        return {"against": compared, "conditions": [self._judged(each, payload) for each in self.conditions]}

    def _judged(self, condition: Condition, payload: Mapping[str, Any]) -> dict[str, Any]:
        """holds: None for a condition over a figure that turned out not to be measured; the result is shown anyway."""
        from attnres_cli.bench.against import lookup

        try:
            outcome = condition.judge(lookup(payload, self.other))
        except UserError as error:
            return {"text": condition.text, "holds": None, "said": f"{condition.text}: {error.faults[0].what}"}
        return {"text": condition.text, "holds": outcome.holds, "said": str(outcome)}


def _leave(conditions: Sequence[Mapping[str, Any]]) -> None:
    """End with an error where a condition could not be judged, and with THRESHOLD where one holds."""
    unknown = [each["said"] for each in conditions if each["holds"] is None]
    if unknown:
        raise UserError([Fault(said, where="--fail-on") for said in unknown], exit_code=ExitCode.USAGE)
    if any(each["holds"] for each in conditions):
        raise typer.Exit(ExitCode.THRESHOLD)


def _quiet_profiler() -> None:
    """The memory profiler would warn about memory that is older than the profile; torch asks when it loads."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
