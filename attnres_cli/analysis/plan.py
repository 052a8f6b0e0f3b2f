"""Everything that can be said about an arm before anything is trained; all of it on the meta device but the epsilon.

`plan_arm` gives plain numbers (the payload of `attnres plan --json`), so that tables need neither torch nor the model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import torch

from attnres_cli.analysis.access import AccessRow, access_table
from attnres_cli.analysis.carried import Carried, carried
from attnres_cli.analysis.epsilon import smallest_mean_square
from attnres_cli.analysis.memory import estimate_memory
from attnres_cli.analysis.pipeline import chunk_boundaries, communication, transitions
from attnres_cli.analysis.prefill import prefill_memory
from attnres_cli.errors import ExitCode, UserError
from attnres_cli.model.build import build_model
from attnres_cli.model.counting import (
    forward_flops_per_token,
    non_embedding_parameters,
    parameters_by_part,
    training_flops_per_token,
)
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset

# Initial weights of more parameters than this take longer to draw than a plan should.
LARGEST_REAL_PARAMETERS = 20_000_000
EPSILON_TOKENS = 64
# What the paper uses where a scheme has no blocks of its own.
USUAL_NUM_BLOCKS = 8
# The paper's tables count half-precision elements.
SENT_BYTES_PER_ELEMENT = 2


@dataclass(frozen=True)
class Questions:
    """What a plan is asked beyond the preset. pipeline: (P, V). prefill_tokens: length of the prompt."""

    pipeline: tuple[int, int] | None = None
    prefill_tokens: int | None = None
    tensor_parallel: int = 1
    prefill_chunk_tokens: int = 16_384


def plan_arm(preset: Preset, vocab_size: int, questions: Questions) -> dict[str, Any]:
    """Counts, FLOPs, memory, and what the scheme's sources cost elsewhere, as plain values.

    Raises UserError when the pipeline has more chunks than the trunk has transformer blocks.
    """
    model = build_model(preset, vocab_size, device="meta")
    context_tokens = preset.model.context_tokens
    forward = forward_flops_per_token(model, context_tokens)
    training = training_flops_per_token(model, context_tokens)
    parts = parameters_by_part(model)
    memory = estimate_memory(
        model,
        micro_batch_sequences=preset.train.micro_batch_sequences,
        context_tokens=context_tokens,
        accumulation_steps=preset.accumulation_steps,
        optimizer=preset.train.optimizer,
        autocast_dtype=torch.bfloat16 if preset.train.precision == "bf16" else None,
    )
    depth = carried(model)
    return {
        "scheme": preset.residual.scheme,
        "summary": model.residual.summary(),
        "parameters_by_part": parts,
        "parameters": sum(parts.values()),
        "non_embedding_parameters": non_embedding_parameters(model),
        "forward_flops_per_token_by_part": forward,
        "forward_flops_per_token": sum(forward.values()),
        "training_flops_per_token": training,
        "training_flops": training * preset.steps * preset.train.tokens_per_step,
        "memory_bytes_by_part": memory.parts(),
        "memory_bytes": memory.total_bytes,
        "kept_representations": depth.kept,
        "num_blocks": model.residual.num_blocks(),
        "norm_epsilon": preset.model.norm_epsilon,
        "smallest_mean_square": _smallest_mean_square(preset, vocab_size, sum(parts.values())),
        "pipeline": _pipeline(model, depth, questions.pipeline) if questions.pipeline else None,
        "prefill": _prefill(preset, depth, questions) if questions.prefill_tokens else None,
    }


def memory_accesses(preset: Preset, kept_representations: int, num_blocks: int | None = None) -> dict[str, Any]:
    """Table 1 for the preset's depth and width. N: the arm's blocks, or the paper's 8 where it has none of its own.

    num_blocks: what the scheme says of itself; without it as many as it keeps, unless it keeps every sublayer.
    """
    sublayers = preset.model.num_sublayers
    if num_blocks is None and 1 <= kept_representations < sublayers:
        num_blocks = kept_representations
    has_blocks = num_blocks is not None
    blocks = num_blocks or min(USUAL_NUM_BLOCKS, sublayers)
    return {
        "sublayers": sublayers,
        "blocks": blocks,
        "blocks_are_the_arms": has_blocks,
        "usual_blocks": USUAL_NUM_BLOCKS,
        "rows": [_access_row(row, preset.model.d_model) for row in access_table(sublayers, blocks)],
    }


def schedule_facts(preset: Preset) -> dict[str, Any]:
    """Steps and tokens, the same for every arm."""
    return {
        "horizon_tokens": preset.train.horizon_tokens,
        "tokens": preset.steps * preset.train.tokens_per_step,
        "tokens_per_step": preset.train.tokens_per_step,
        "steps": preset.steps,
        "sequences_per_step": preset.sequences_per_step,
        "micro_batch_sequences": preset.train.micro_batch_sequences,
        "accumulation_steps": preset.accumulation_steps,
        "schedule": preset.train.schedule,
        "warmup_steps": preset.warmup_steps,
        "decay_steps": preset.decay_steps,
        "optimizer": preset.train.optimizer,
        "learning_rate": preset.train.learning_rate,
        "precision": preset.train.precision,
    }


def _access_row(row: AccessRow, d_model: int) -> dict[str, Any]:
    return {
        "scheme": row.name,
        "source": row.source,
        "total_shape": row.total_shape,
        "read_per_channel": float(row.read.per_channel),
        "write_per_channel": float(row.write.per_channel),
        "total_per_channel": float(row.total.per_channel),
        "total_per_channel_exact": str(row.total.per_channel),
        "total_scalars": float(row.total.scalars),
        "total_elements": float(row.total.elements(d_model)),
        "operations": [
            {"name": operation.name, "read_shape": operation.read_shape, "write_shape": operation.write_shape}
            for operation in row.operations
        ],
    }


def _pipeline(model: LanguageModel, depth: Carried, pipeline: tuple[int, int]) -> dict[str, Any]:
    """Bytes per token of one forward pass: the paper's average, and a walk over this arm's real boundaries."""
    stages, virtual = pipeline
    blocks = model.config.transformer_blocks
    if stages * virtual > blocks:
        raise UserError(
            f"{stages} stages of {virtual} virtual stages are {stages * virtual} chunks, more than the model's "
            f"{blocks} transformer blocks.",
            where="--pipeline",
            expected=f"P·V up to {blocks}",
            exit_code=ExitCode.USAGE,
        )
    boundaries = chunk_boundaries(blocks, stages * virtual)
    walk = transitions(stages, [depth.finished[sublayers] for sublayers in boundaries])
    average = communication(stages, virtual, Fraction(depth.kept, stages * virtual))
    size = model.config.d_model * SENT_BYTES_PER_ELEMENT
    return {
        "physical_stages": stages,
        "virtual_stages": virtual,
        "bytes_per_element": SENT_BYTES_PER_ELEMENT,
        "boundaries_sublayers": list(boundaries),
        "plain_bytes_per_token": len(boundaries) * size,
        "equation_naive_bytes_per_token": float(average.naive * size),
        "equation_cached_bytes_per_token": float(average.cached * size),
        "equation_naive_peak_bytes_per_token": float(average.naive_peak * size),
        "equation_cached_peak_bytes_per_token": float(average.cached_peak * size),
        "transitions": [asdict(step) for step in walk],
        "naive_bytes_per_token": sum(step.naive for step in walk) * size,
        "cached_bytes_per_token": sum(step.cached for step in walk) * size,
    }


def _prefill(preset: Preset, depth: Carried, questions: Questions) -> dict[str, Any]:
    assert questions.prefill_tokens is not None
    memory = prefill_memory(
        representations=depth.kept,
        tokens=questions.prefill_tokens,
        d_model=preset.model.d_model,
        bytes_per_element=SENT_BYTES_PER_ELEMENT,
        tensor_parallel=questions.tensor_parallel,
        chunk_tokens=questions.prefill_chunk_tokens,
    )
    chunked = memory.chunked_bytes_per_device
    return {
        "tokens": memory.tokens,
        "bytes_per_element": SENT_BYTES_PER_ELEMENT,
        "representations": memory.representations,
        "tensor_parallel": memory.tensor_parallel,
        "chunk_tokens": memory.chunk_tokens,
        "total_bytes": memory.total_bytes,
        "bytes_per_device": float(memory.bytes_per_device),
        "chunked_bytes_per_device": None if chunked is None else float(chunked),
    }


def _smallest_mean_square(preset: Preset, vocab_size: int, parameters: int) -> float | None:
    """At initialisation, on one short sequence of random tokens; None where the model is too large to build for it."""
    if parameters > LARGEST_REAL_PARAMETERS:
        return None
    model = build_model(preset, vocab_size, native=False)
    length = min(EPSILON_TOKENS, preset.model.context_tokens)
    tokens = torch.randint(vocab_size, (1, length), generator=torch.Generator().manual_seed(0))
    return smallest_mean_square(model, tokens)
