"""`attnres plan PRESET`: what a training will hold, cost and take, before it is started."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnres_cli.cli.options import JsonOption, OverlayOption, PresetArgument, SetOption, complete_residual
from attnres_cli.errors import ExitCode, Fault, UserError

if TYPE_CHECKING:
    from attnres_cli.preset.reading import Preset

app = typer.Typer()


@app.command()
def plan(
    preset: PresetArgument,
    residual: Annotated[
        list[str] | None,
        typer.Option(
            "--residual",
            metavar="SCHEME",
            help="Plan with this residual scheme instead of the preset's; repeatable, side by side.",
            autocompletion=complete_residual,
        ),
    ] = None,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline", metavar="P,V", help="Communication of P pipeline stages with V virtual stages each (Eq. 7-8)."
        ),
    ] = None,
    prefill_tokens: Annotated[
        int | None,
        typer.Option("--prefill-tokens", min=1, metavar="N", help="Memory of the sources of a prompt of N tokens."),
    ] = None,
    tensor_parallel: Annotated[
        int, typer.Option("--tensor-parallel", min=1, metavar="K", help="Devices that share the prompt's tokens.")
    ] = 1,
    prefill_chunk_tokens: Annotated[
        int, typer.Option("--prefill-chunk-tokens", min=1, metavar="N", help="Tokens per chunk of a chunked prefill.")
    ] = 16_384,
    no_calibrate: Annotated[
        bool, typer.Option("--no-calibrate", help="Do not run anything to guess the time: instant.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Parameters, FLOPs, memory, steps, epochs and time of a preset; the paper's costs of its residual scheme.

    Nothing is trained and no weight is stored: the model is built without memory. Two seconds of calibration (real
    training steps where the model is small) guess the time; --no-calibrate leaves them out.
    """
    from attnres_cli.analysis.plan import Questions
    from attnres_cli.cli.output import print_document
    from attnres_cli.data.inputs import missing_vocabulary
    from attnres_cli.preset.reading import load_preset
    from attnres_cli.report.document import Document
    from attnres_cli.report.tables.plan import blocks

    if tensor_parallel > 1 and prefill_tokens is None:
        raise _usage("--tensor-parallel shares out a prompt.", where="--tensor-parallel", hint="add --prefill-tokens N")
    questions = Questions(_stages(pipeline), prefill_tokens, tensor_parallel, prefill_chunk_tokens)
    schemes: list[str | None] = [*dict.fromkeys(residual or ())] or [None]
    arms = [
        load_preset(preset, overlays=overlays or (), residual=scheme, sets=sets or (), inputs=missing_vocabulary)
        for scheme in schemes
    ]
    for note in dict.fromkeys(note for arm in arms for note in arm.notes):
        typer.echo(f"note: {note}", err=True)
    options = [word for name in overlays or () for word in ("--overlay", name)]
    options += [word for assignment in sets or () for word in ("--set", assignment)]
    prepare_command = shlex.join(["attnres", "data", "prepare", preset, *options])
    payload = _payload(arms, questions, prepare_command, calibrating=not no_calibrate)
    print_document(Document("plan", blocks(payload), payload), "json" if json else "table")


def _payload(arms: list[Preset], questions: Any, prepare_command: str, *, calibrating: bool) -> dict[str, Any]:
    from attnres_cli.analysis.plan import memory_accesses, plan_arm, schedule_facts
    from attnres_cli.data.prepare import vocabulary_size_of

    first = arms[0]
    vocab_size = vocabulary_size_of(first.data, first.source_folder)
    planned = [plan_arm(arm, vocab_size, questions) for arm in arms]
    times = _times(arms, vocab_size, planned) if calibrating else [None] * len(arms)
    for values, time in zip(planned, times, strict=True):
        values["time"] = time
    model = first.model
    kept = next((values["kept_representations"] for values in planned if values["kept_representations"]), 0)
    blocks = next((values["num_blocks"] for values in planned if values["num_blocks"]), None)
    return {
        "preset": first.name,
        "model": {
            "transformer_blocks": model.transformer_blocks,
            "sublayers": model.num_sublayers,
            "d_model": model.d_model,
            "num_heads": model.num_heads,
            "num_kv_heads": model.resolved_num_kv_heads,
            "head_dim": model.resolved_head_dim,
            "d_ff": model.resolved_d_ff,
            "context_tokens": model.context_tokens,
            "vocab_size": vocab_size,
            "tie_embeddings": model.tie_embeddings,
        },
        "data": _data_facts(first, prepare_command),
        "schedule": schedule_facts(first),
        "memory_accesses": memory_accesses(first, kept, blocks),
        "arms": planned,
    }


def _times(arms: list[Preset], vocab_size: int, planned: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from attnres_cli.bench.calibrate import Load, calibrate

    loads = [
        Load(arm, values["parameters"], values["training_flops_per_token"], values["memory_bytes"])
        for arm, values in zip(arms, planned, strict=True)
    ]
    return [
        {
            "method": measured.method,
            "device": measured.device,
            "step_seconds": measured.step_seconds,
            "run_seconds": None if measured.step_seconds is None else measured.step_seconds * arm.steps,
            "is_lower_bound": measured.is_lower_bound,
            "reason": measured.reason,
        }
        for arm, measured in zip(arms, calibrate(loads, vocab_size), strict=True)
    ]


def _data_facts(preset: Preset, prepare_command: str) -> dict[str, Any]:
    """Epochs over the corpus: exact where it is prepared, else by its size on disk, else why they are not known."""
    from attnres_cli.data.batches import num_windows, windows_in
    from attnres_cli.data.estimate import estimated_train_tokens
    from attnres_cli.data.prepare import find_prepared

    context_tokens = preset.model.context_tokens
    facts = {"corpus": preset.data.corpus, "tokenizer": preset.data.tokenizer}
    unknown = {"train_tokens": None, "epochs": None, "is_estimate": None}
    try:
        dataset = find_prepared(preset)
        if dataset is not None:
            tokens, windows = dataset.train.num_tokens, num_windows(dataset.train, context_tokens)
        else:
            tokens = estimated_train_tokens(preset.data, preset.source_folder) or 0
            windows = windows_in(tokens, context_tokens)
    except UserError as error:
        return {**facts, **unknown, "epochs_unknown": "; ".join(map(_sentence, error.faults))}
    if windows < 1:  # it can't say, or says too little to divide by
        return {**facts, **unknown, "epochs_unknown": f"known after `{prepare_command}`"}
    return {
        **facts,
        "train_tokens": tokens,
        "epochs": preset.steps * preset.sequences_per_step / windows,
        "is_estimate": dataset is None,
        "epochs_unknown": None,
    }


def _sentence(fault: Fault) -> str:
    return fault.what if fault.where is None else f"{fault.what.rstrip('.')} ({fault.where})"


def _stages(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+)\s*,\s*(\d+)\s*", text)
    if match is None or "0" in (match[1].lstrip("0") or "0", match[2].lstrip("0") or "0"):
        raise _usage(
            f"'{text}' does not name pipeline stages.",
            where="--pipeline",
            expected="P,V: physical stages and virtual stages of each, such as 4,2",
        )
    return int(match[1]), int(match[2])


def _usage(what: str, **details: str | None) -> UserError:
    return UserError(what, exit_code=ExitCode.USAGE, **details)
