"""What `attnres verify` looks at: schemes on a trunk small enough for seconds, in float64.

Without a preset: the schemes of `residual/arms.toml`, each cut into blocks in several ways where it has blocks. With
one: its own [residual] section on a trunk cut down from its [model].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnres_cli.errors import UserError
from attnres_cli.model.build import build_model
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset, preset_from_dict
from attnres_cli.residual.arms import default_arms
from attnres_cli.residual.protocol import Residual, Site, State, SublayerInput

VOCAB_SIZE = 31
# Ten sublayers: no block size but 1, 2, 5 and 10 divides them, so remainders show; more than eight sources look ahead.
TRUNK: dict[str, Any] = {
    "transformer_blocks": 5,
    "d_model": 32,
    "num_heads": 4,
    "d_ff": 48,
    "context_tokens": 64,
}
# Cuts of ten sublayers with an edge of their own: the default (seven of one, one of three), one block, one left over.
SPLITS: tuple[dict[str, int], ...] = ({}, {"num_blocks": 1}, {"block_sublayers": 3})
# A preset's trunk is cut to the first of these in which its [residual] section is valid, else left as it is.
DEPTHS = (5, 8, 16, 32)
WIDTHS = (32, 64, 128, 256)


class Unmoved:
    """A watcher that does nothing: before its eyes, no scheme runs in fused form."""

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None: ...

    def close(self, state: State, output: Tensor) -> None: ...


@dataclass(frozen=True)
class Subject:
    """One [residual] section on a small trunk."""

    name: str
    preset: Preset

    @property
    def residual(self) -> Residual:
        """The scheme without values, for questions about it."""
        return build_model(self.preset, VOCAB_SIZE, device="meta", native=False).residual

    def model(self, *, stir: float = 0.0, **changes: Any) -> LanguageModel:
        """The initialised model in float64. stir: normal noise of this size on the scheme's own parameters, and a
        tenth of it on the norms' gains, so that no two sites are alike. changes: section__key=value."""
        preset = self.preset
        if changes:
            preset = preset.replace({key.replace("__", ".", 1): value for key, value in changes.items()})
        model = build_model(preset, VOCAB_SIZE, dtype=torch.float64)
        if stir:
            generator = torch.Generator().manual_seed(7)
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    own = name.startswith("residual.")
                    if own or name.endswith("norm.gain"):
                        noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                        parameter.add_(noise, alpha=stir if own else 0.1 * stir)
                    elif parameter.dim() == 2 and not name.startswith("embedding"):
                        parameter.mul_(5.0)  # a sublayer's output is then about as large as the embedding
        return model

    def with_scheme(self, scheme: str) -> Subject:
        """The same trunk with another scheme and its defaults."""
        return Subject(scheme, self.preset.replace({"residual.scheme": scheme}))


def random_tokens(sequences: int, length: int, seed: int = 3) -> tuple[Tensor, Tensor]:
    """Token ids and targets, [sequences, length] each."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, VOCAB_SIZE, (2, sequences, length), generator=generator)
    return drawn[0], drawn[1]


def default_subjects() -> tuple[Subject, ...]:
    return tuple(_default_subjects())


def _default_subjects() -> Iterator[Subject]:
    for scheme in default_arms("verify"):
        whole = Subject(scheme, _small({"scheme": scheme}, TRUNK))
        has_blocks = whole.residual.num_blocks() is not None
        for split in SPLITS if has_blocks else SPLITS[:1]:
            said = "".join(f", {key} = {value}" for key, value in split.items())
            yield Subject(scheme + said, _small({"scheme": scheme, **split}, TRUNK))


def subject_of(preset: Preset) -> Subject:
    """The preset's own [residual] section on a trunk cut down from its [model] (`DEPTHS`, `WIDTHS`).

    Kept are the kinds of sublayers, tied embeddings, and whether heads share keys; `backend` is left to choose itself,
    because back ends have a check of their own. Raises UserError where not even the preset's own trunk can be built.
    """
    residual = {key: value for key, value in preset.to_dict()["residual"].items() if key != "backend"}
    model = preset.model
    depths = [depth for depth in DEPTHS if depth < model.transformer_blocks] + [model.transformer_blocks]
    widths = [width for width in WIDTHS if width < model.d_model] + [model.d_model]
    refusal: UserError | None = None
    for depth in depths:
        for width in widths:
            trunk = _cut(preset, depth, width)
            try:
                subject = Subject(preset.residual.scheme, _small(residual, trunk))
                _ = subject.residual
            except UserError as error:
                refusal = error
            else:
                return subject
    assert refusal is not None
    raise refusal


def _cut(preset: Preset, depth: int, width: int) -> dict[str, Any]:
    model = preset.model
    whole = {"transformer_blocks": depth, "mixer": model.mixer, "feed_forward": model.feed_forward}
    whole |= {"tie_embeddings": model.tie_embeddings, "norm_epsilon": model.norm_epsilon, "context_tokens": 64}
    if width == model.d_model:
        heads = {"num_heads": model.num_heads, "num_kv_heads": model.num_kv_heads, "head_dim": model.head_dim}
        return {**whole, **heads, "d_model": width, "d_ff": model.d_ff}
    shares = model.resolved_num_kv_heads < model.num_heads
    return {**whole, "d_model": width, "num_heads": 4, "num_kv_heads": 2 if shares else None, "d_ff": 3 * width // 2}


def _small(residual: dict[str, Any], trunk: dict[str, Any]) -> Preset:
    return preset_from_dict(
        {
            "model": trunk,
            "residual": residual,
            "data": {"corpus": "synthetic", "task": "copy", "length": 7, "symbols": 28, "documents": 400},
            "train": {
                "horizon_tokens": 60 * 256, "tokens_per_step": 256, "micro_batch_sequences": 4, "learning_rate": 3e-3,
            },
            "eval": {"tokens": 64},
        },
        "verify",
    )  # fmt: skip
