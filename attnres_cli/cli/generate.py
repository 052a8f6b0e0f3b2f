"""`attnres generate RUN --prompt "…"`: text from a trained run, as it is produced."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.options import DEFAULT_RUNS_DIR, JsonOption, RunArgument, RunsRootOption
from attnres_cli.errors import ExitCode, UserError

if TYPE_CHECKING:
    from attnres_cli.generate.continuation import Continuations
    from attnres_cli.generate.loading import Trained
    from attnres_cli.generate.sampling import SamplingConfig

app = typer.Typer(add_completion=False)

PromptOption = Annotated[
    str | None,
    typer.Option("--prompt", metavar="TEXT", help="The text to continue; without one, a document from its beginning."),
]
PromptFileOption = Annotated[
    Path | None,
    typer.Option("--prompt-file", metavar="FILE", help="Read the prompt from this file, - for stdin."),
]
TokensOption = Annotated[int, typer.Option("--tokens", min=1, help="Most tokens to add; the end of a text ends it.")]
TemperatureOption = Annotated[
    float, typer.Option("--temperature", min=0, help="Below 1 more likely text, 0 always the most probable token.")
]
TopKOption = Annotated[
    int | None, typer.Option("--top-k", min=1, metavar="K", help="Draw from the K most probable tokens only.")
]
TopPOption = Annotated[
    float | None,
    typer.Option("--top-p", metavar="P", help="Draw from the fewest tokens that have the probability P together."),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Names the random numbers: equal seeds, equal text.")]
SamplesOption = Annotated[int, typer.Option("--samples", min=1, help="How many continuations.")]
DeviceOption = Annotated[str, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:N.")]
CheckpointOption = Annotated[
    int | None, typer.Option("--checkpoint", metavar="STEP", help="Weights of this step instead of the last.")
]


@app.command()
def generate(
    run: RunArgument,
    prompt: PromptOption = None,
    prompt_file: PromptFileOption = None,
    tokens: TokensOption = 200,
    temperature: TemperatureOption = 0.8,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = 0,
    samples: SamplesOption = 1,
    device: DeviceOption = "auto",
    checkpoint: CheckpointOption = None,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    as_json: JsonOption = False,
) -> None:
    """Continue a text with a trained run.

    The continuation, and nothing else, goes to stdout as it is produced; a line about speed goes to stderr.
    """
    from attnres_cli.generate.continuation import Continuations
    from attnres_cli.generate.loading import load_trained
    from attnres_cli.generate.sampling import SamplingConfig
    from attnres_cli.runs.lookup import find_run
    from attnres_cli.train.device import autocast, choose_device

    sampling = SamplingConfig(temperature, top_k, top_p, seed)
    text = _prompt_text(prompt, prompt_file)
    found, place = find_run(run, runs_dir), choose_device(device, where="--device")
    trained = load_trained(found, place, step=checkpoint)
    prompt_ids = _prompt_ids(text, trained, tokens)
    with autocast(trained.preset.train.precision, place):
        continuations = Continuations(trained.model, prompt_ids, tokens)
        if as_json:
            _print_json(text, continuations, trained, sampling, samples)
        else:
            _print_text(continuations, trained, sampling, samples)
    _summarise(continuations, f"{found.name}, step {trained.step}, {place}")


# ---- the prompt


def _prompt_text(prompt: str | None, file: Path | None) -> str:
    """The prompt as text, "" where none was given. One line end at the end of a file is not part of it."""
    if file is None:
        return _decoded((prompt or "").encode("utf-8", "surrogateescape"), "--prompt")
    if prompt is not None:
        raise UserError(
            "--prompt and --prompt-file exclude each other.", where="--prompt-file", exit_code=ExitCode.USAGE
        )
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UserError(f"The prompt can't be read: {error.strerror}.", where=str(file)) from error
    return _decoded(content, "stdin" if str(file) == "-" else str(file)).removesuffix("\n").removesuffix("\r")


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"The prompt is not UTF-8 at offset {error.start}.", where=where) from error


def _prompt_ids(text: str, trained: Trained, tokens: int) -> list[int]:
    """The tokens to begin with. Raises UserError when there are none, or more than the model can see."""
    ids = trained.spelling.encode(text)
    if not ids:
        between = trained.spelling.between_documents
        if between is None:
            raise UserError(
                "There is no prompt, and this run's corpus has no token that begins a document.",
                where="--prompt",
                expected="at least one token, spelt as `attnres data inspect` shows them",
            )
        ids = [between]
    context = trained.preset.model.context_tokens
    if len(ids) > context:
        raise UserError(
            f"The prompt has {len(ids):,} tokens, and the model sees {context:,} at once.",
            where="--prompt",
            expected=f"at most {context:,} tokens (model.context_tokens)",
        )
    if len(ids) + tokens > context:
        _say(f"note: the model sees {context:,} tokens at once; when they are full, it goes on from the newer half")
    return ids


# ---- the result


def _print_text(continuations: Continuations, trained: Trained, sampling: SamplingConfig, samples: int) -> None:
    for sample in range(samples):
        if samples > 1:
            sys.stdout.write(f"--- sample {sample + 1} of {samples} ---\n")
        last = ""
        try:
            for piece in _pieces(trained, _draw(continuations, trained, sampling, sample)):
                sys.stdout.write(_shown(piece))
                sys.stdout.flush()
                last = piece or last
        finally:  # also when it is interrupted: what follows begins a line
            if not last.endswith("\n"):
                sys.stdout.write("\n")


def _print_json(
    text: str, continuations: Continuations, trained: Trained, sampling: SamplingConfig, samples: int
) -> None:
    from dataclasses import asdict

    from attnres_cli.cli.console import print_json

    completions = []
    for sample in range(samples):
        before = continuations.decode_seconds
        ids = list(_draw(continuations, trained, sampling, sample))
        completions.append(
            {
                "text": "".join(_pieces(trained, ids)),
                "token_ids": ids,
                "ended_by": "tokens" if len(ids) == continuations.max_tokens else "end of text",
                "seconds": continuations.decode_seconds - before,
            }
        )
    settings = {"tokens": continuations.max_tokens, "samples": samples, **asdict(sampling)}
    print_json(
        "generate",
        {
            "run": trained.run.name,
            "step": trained.step,
            "device": str(trained.model.embedding.weight.device),
            "settings": settings,
            "prompt": {"text": text, "token_ids": continuations.prompt, "seconds": continuations.prompt_seconds},
            "completions": completions,
        },
    )


def _draw(continuations: Continuations, trained: Trained, sampling: SamplingConfig, sample: int) -> Iterator[int]:
    return continuations.draw(sampling, sample=sample, end=trained.spelling.between_documents)


def _pieces(trained: Trained, ids: Iterable[int]) -> Iterator[str]:
    write = trained.spelling.writer()
    yield from map(write, ids)
    yield write(None)


def _shown(text: str) -> str:
    """Into a pipe the text as it is; on a terminal control characters are spelt out: a model may write any."""
    from attnres_cli.cli.console import is_interactive
    from attnres_cli.report.visible import visible

    if text.isprintable() or not is_interactive(sys.stdout):
        return text
    return "".join(character if character in "\n\t" else visible(character) for character in text)


def _summarise(done: Continuations, what: str) -> None:
    prefill = _rate(len(done.prompt), done.prompt_seconds)
    _say(f"{what}: prefill {prefill}, decode {_rate(done.decode_tokens, done.decode_seconds)}")


def _rate(tokens: int, seconds: float) -> str:
    rate = f" ({tokens / seconds:,.0f} tokens/s)" if tokens and seconds else ""
    return f"{tokens:,} token{'s' if tokens != 1 else ''} in {seconds:.2f} s{rate}"


def _say(text: str) -> None:
    typer.echo(text, err=True)
