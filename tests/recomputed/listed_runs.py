"""Oracles of the tables that list runs: `attnres runs ls`, `attnres runs show`, `attnres watch`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.raw import Run, is_number

SHOWN_EVALUATIONS = 10
BARS = "▁▂▃▄▅▆▇█"
SUFFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def listed(runs: Sequence[Run]) -> Rows:
    """The newest last. Done: finished steps of all."""
    rows = []
    for run in sorted(runs, key=lambda each: datetime.fromisoformat(each.manifest["created"])):
        last = run.last_evaluation
        rows.append(
            {
                "status": run.state["status"],
                "progress": run.state["step"] / run.state["steps"],
                "loss_nats": None if last is None else last["loss"],
                "created": datetime.fromisoformat(run.manifest["created"]).astimezone().isoformat(timespec="seconds"),
                "scheme": run.scheme,
                "preset": run.manifest["preset_name"],
                "seed": run.seed,
                "name": run.name,
            }
        )
    return rows


# ------------------------------------------------------------------ one run


def evaluations(run: Run) -> Rows:
    keys = ("step", "tokens", "loss", "perplexity", "bits_per_byte")
    return [{key: row.get(key) for key in keys} for row in run.evaluations[-SHOWN_EVALUATIONS:]]


def facts(run: Run) -> Rows:
    """Sentences with numbers in them, word by word."""
    manifest, data, model, state = run.manifest, run.manifest["data"], run.manifest["model"], run.state
    where = f"{state['status']} at step {state['step']} of {state['steps']}"
    sizes = f"{short(data['train_tokens'])} training tokens, {short(data['epochs'])} epochs"
    counts = [f"{short(model['parameters'])} parameters"]
    counts.append(f"{short(model['non_embedding_parameters'])} without embeddings")
    found: dict[str, Any] = {
        "status": f"finished ({state['steps']} steps)" if state["status"] == "finished" else where,
        "scheme": run.scheme,
        "preset": f"{manifest['preset_name']}, seed {run.seed}",
        "data": f"{data['corpus']}, {data['tokenizer']}, {sizes}",
        "model": ", ".join([*counts, f"{model['transformer_blocks']} transformer blocks", f"width {model['d_model']}"]),
    }
    last, row = run.last_evaluation, run.train_rows[-1]
    if last is not None:
        found["loss"] = (
            f"{last['loss']:.4f} nats on validation at step {last['step']} "
            f"(perplexity {last['perplexity']:.4g}, {last['bits_per_byte']:.4f} bits per byte)"
        )
    found["curve"] = f"{bars([row['loss'] for row in run.evaluations], 40)} validation loss"
    environment = manifest["environment"]
    found |= {
        "time": f"{span(row['train_seconds'])} in training steps, {row['tokens'] / row['train_seconds']:,.0f} tokens/s "
        f"on {environment['device']}, {environment['threads']} threads",
        "observed": ", ".join(f"{observer} (step {step})" for observer, step in _observed(run).items()),
        "created": manifest["created"],
        "command": manifest["command"],
        "path": f"{run.path.parent.name}/{run.name}",
    }
    return [{"fact": fact, "value": value} for fact, value in found.items()]


def _observed(run: Run) -> dict[str, int]:
    """Observer → the last step at which it looked."""
    return {row["observer"]: row["step"] for row in run.observations}


def short(count: float) -> str:
    """Three significant digits and a suffix."""
    for suffix, size in SUFFIXES:
        if count >= size:
            return f"{count / size:.3g}{suffix}"
    return f"{count:.3g}"


def span(seconds: float) -> str:
    """Two digits below ten seconds, whole seconds below a minute, minutes and seconds below an hour."""
    assert 0.1 <= seconds < 3599, f"the material trains for {seconds} s"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s" if seconds >= 0.995 else f"{seconds:.2f}".rstrip("0") + "s"
    minutes, rest = round(seconds) // 60, round(seconds) % 60
    return f"{rest}s" if minutes == 0 else f"{minutes}m" if rest == 0 else f"{minutes}m {rest:02d}s"


def bars(losses: Sequence[float | None], width: int) -> str:
    """A curve as bars: at most so many shares of equal length, the lowest mean the lowest bar."""
    count = min(width, len(losses))
    means = []
    for place in range(count):
        share = losses[place * len(losses) // count : (place + 1) * len(losses) // count]
        known = [loss for loss in share if is_number(loss)]
        means.append(sum(known) / len(known) if known else None)  # type: ignore[arg-type]
    heights = [each for each in means if each is not None]
    low, high = min(heights), max(heights)
    return "".join(" " if each is None else BARS[min(7, int(8 * (each - low) / (high - low)))] for each in means)


# ------------------------------------------------------------------ watched


def watched(runs: Sequence[Run]) -> Rows:
    """The newest rows. A run that trains also has a speed, and what is left at the newest row's time of a step."""
    rows = []
    for run in runs:
        newest = run.train_rows[-1]
        trains = run.state["status"] == "running"
        steps = [run.state["step"], newest["step"], run.evaluations[-1]["step"]]
        last = run.evaluations[-1]["loss"]
        rows.append(
            {
                "name": run.name,
                "scheme": run.scheme,
                "seed": run.seed,
                "status": run.state["status"],
                "step": max(steps),
                "loss_nats": newest["loss"],
                "validation_loss_nats": last,
                "learning_rate": newest["learning_rate"],
                "tokens_per_second": newest["tokens_per_second"] if trains else None,
                "eta_seconds": (run.state["steps"] - max(steps)) * newest["step_seconds"] if trains else None,
                "curve": bars([row["loss"] for row in run.train_rows], 24),
            }
        )
    return rows


def watched_differences(runs: Sequence[Run]) -> Rows:
    """What JSON has beside the table: every run against the plain one of its seed, at the most tokens at which both
    were evaluated."""
    rows = []
    for run in runs:
        base = next((each for each in runs if each.scheme == "prenorm" and each.seed == run.seed), None)
        if run.scheme == "prenorm" or base is None:
            continue
        ours, theirs = ({row["tokens"]: row["loss"] for row in each.evaluated} for each in (run, base))
        tokens = max(ours.keys() & theirs.keys())
        ended = tokens == run.manifest["tokens"] and {run.state["status"], base.state["status"]} == {"finished"}
        rows.append(
            {
                "run": run.name,
                "baseline": base.name,
                "tokens": tokens,
                "difference_nats": ours[tokens] - theirs[tokens],
                "share_of_the_schedule": tokens / run.manifest["tokens"],
                "at_the_end": ended,
            }
        )
    return rows


LISTED: dict[str, Oracle] = {"runs": listed}
SHOWN: dict[str, Oracle] = {"run": facts, "evaluations": evaluations}
WATCHED: dict[str, Oracle] = {"watched": watched}
ORACLES: dict[str, Oracle] = {**LISTED, **SHOWN, **WATCHED}
BUILT_IN = {
    "runs": "report/tables/runs.py",
    "run": "report/run_summary.py",
    "evaluations": "report/run_summary.py",
    "watched": "report/watching.py",
}
