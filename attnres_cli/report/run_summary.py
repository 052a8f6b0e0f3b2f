"""The document of `attnres runs show`: one run on one screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attnres_cli.report.arms import Arm, read_arm
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
    arm = read_arm(run, "")
    rows = tuple({"fact": name, "value": text} for name, text in _facts(run, arm) if text)
    facts = Table("run", run.name, (Column("fact", ""), Column("value", "")), rows)
    blocks = (facts, *((_evaluations(arm),) if arm.evaluations else ()))
    payload: dict[str, Any] = {
        "name": run.name,
        "path": str(run.path),
        "state": arm.state,
        "manifest": arm.manifest,
        "evaluations": arm.evaluations,
        "checkpoints": [str(path) for path in run.checkpoints()],
        "problems": arm.problems,
    }
    return Document("run", blocks, payload)


def _facts(run: RunDirectory, arm: Arm) -> Iterator[tuple[str, str | None]]:
    """(name, text) of every line; a line that cannot be filled has no text."""
    manifest, data, model = arm.manifest, _part(arm, "data"), _part(arm, "model")
    yield "status", arm.where_it_stands() + (f" ({arm.steps} steps)" if arm.is_finished and arm.steps else "")
    for problem in arm.problems:
        yield "problem", problem
    yield "scheme", _joined(arm.scheme, model.get("summary"))
    yield "preset", _joined(manifest.get("preset_name"), _labelled("seed", manifest.get("seed")))
    size, passes = _counted(data.get("train_tokens"), "training tokens"), _counted(data.get("epochs"), "epochs")
    yield "data", _joined(data.get("corpus"), data.get("tokenizer"), size, passes)
    every, inner = (_counted(model.get(key), words) for key, words in PARAMETERS)
    depth = _counted(model.get("transformer_blocks"), "transformer blocks")
    yield "model", _joined(every, inner, depth, _labelled("width", model.get("d_model")))
    yield "loss", _last_loss(arm)
    losses = [number(row, "loss") for row in arm.evaluations]
    if len(losses) > 2:
        yield "curve", f"{sparkline(losses, 40)} validation loss"
    yield "time", _time(arm)
    yield "observed", _observed(arm)
    yield "checkpoints", ", ".join(path.name for path in run.checkpoints())
    yield "created", manifest.get("created")
    yield "command", manifest.get("command")
    yield "resume", arm.state.get("resume") if not arm.is_finished else None
    yield "path", str(run.path)


def _last_loss(arm: Arm) -> str | None:
    last = arm.last_evaluation
    loss, perplexity, bits = (number(last, key) for key in ("loss", "perplexity", "bits_per_byte"))
    if last is None or loss is None:
        return None
    more = [f"perplexity {perplexity:.4g}"] if perplexity is not None else []
    more += [f"{bits:.4f} bits per byte"] if bits is not None else []
    return f"{loss:.4f} nats on validation at step {last['step']}" + (f" ({', '.join(more)})" if more else "")


def _time(arm: Arm) -> str | None:
    last = arm.train_rows[-1] if arm.train_rows else None
    tokens, seconds = number(last, "tokens"), number(last, "train_seconds")
    if not tokens or not seconds:
        return None
    environment = _part(arm, "environment")
    threads = environment.get("threads")
    machine = _joined(environment.get("device", "?"), _counted(threads, "thread" if threads == 1 else "threads"))
    return f"{duration(seconds)} in training steps, {tokens / seconds:,.0f} tokens/s on {machine}"


def _observed(arm: Arm) -> str | None:
    return ", ".join(f"{name} (step {row['step']})" for name, row in arm.observations.items()) or None


def _evaluations(arm: Arm) -> Table:
    shown = arm.evaluations[-MOST_EVALUATIONS:]
    hidden = len(arm.evaluations) - len(shown)
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
            {key: arm.cell(number(row, key)) for key in ("step", "tokens", "loss", "perplexity", "bits_per_byte")}
            for row in shown
        ),
        remarks=(f"{hidden} earlier ones are in metrics.jsonl and in --json",) if hidden else (),
    )


def _part(arm: Arm, name: str) -> dict[str, Any]:
    part = arm.manifest.get(name)
    return part if isinstance(part, dict) else {}


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part not in (None, ""))


def _labelled(label: str, value: object) -> str | None:
    return None if value is None else f"{label} {value}"


def _counted(value: object, what: str) -> str | None:
    return f"{short_count(value)} {what}" if isinstance(value, (int, float)) and not isinstance(value, bool) else None
