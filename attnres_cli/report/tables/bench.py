"""What `attnres bench` prints, from the plain values of its JSON payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnres_cli.report.document import Block, Document, Notice
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.report.tables.plan import accesses

Payload = Mapping[str, Any]
Arm = Mapping[str, Any]
CLOCKS = {"cpu": "process CPU time", "wall": "wall time"}


def bench_document(payload: Payload) -> Document:
    """The answer, the table of the arms, what compiling cost, the paper's costs, and the earlier result."""
    blocks: list[Block | None] = [
        Notice(_title(payload), tuple(headline(payload)), "result"),
        arms_table(payload),
        compile_table(payload),
        accesses(payload["memory_accesses"], payload["model"]["d_model"]),
        *judgement(payload),
    ]
    return Document("bench", tuple(block for block in blocks if block is not None), payload)


def headline(payload: Payload) -> list[str]:
    """The answer in a sentence for each arm but the baseline."""
    base, *others = payload["arms"]
    unit, how = payload["load"]["unit"], how_text(payload)
    if not others:
        milliseconds = base["metrics"]["step_seconds"] * 1000
        return [f"{base['name']}: {milliseconds:.4g} ms a {unit} ({how}); a second --residual is compared with it"]
    lines = []
    for arm in others:
        memory = arm["metrics"]["peak_ratio"]
        lines.append(
            f"{arm['name']}: {unit} {ratio_text(arm['ratio'])} of {base['name']} ({how})"
            + (f"; memory ×{memory:.3f}" if memory is not None else "")
        )
    return lines


def how_text(payload: Payload) -> str:
    """process CPU time, 1 thread, 15 rounds"""
    threads, rounds = payload["setting"]["threads"], len(payload["arms"][0]["wall_seconds"])
    where = f"{threads} thread{'s' * (threads > 1)}" if payload["setting"]["device"] == "cpu" else "CUDA"
    return f"{CLOCKS[payload['clock']]}, {where}, {rounds} rounds"


def ratio_text(ratio: Mapping[str, float]) -> str:
    """×1.042 [1.020, 1.061]"""
    return f"×{ratio['median']:.3f} {interval_text(ratio)}"


def interval_text(ratio: Mapping[str, float]) -> str:
    return f"[{ratio['low']:.3f}, {ratio['high']:.3f}]"


def arms_table(payload: Payload) -> Table:
    arms: Sequence[Arm] = payload["arms"]
    columns = [
        Column("arm", "arm"),
        Column("step_seconds", "time", "ms", "number", scale=1000, digits=4),
        Column("step_ratio", "ratio", "×", "number", decimals=3),
        Column("interval", "interval"),
        Column("tokens_per_second", "tokens/s", "", "count"),
        Column("peak_bytes", "memory", kind="bytes", digits=4),
        Column("peak_ratio", "ratio", "×", "number", decimals=3),
    ]
    if payload["clock"] == "cpu":  # where the wall's clock is not the one to judge by, it stands beside
        columns.insert(4, Column("wall_ratio", "wall", "×", "number", decimals=3))
    if any(arm["metrics"]["flops_utilisation"] is not None for arm in arms):
        columns.append(Column("flops_utilisation", "MFU", "%", "number", decimals=1, scale=100))
    return Table(
        key="arms",
        title=f"{payload['load']['unit'].capitalize()} of each arm",
        columns=tuple(columns),
        rows=tuple(arm_row(arm, is_baseline=arm is arms[0]) for arm in arms),
        caption=setting_text(payload),
        remarks=(
            *_interval_remarks(payload),
            *backend_remarks(arms),
            *_utilisation_remarks(payload),
            *quality_remarks(payload),
        ),
    )


def arm_row(arm: Arm, *, is_baseline: bool) -> dict[str, Any]:
    """The arm's figures; ratios of the baseline are not numbers but the word "base"."""
    row: dict[str, Any] = {"arm": arm["name"], **arm["metrics"], "interval": interval_text(arm["ratio"])}
    if is_baseline:
        row["interval"] = None
        for key in ("step_ratio", "cpu_ratio", "wall_ratio", "peak_ratio"):
            row[key] = Cell(row[key], text="base")
    return row


def setting_text(payload: Payload) -> str:
    """How, on what, and with how many threads."""
    setting, load = payload["setting"], payload["load"]
    what = (
        f"after a prompt of {load['prompt_tokens']:,} tokens, batch 1"
        if payload["mode"] == "decode"
        else f"a prompt of {load['prompt_tokens']:,} tokens, batch 1"
        if "prompt_tokens" in load
        else f"{load['tokens']:,} tokens in micro-batches of {load['micro_batch_sequences']} sequences"
    )
    return f"{what}; {payload['precision']}; {CLOCKS[payload['clock']]}; {machine_text(setting)}"


def machine_text(setting: Mapping[str, Any]) -> str:
    if setting["device"] != "cpu":
        return str(setting["device"])
    return f"{setting['threads']} of {setting['cores']} threads; OMP_WAIT_POLICY {setting['omp_wait_policy']}"


def _interval_remarks(payload: Payload) -> list[str]:
    rounds = len(payload["arms"][0]["wall_seconds"])
    calls = payload["calls"]
    turns = f"{rounds} rounds of all arms in turn" + (f", {calls} calls to a sample" if calls > 1 else "")
    if len(payload["arms"]) < 2:
        return [turns]
    coverage = payload["arms"][1]["ratio"]["coverage"]
    return [f"{turns}; ratio: median over rounds of time over {payload['arms'][0]['name']}'s; {coverage:.0%} interval"]


def backend_remarks(arms: Sequence[Arm]) -> list[str]:
    """Who computes the residual path of which arms, and why; arms alike in one line."""
    by_choice: dict[tuple[str, str], list[str]] = {}
    for arm in arms:
        if arm["facts"].get("backend") is not None:
            choice = (arm["facts"]["backend"], arm["facts"]["backend_reason"])
            by_choice.setdefault(choice, []).append(arm["name"])
    return [
        f"back end {name} ({reason})" + ("" if len(names) == len(arms) else f": {', '.join(names)}")
        for (name, reason), names in by_choice.items()
    ]


def _utilisation_remarks(payload: Payload) -> list[str]:
    base = payload["arms"][0]
    rate, share = base["metrics"]["flops_per_second"], base["metrics"]["flops_utilisation"]
    if rate is None:
        return []
    if share is None:
        return [f"{base['name']}: {rate / 1e9:,.4g} GFLOP/s; utilisation n/a, the device's peak is not known"]
    return [f"{base['name']}: {rate / 1e12:,.4g} TFLOP/s; MFU: model FLOPs over the data sheet's dense peak"]


def quality_remarks(payload: Payload) -> list[str]:
    """How quiet the machine was, and what makes the figures less trustworthy."""
    other = payload["setting"].get("other_cores")
    load = payload["setting"].get("load_average_before")
    told = [f"{other:.1f} cores" if other is not None else "", f"load average {load:.1f} before" if load else ""]
    quiet = ", ".join(text for text in told if text)
    lines = [f"other work on the machine: {quiet}"] if quiet else []
    return lines + [f"warning: {text}" for text in payload["warnings"]] + [str(text) for text in payload["notes"]]


def compile_table(payload: Payload) -> Table | None:
    """What torch.compile cost, or None where it was off."""
    arms = [arm for arm in payload["arms"] if arm["facts"].get("compiled")]
    if not arms:
        return None
    return Table(
        key="compile",
        title="torch.compile, off the clock",
        columns=(
            Column("arm", "arm"),
            Column("first_call_seconds", "first call", "s", "number", decimals=1),
            Column("compile_seconds", "compiling", "s", "number", decimals=1),
            Column("graphs", "graphs", kind="count"),
            Column("graph_breaks", "breaks", kind="count"),
            Column("recompiles", "recompiled later", kind="count"),
        ),
        rows=tuple({"arm": arm["name"], **arm["metrics"]} for arm in arms),
        caption="compiling: the first call less a later one; a compiler's cache on disk makes it shorter",
    )


def judgement(payload: Payload) -> list[Block]:
    """The earlier result beside this one, and the conditions; empty where neither was asked for."""
    blocks: list[Block] = []
    if payload.get("against") is not None:
        blocks.append(against_table(payload["against"]))
    conditions = payload.get("conditions") or ()
    if conditions:
        held = sum(each["holds"] is True for each in conditions)
        fine = all(each["holds"] is False for each in conditions)
        said = tuple(each["said"] for each in conditions)
        title = f"--fail-on: {held} of {len(conditions)} conditions hold"
        blocks.append(Notice(title, said, "result" if fine else "warning"))
    return blocks


def against_table(against: Mapping[str, Any]) -> Table:
    rows: list[Row] = []
    for change in against["changes"]:
        then = change["then"]
        rows.append(
            {
                "arm": change["arm"],
                "now": change["now"]["median"],
                "now_interval": interval_text(change["now"]),
                "then": None if then is None else then["median"],
                "then_interval": None if then is None else interval_text(then),
                "change": change["change"]
                if change["apart"] or then is None
                else Cell(change["change"], note="the intervals overlap: no change is shown"),
            }
        )
    return Table(
        key="against",
        title=f"Ratios now and in {against['file']}",
        columns=(
            Column("arm", "arm"),
            Column("now", "now", "×", "number", decimals=3),
            Column("now_interval", "interval"),
            Column("then", "then", "×", "number", decimals=3),
            Column("then_interval", "interval"),
            Column("change", "change", "", "number", decimals=3, signed=True),
        ),
        rows=tuple(rows),
        remarks=tuple(f"not the same: {text}" for text in against["differences"]),
    )


def _title(payload: Payload) -> str:
    model = payload["model"]
    shape = f"{model['transformer_blocks']} blocks, width {model['d_model']}, vocabulary {model['vocab_size']:,}"
    return f"Bench of {payload['preset']} ({shape})"
