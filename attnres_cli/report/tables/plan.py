"""What `attnres plan` prints, from the plain values of its JSON payload; arms stand side by side as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnres_cli.report.document import Block, Notice
from attnres_cli.report.numbers import byte_unit, duration, format_for
from attnres_cli.report.table import Cell, Column, Row, Table

# Above this share of the smallest mean square, epsilon bends what it is added to by a visible amount.
WEIGHTY_EPSILON = 1e-3
# What the pass itself holds at the peak; which of it there is, depends on the moment.
PASS_PARTS = ("gradients", "activations", "logits")

Plan = Mapping[str, Any]
Arm = Mapping[str, Any]


def blocks(plan: Plan) -> tuple[Block, ...]:
    """Everything, in reading order. Tables and notices whose question was not asked are left out."""
    arms: Sequence[Arm] = plan["arms"]
    wanted: list[Block | None] = [
        _model(plan),
        parameters(arms),
        flops(arms),
        memory(plan, arms),
        _schedule(plan),
        _time(plan, arms),
        _epsilon(arms),
        accesses(plan["memory_accesses"], plan["model"]["d_model"]),
        pipeline(arms),
        prefill(arms),
    ]
    return tuple(block for block in wanted if block is not None)


def parameters(arms: Sequence[Arm]) -> Table:
    parts = [(part, [arm["parameters_by_part"][part] for arm in arms]) for part in arms[0]["parameters_by_part"]]
    rows = [*parts, ("total", [arm["parameters"] for arm in arms])]
    rows.append(("without embedding and head", [arm["non_embedding_parameters"] for arm in arms]))
    return _side_by_side("parameters", "Parameters", arms, rows, kind="count")


def flops(arms: Sequence[Arm]) -> Table:
    by_part = "forward_flops_per_token_by_part"
    rows = [(part, [arm[by_part][part] for arm in arms]) for part in arms[0][by_part]]
    rows.append(("forward", [arm["forward_flops_per_token"] for arm in arms]))
    rows.append(("training (3 × forward)", [arm["training_flops_per_token"] for arm in arms]))
    remarks = [f"{arm['scheme']}: {arm['training_flops']:.3g} FLOPs for the whole training" for arm in arms]
    for arm in arms[1:]:
        ratio = arm["training_flops_per_token"] / arms[0]["training_flops_per_token"]
        remarks.append(f"{arm['scheme']}: {ratio:.4f} × {arms[0]['scheme']}")
    return _side_by_side(
        "flops",
        "FLOPs per token",
        arms,
        rows,
        kind="number",
        unit="M",
        scale=1e-6,
        caption="a multiply-add is two; causal attention over half the context; residual: mixing",
        remarks=remarks,
    )


def memory(plan: Plan, arms: Sequence[Arm]) -> Table:
    parts = [arm["memory_bytes_by_part"] for arm in arms]
    rows = [(name, [part[name] for part in parts]) for name in parts[0] if name not in PASS_PARTS]
    # One row: at another moment the same bytes are another kind, so that rows of kinds could not be compared.
    rows.append(("pass, at its peak", [sum(part[name] for name in PASS_PARTS) for part in parts]))
    rows.append(("total", [arm["memory_bytes"] for arm in arms]))
    sequences, context = plan["schedule"]["micro_batch_sequences"], plan["model"]["context_tokens"]
    return _side_by_side(
        "memory",
        "Peak memory of a training step, estimated",
        arms,
        rows,
        kind="bytes",
        caption=f"one micro-batch of {sequences} × {context:,} tokens, eager, {plan['schedule']['precision']}",
        remarks=[f"{arm['scheme']}: the pass peaks {_moment(part)}" for arm, part in zip(arms, parts, strict=True)],
    )


def _moment(parts: Mapping[str, float]) -> str:
    """When a pass holds most, and what it then holds."""
    held = [f"{name} {_megabytes(parts[name])}" for name in ("activations", "logits", "gradients") if parts[name]]
    if not parts["activations"] and not parts["logits"]:
        return f"in the optimiser's step ({', '.join(held)})"
    when = "at the loss" if parts["logits"] else "in the backward pass, when the logits are gone"
    return f"{when} ({', '.join(held)})"


def _megabytes(count: float) -> str:
    unit, size = byte_unit([count])
    return f"{count / size:.1f} {unit}"


def accesses(table: Mapping[str, Any], d_model: int) -> Table:
    sublayers, count = table["sublayers"], table["blocks"]
    size = f"{sublayers / count:g}"
    whose = ""
    if not table["blocks_are_the_arms"]:
        usual = table["usual_blocks"]
        why = "the paper's" if count == usual else f"the paper's {usual} are more than there are sublayers"
        whose = f" ({why}; no scheme here has blocks of its own)"
    return Table(
        key="memory_accesses",
        title="Memory accesses of the residual path, per token and sublayer",
        columns=(
            Column("scheme", "scheme"),
            Column("total_shape", "total"),
            Column("read_per_channel", "read", "× d", "number", decimals=2),
            Column("write_per_channel", "write", "× d", "number", decimals=2),
            Column("total_per_channel", "total", "× d", "number", decimals=2),
            Column("total_elements", "total", "elements", "count"),
        ),
        rows=tuple(
            {**row, "scheme": Cell(row["scheme"], note=_COUNTED if row["source"] == "counted" else None)}
            for row in table["rows"]
        ),
        caption=f"Table 1 of the paper at L = {sublayers}, N = {count}{whose}, S = {size}, d = {d_model}",
    )


def pipeline(arms: Sequence[Arm]) -> Table | None:
    if arms[0]["pipeline"] is None:
        return None
    first = arms[0]["pipeline"]
    stages, virtual = first["physical_stages"], first["virtual_stages"]
    return Table(
        key="pipeline",
        title="Pipeline communication per token, one forward pass",
        columns=(
            Column("scheme", "scheme"),
            Column("representations", "kept", "", "count"),
            Column("equation_naive_bytes_per_token", "Eq. 7, naive", kind="bytes"),
            Column("equation_cached_bytes_per_token", "Eq. 8, cached", kind="bytes"),
            Column("naive_bytes_per_token", "naive", kind="bytes"),
            Column("cached_bytes_per_token", "cached", kind="bytes"),
        ),
        rows=tuple(
            {"scheme": arm["scheme"], "representations": arm["kept_representations"], **arm["pipeline"]} for arm in arms
        ),
        caption=(
            f"finished representations of {first['bytes_per_element']} bytes an element, P = {stages} × V = {virtual}; "
            f"the stream of a plain residual is {first['plain_bytes_per_token']:,} bytes"
        ),
        remarks=(
            "Eq. 7 and 8 spread N blocks evenly over P·V chunks and leave the embedding out; the last two columns walk "
            "the real block boundaries",
            *(f"{arm['scheme']}: {_walk(arm['pipeline'])}" for arm in arms),
        ),
    )


def prefill(arms: Sequence[Arm]) -> Table | None:
    if arms[0]["prefill"] is None:
        return None
    first = arms[0]["prefill"]
    devices = f"{first['tensor_parallel']} devices" if first["tensor_parallel"] > 1 else "one device"
    return Table(
        key="prefill",
        title=f"Memory of the sources of a prompt of {first['tokens']:,} tokens",
        columns=(
            Column("scheme", "scheme"),
            Column("representations", "kept", "", "count"),
            Column("total_bytes", "whole", kind="bytes"),
            Column("bytes_per_device", "per device", kind="bytes"),
            Column("chunked_bytes_per_device", "in chunks", kind="bytes"),
        ),
        rows=tuple({"scheme": arm["scheme"], **arm["prefill"]} for arm in arms),
        caption=(
            f"{first['bytes_per_element']} bytes an element; the sequence over {devices}; "
            f"chunks of {first['chunk_tokens']:,} tokens"
        ),
    )


_COUNTED = "this project's count; the paper gives the order of growth only"


def _walk(values: Mapping[str, Any]) -> str:
    steps = values["transitions"]
    if not any(step["naive"] for step in steps):
        return "nothing but the stream"
    naive, cached = (" ".join(str(step[kind]) for step in steps) for kind in ("naive", "cached"))
    return f"representations per transition: naive {naive}; cached {cached}"


def _model(plan: Plan) -> Notice:
    m = plan["model"]
    heads = f"{m['num_heads']} heads of {m['head_dim']}"
    if m["num_kv_heads"] != m["num_heads"]:
        heads += f", {m['num_kv_heads']} for keys and values"
    lines = [
        f"{m['transformer_blocks']} transformer blocks ({m['sublayers']} sublayers), d_model {m['d_model']:,}, "
        f"{heads}, d_ff {m['d_ff']:,}",
        f"context {m['context_tokens']:,} tokens, vocabulary {m['vocab_size']:,} ({plan['data']['tokenizer']}), "
        f"{'tied' if m['tie_embeddings'] else 'untied'} head",
        *(f"{arm['scheme']}: {arm['summary']}" for arm in plan["arms"] if arm["summary"]),
    ]
    return Notice(f"Plan of {plan['preset']}", tuple(lines))


def _schedule(plan: Plan) -> Notice:
    s, data = plan["schedule"], plan["data"]
    pieces = s["accumulation_steps"]
    micro = "one forward pass" if pieces == 1 else f"{pieces} forward passes of {s['micro_batch_sequences']}"
    decay = {"cosine": "cosine decay over", "wsd": "linear decay over the last"}[s["schedule"]]
    if data["epochs"] is not None and data["is_estimate"]:
        tokens = _two_digits(data["train_tokens"])
        epochs = (
            f"about {_two_digits(data['epochs'])} epochs of the corpus {data['corpus']} (about {tokens} training "
            "tokens, by the size of the corpus, which is not prepared)"
        )
    elif data["epochs"] is not None:
        epochs = (
            f"{data['epochs']:.2f} epochs of the corpus {data['corpus']} ({data['train_tokens']:,} training tokens)"
        )
    else:
        epochs = f"epochs over the corpus {data['corpus']}: {data['epochs_unknown']}"
    return Notice(
        "Training",
        (
            f"{s['steps']:,} steps of {s['tokens_per_step']:,} tokens, {s['tokens']:,} in all",
            f"a step: {s['sequences_per_step']:,} sequences in {micro}",
            f"{s['optimizer']}, learning rate {s['learning_rate']:g}: {s['warmup_steps']:,} steps of warm-up, {decay} "
            f"{s['decay_steps']:,}",
            epochs,
        ),
    )


def _two_digits(number: float) -> str:
    """A guess in two significant digits: 0.18, 1.6, 2,400,000."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _time(plan: Plan, arms: Sequence[Arm]) -> Notice | None:
    if arms[0]["time"] is None:
        return None
    lines = []
    for arm in arms:
        time = arm["time"]
        if time["step_seconds"] is None:
            lines.append(f"{arm['scheme']}: n/a. {time['reason']}")
            continue
        about = "at least" if time["is_lower_bound"] else "about"
        lines.append(
            f"{arm['scheme']}: {about} {duration(time['run_seconds'])}, {plan['schedule']['steps']:,} steps of "
            f"{duration(time['step_seconds'])}, {time['reason']}"
        )
    return Notice(f"Time on {arms[0]['time']['device']}, without validation", tuple(lines))


def _epsilon(arms: Sequence[Arm]) -> Notice:
    lines, weighty = [], False
    for arm in arms:
        smallest = arm["smallest_mean_square"]
        if smallest is None:
            lines.append(
                f"{arm['scheme']}: epsilon {arm['norm_epsilon']:g}; too large a model to look at its norms here"
            )
            continue
        share = arm["norm_epsilon"] / smallest if smallest else float("inf")
        weighty |= share > WEIGHTY_EPSILON
        lines.append(
            f"{arm['scheme']}: epsilon {arm['norm_epsilon']:g} is {share:.1e} of the smallest mean square that a norm "
            f"meets, {smallest:.1e}"
        )
    if weighty:
        lines.append("So large an epsilon weighs on the schemes unequally: a comparison would compare epsilons.")
    return Notice("Norms at initialisation", tuple(lines), "warning" if weighty else "plain")


def _side_by_side(
    key: str,
    title: str,
    arms: Sequence[Arm],
    rows: Sequence[tuple[str, Sequence[float]]],
    *,
    kind: Any,
    unit: str = "",
    scale: float = 1.0,
    caption: str = "",
    remarks: Sequence[str] = (),
) -> Table:
    """One row per quantity, one column per arm; an arm's name is its column's key."""
    numbers = [value * scale for _, values in rows for value in values]
    decimals = {"bytes": 1, "count": None}.get(kind, format_for([max(numbers)], digits=4).decimals)
    columns = [Column(arm["scheme"], arm["scheme"], unit, kind, decimals, scale=scale) for arm in arms]
    named: list[Row] = [
        {"part": name.replace("_", " "), **{column.key: value for column, value in zip(columns, values, strict=True)}}
        for name, values in rows
    ]
    return Table(key, title, (Column("part", ""), *columns), tuple(named), caption, tuple(remarks))
