"""What the arms of a bench do again and again; each way is a file of bench/modes/."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from attnres_cli import discovery
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset

PACKAGE = "bench.modes"
Announce = Callable[[str], None]


@dataclass
class Work:
    """One arm in one mode.

    call: the unit of work, always the same. tokens, flops: of one call. kept: tells what stays in memory between calls
    beside the model's weights and tables. compiled: whether torch.compile is in it.
    """

    model: LanguageModel
    call: Callable[[], object]
    tokens: int
    flops: float
    kept: Callable[[], Sequence[Tensor]] = tuple
    compiled: bool = False

    def resident_bytes(self) -> int:
        tensors = [*self.model.parameters(), *self.model.buffers(), *self.kept()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class Mode(Protocol):
    """What a file of bench/modes/ offers. UNIT: what one call is, in a word or two."""

    UNIT: str
    # Whether a prompt plays a part, whose length then matters.
    HAS_PROMPT: bool

    def build(
        self, preset: Preset, vocab_size: int, device: torch.device, *, prompt_tokens: int, announce: Announce
    ) -> Work:
        """announce: told in one sentence when torch.compile is wanted and does not work."""


def mode_names() -> tuple[str, ...]:
    return discovery.names(PACKAGE)


def load_mode(name: str) -> Mode:
    """Raises UserError naming the nearest mode when there is none of that name."""
    return cast(Mode, cast(Any, discovery.load(PACKAGE, name, what="mode", where="--mode")))
