"""Which back end of the depth-attention operator computes, and why."""

from __future__ import annotations

from functools import cache
from typing import Annotated, NamedTuple, cast

import torch
from pydantic import Field

from attnres_cli import discovery
from attnres_cli.errors import UserError
from attnres_cli.preset.schema import MemberOf, ResidualConfig
from attnres_cli.residual.operator import DepthAttentionOp

PACKAGE = "residual.ops"
# Tried in this order on each kind of device; the last one runs everywhere.
AUTOMATIC = {"cpu": ("cpu", "torch"), "meta": ("cpu", "torch"), "cuda": ("triton", "torch")}


class BackendConfig(ResidualConfig):
    """The key of every scheme that computes through the operator."""

    backend: Annotated[str, MemberOf(PACKAGE, "depth-attention back end", also=("auto",))] = Field(
        "auto", description="who computes the residual path: auto, or a file of residual/ops/"
    )


class Choice(NamedTuple):
    """A back end and the reason for it, one clause."""

    op: DepthAttentionOp
    reason: str


def backend_names() -> tuple[str, ...]:
    return discovery.names(PACKAGE)


def load_backend(name: str) -> DepthAttentionOp:
    """The back end called `name`, whether it can work here or not. Raises UserError for an unknown name."""
    return cast(
        DepthAttentionOp, discovery.load(PACKAGE, name, what="depth-attention back end", where="residual.backend")
    )


class Backend:
    """The back end of one scheme: chosen once, when the device is known, and then plain attributes."""

    op: DepthAttentionOp

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.op = load_backend("torch" if wanted == "auto" else wanted)

    def __getstate__(self) -> dict[str, str]:
        """By name: a module of functions can be neither copied nor pickled."""
        return {"wanted": self.wanted, "op": self.op.NAME}

    def __setstate__(self, state: dict[str, str]) -> None:
        self.wanted, self.op = state["wanted"], load_backend(state["op"])

    def prepare(self, device: torch.device) -> str:
        choice = choose_backend(self.wanted, device.type)
        self.op = choice.op
        return f"residual path by back end {choice.op.NAME} ({choice.reason})"


@cache
def choose_backend(wanted: str, device_type: str) -> Choice:
    """The back end for `residual.backend = wanted` on this kind of device.

    "auto" takes the first of `AUTOMATIC` that works here. Raises UserError where a back end that was asked for by name
    is unknown or cannot work.
    """
    device = torch.device(device_type)
    if wanted != "auto":
        op = load_backend(wanted)
        reason = op.unusable(device)
        if reason is not None:
            raise UserError(
                f"The depth-attention back end '{wanted}' does not work here: {reason}.",
                where="residual.backend",
                hint='leave it at "auto"',
            )
        return Choice(op, "asked for")
    refused: list[str] = []
    for name in AUTOMATIC.get(device_type, ("torch",)):
        op = load_backend(name)
        reason = op.unusable(device)
        if reason is None:
            return Choice(op, "; ".join(refused) or f"first choice on {device_type}")
        refused.append(f"not {name}: {reason}")
    raise AssertionError(f"no back end works on {device_type}")
