"""The document of `attnres runs show`: one run on one screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attnres_cli.errors import plural
from attnres_cli.report.compared_run import ComparedRun, read_run
from attnres_cli.report.document import Document
from attnres_cli.report.numbers import duration, short_count
from attnres_cli.report.sparkline import sparkline
from attnres_cli.report.table import Column, Table
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.metrics import number

MOST_EVALUATIONS = 10
PARAMETERS = (("parameters", "parameters"), ("non_embedding_parameters", "without embeddings"))


def summary_document(run: RunDirectory) -> Document:
    """Facts in lines, then the latest evaluations; JSON has the whole manifest, state and every evaluation."""
    seen = read_run(run, "")
    rows = tuple({"fact": name, "value": text} for name, text in _facts(run, seen) if text)
    facts = Table("run", run.name, (Column("fact", ""), Column("value", "")), rows)
    blocks = (facts, *((_evaluations(seen),) if seen.evaluations else ()))
    payload: dict[str, Any] = {
        "name": run.name,
        "path": str(run.path),
        "state": seen.state,
        "manifest": seen.manifest,
        "evaluations": seen.evaluations,
        "checkpoints": [str(path) for path in run.checkpoints()],
        "problems": seen.problems,
    }
    return Document("run", blocks, payload)


def _facts(run: RunDirectory, seen: ComparedRun) -> Iterator[tuple[str, str | None]]:
    """(name, text) of every line; a line that cannot be filled has no text."""
    manifest, data, model = seen.manifest, _part(seen, "data"), _part(seen, "model")
    yield (
        "status",
        seen.where_it_stands()
        + (f" ({seen.steps} {plural(seen.steps, 'step')})" if seen.is_finished and seen.steps else ""),
    )
    for problem in _problems(run, seen):
        yield "problem", problem
    yield "scheme", _joined(seen.scheme, model.get("summary"))
    named = manifest.get("preset_name", seen.state.get("preset_name"))
    yield "preset", _joined(named, _labelled("seed", manifest.get("seed", seen.seed)))
    size, passes = _counted(data.get("train_tokens"), "training tokens"), _counted(data.get("epochs"), "epochs")
    yield "data", _joined(data.get("corpus"), data.get("tokenizer"), size, passes)
    every, inner = (_counted(model.get(key), words) for key, words in PARAMETERS)
    depth = _counted(model.get("transformer_blocks"), "transformer blocks")
    yield "model", _joined(every, inner, depth, _labelled("width", model.get("d_model")))
    yield "loss", _last_loss(seen)
    losses = [number(row, "loss") for row in seen.evaluations]
    if len(losses) > 2:
        yield "curve", f"{sparkline(losses, 40)} validation loss"
    yield "time", _time(seen)
    yield "observed", _observed(seen)
    yield "checkpoints", ", ".join(path.name for path in run.checkpoints())
    yield "created", manifest.get("created")
    yield "command", manifest.get("command")
    yield "resume", seen.state.get("resume") if not seen.is_finished else None
    yield "path", str(run.path)


def _problems(run: RunDirectory, seen: ComparedRun) -> tuple[str, ...]:
    """What is wrong with it; of a run that has not taken a step that alone, since everything absent follows from it."""
    if not run.never_began:
        return seen.problems
    if seen.status == "running":
        return ("it is being prepared: there is no step and no manifest.json yet",)
    error = seen.state.get("error")
    stopped = "it was stopped before its first step" + (f": {error}" if isinstance(error, str) else "")
    if seen.resolved:
        return (stopped,)
    if run.resolved_toml.exists():
        return (stopped, *seen.problems)
    return (f"{stopped}, and nothing here says how it was to begin: remove it and start it again",)


def _last_loss(seen: ComparedRun) -> str | None:
    last = seen.last_evaluation
    loss, perplexity, bits = (number(last, key) for key in ("loss", "perplexity", "bits_per_byte"))
    if last is None or loss is None:
        return None
    more = [f"perplexity {perplexity:.4g}"] if perplexity is not None else []
    more += [f"{bits:.4f} bits per byte"] if bits is not None else []
    return f"{loss:.4f} nats on validation at step {last['step']}" + (f" ({', '.join(more)})" if more else "")


def _time(seen: ComparedRun) -> str | None:
    last = seen.train_rows[-1] if seen.train_rows else None
    tokens, seconds = number(last, "tokens"), number(last, "train_seconds")
    if not tokens or not seconds:
        return None
    environment = _part(seen, "environment")
    threads = environment.get("threads")
    machine = _joined(environment.get("device", "?"), _counted(threads, "thread" if threads == 1 else "threads"))
    return f"{duration(seconds)} in training steps, {tokens / seconds:,.0f} tokens/s on {machine}"


def _observed(seen: ComparedRun) -> str | None:
    return ", ".join(f"{name} (step {row['step']})" for name, row in seen.observations.items()) or None


def _evaluations(seen: ComparedRun) -> Table:
    shown = seen.evaluations[-MOST_EVALUATIONS:]
    hidden = len(seen.evaluations) - len(shown)
    return Table(
        key="evaluations",
        title="Evaluations",
        columns=(
            Column("step", "step", kind="count"),
            Column("tokens", "tokens", kind="count"),
            Column("loss", "loss", "nats", "number", decimals=4),
            Column("perplexity", "perplexity", "", "number", decimals=3),
            Column("bits_per_byte", "bits/byte", "", "number", decimals=4),
        ),
        rows=tuple(
            {key: seen.cell(number(row, key)) for key in ("step", "tokens", "loss", "perplexity", "bits_per_byte")}
            for row in shown
        ),
        remarks=(f"{hidden} earlier ones are in metrics.jsonl and in --json",) if hidden else (),
    )


def _part(seen: ComparedRun, name: str) -> dict[str, Any]:
    part = seen.manifest.get(name)
    return part if isinstance(part, dict) else {}


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part not in (None, ""))


def _labelled(label: str, value: object) -> str | None:
    return None if value is None else f"{label} {value}"


def _counted(value: object, what: str) -> str | None:
    return f"{short_count(value)} {what}" if isinstance(value, (int, float)) and not isinstance(value, bool) else None
