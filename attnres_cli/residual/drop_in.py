"""A residual scheme for somebody else's model: one constructor, and the places of that model's sublayers.

The model keeps its norms and its sublayers; it goes through depth by the five steps of `protocol.py` (open; read and
write per sublayer; close). They are plain PyTorch: nothing has to be built for them, and no fused pass is involved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from pydantic import ValidationError
from torch import Tensor

from attnres_cli.errors import Fault, UserError
from attnres_cli.preset.checks import NotYetValid, Sections, unknown_members
from attnres_cli.preset.explain import complaint_fault, section_faults, unknown_member
from attnres_cli.preset.layers import Layer, Origin, put_together
from attnres_cli.preset.schema import ModelConfig, ResidualConfig
from attnres_cli.preset.variants import PROGRAM, section_model
from attnres_cli.residual.protocol import Geometry, Norm, Residual, Site
from attnres_cli.residual.registry import build_residual, scheme_names

DEFAULT_EPSILON: float = ModelConfig.model_fields["norm_epsilon"].default


def make_residual(
    scheme: str,
    *,
    d_model: int,
    num_sublayers: int,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    norm_epsilon: float = DEFAULT_EPSILON,
    seed: int = 0,
    **keys: Any,
) -> Residual:
    """The scheme of this name, initialised, as a module of float32 parameters on the CPU.

    d_model: channels of the stream. num_sublayers: attention and feed-forward counted apart, so twice the number of
    transformer blocks. num_heads, num_kv_heads, head_dim: of attention; needed for schemes that act on its q, k and v.
    norm_epsilon: of the scheme's own norms, in units of the mean square. seed: of first values that are drawn. keys:
    what a preset may say in [residual] (docs/residuals.md).
    Raises UserError for a name, key, value or size that does not do, with the nearest valid one.
    """
    geometry = _geometry(d_model, num_sublayers, num_heads, num_kv_heads, head_dim, norm_epsilon)
    residual = build_residual(_config({"scheme": scheme, **keys}, geometry), geometry)
    if num_heads is None and acts_on_projections(residual):
        raise UserError(f"The scheme '{scheme}' acts on the q, k and v of attention: say num_heads (and num_kv_heads).")
    initialise(residual, seed)
    return residual


@torch.no_grad()
def initialise(residual: Residual, seed: int = 0) -> None:
    """Set every parameter of the scheme to its first value, in place: for a module that was moved by `to_empty`.

    Each is drawn from (seed, its name), by the rule of the program's own models, and so has the values of theirs.
    """
    for name, parameter in residual.named_parameters():
        key = hashlib.sha256(f"{seed}:residual.{name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(key[:8], "little") >> 1)
        residual.initialise(name, parameter, generator)


def sites(norms: Iterable[Callable[[Tensor], Tensor]]) -> tuple[Site, ...]:
    """The places of a model's sublayers, from their own norms in order of depth: attention, feed-forward, attention, …

    A norm is anything that maps [B, T, d] to [B, T, d]: step by step, schemes only call it. It stays registered where
    it is.
    """
    return tuple(
        Site(ordinal, ordinal // 2, "feed_forward" if ordinal % 2 else "attention", cast(Norm, norm))
        for ordinal, norm in enumerate(norms)
    )


def acts_on_projections(residual: Residual) -> bool:
    """Whether attention has to hand its q, k and v to `residual.project`."""
    return type(residual).project is not Residual.project


def _geometry(
    d_model: int,
    num_sublayers: int,
    num_heads: int | None,
    num_kv_heads: int | None,
    head_dim: int | None,
    norm_epsilon: float,
) -> Geometry:
    heads = num_heads or 1
    counts = {"d_model": d_model, "num_sublayers": num_sublayers, "num_heads": heads, "num_kv_heads": num_kv_heads or 1}
    for name, count in counts.items():
        if count < 1:
            raise UserError(f"{name} = {count} is not positive.")
    if num_sublayers % 2:
        raise UserError(
            f"num_sublayers = {num_sublayers} is odd; attention and feed-forward count apart: "
            "twice the number of transformer blocks."
        )
    if head_dim is None and d_model % heads:
        raise UserError(f"d_model = {d_model} is no multiple of num_heads = {heads}; give head_dim.")
    return Geometry(d_model, num_sublayers, norm_epsilon, heads, num_kv_heads or heads, head_dim or d_model // heads)


# ---- the keys, judged by the rules of a preset's [residual] section


def _config(values: dict[str, Any], geometry: Geometry) -> ResidualConfig:
    model = section_model("residual", values, PROGRAM)
    if model is None:
        raise _error([unknown_member("residual scheme", values["scheme"], scheme_names(), None)])
    faults: list[Fault] = []
    origins = {name: Origin("make_residual") for name in ("residual", *(f"residual.{key}" for key in values))}
    put_together([Layer({"residual": values}, origins, Path())], PROGRAM, faults)
    faults += unknown_members("residual", model, values, _nowhere, PROGRAM)
    try:  # through JSON, because there pydantic's strict mode takes arrays for tuples
        config = model.model_validate_json(json.dumps(values, default=repr), strict=True)
    except ValidationError as error:
        raise _error(faults + section_faults("residual", model, error, values, _nowhere, PROGRAM)) from None
    faults += _depth_faults(cast(ResidualConfig, config), geometry)
    if faults:
        raise _error(faults)
    return cast(ResidualConfig, config)


def _depth_faults(config: ResidualConfig, geometry: Geometry) -> Iterator[Fault]:
    trunk = ModelConfig(
        transformer_blocks=geometry.transformer_blocks,
        d_model=geometry.d_model,
        num_heads=geometry.num_heads,
        num_kv_heads=geometry.num_kv_heads,
        head_dim=geometry.head_dim,
        norm_epsilon=geometry.norm_epsilon,
        context_tokens=1,
    )
    try:
        for complaint in config.check(Sections({"model": trunk, "residual": config})):
            yield complaint_fault("residual", complaint, _nowhere)
    except NotYetValid:  # it asks how the model is trained, which nobody says here
        return


def _nowhere(*keys: str) -> None:
    """Keys of a call have no line in a file."""


def _error(faults: list[Fault]) -> UserError:
    """One error whose message says everything: a traceback shows nothing else."""
    return UserError([Fault(_sentence(fault)) for fault in faults])


def _sentence(fault: Fault) -> str:
    expected = f" Expected: {fault.expected}." if fault.expected else ""
    nearest = f" Did you mean '{fault.nearest}'?" if fault.nearest else ""
    return fault.what + expected + nearest
