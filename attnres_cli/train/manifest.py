"""The manifest of a run: everything that decides whether its numbers may be compared with another run's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from attnres_cli.model.counting import (
    forward_flops_per_token,
    non_embedding_parameters,
    parameters_by_part,
    training_flops_per_token,
)
from attnres_cli.model.initialisation import common_weights_hash
from attnres_cli.runs.environment import environment_facts, git_facts
from attnres_cli.train.device import device_name
from attnres_cli.train.session import Session


def manifest_of(session: Session, *, command: str, created: str) -> dict[str, Any]:
    """The manifest's content (docs/run-directory.md), taken before the first step: `common_weights_hash` is of the
    initial weights. created: ISO 8601, UTC."""
    preset, model, dataset = session.preset, session.model, session.dataset
    tokens = preset.steps * preset.train.tokens_per_step
    flops = training_flops_per_token(model, preset.model.context_tokens)
    parts = parameters_by_part(model)
    return {
        "created": created,
        "command": command,
        "preset_name": preset.name,
        "preset_digest": preset.digest(),
        "scheme": preset.residual.scheme,
        "seed": preset.train.seed,
        "steps": preset.steps,
        "tokens": tokens,
        "accumulation_steps": preset.accumulation_steps,
        "data": {
            "corpus": preset.data.corpus,
            "tokenizer": dataset.tokenizer_name,
            "vocab_size": dataset.vocab_size,
            "data_hash": dataset.data_hash,
            "validation_hash": dataset.validation_hash,
            "validation_set_hash": session.validation.digest,
            "documents": dataset.num_documents,
            "train_tokens": dataset.train.num_tokens,
            "train_bytes": dataset.train.num_bytes,
            "validation_tokens": dataset.validation.num_tokens,
            "validation_bytes": dataset.validation.num_bytes,
            "evaluated_tokens": session.validation.num_tokens,
            "replaced_bytes": dataset.replaced_bytes,
            "epochs": session.batches.epoch_of(preset.steps),
        },
        "model": {
            "parameters": sum(parts.values()),
            "non_embedding_parameters": non_embedding_parameters(model),
            "parameters_by_part": parts,
            "transformer_blocks": preset.model.transformer_blocks,
            "d_model": preset.model.d_model,
            "summary": model.residual.summary(),
            "common_weights_hash": common_weights_hash(model, preset.train.seed),
        },
        "flops": {
            "forward_per_token_by_part": forward_flops_per_token(model, preset.model.context_tokens),
            "training_per_token": flops,
            "total": flops * tokens,
        },
        "environment": environment_facts(
            device=str(session.device),
            device_name=device_name(session.device),
            threads=torch.get_num_threads(),
            compile=session.loss_function != model.loss,
            precision=preset.train.precision,
            residual_path=session.computed_by,
            deterministic=session.device.type == "cpu",
            cpu_capability=torch.backends.cpu.get_cpu_capability(),
            cores=os.cpu_count(),
        ),
        "git": git_facts(Path.cwd()),
    }
