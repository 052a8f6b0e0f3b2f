"""What a preset may say: one pydantic model per section, every key with its type, unit and default.

Sections that a user can extend by adding a file ([residual], [data]) have only their common keys here; the scheme's or
corpus's own file subclasses the section (`ResidualConfig`, `DataConfig`) and adds its keys; `variants.py` finds them.
Lengths are in tokens, sizes in the unit their name ends with. What takes two keys to judge is in `preset/checks.py`.

What one key needs beyond its type is said by a marker in its annotation: `OnlyWith` (the key is read only while another
one has a certain value), `MemberOf` (its value names a file of a folder), `AnsweredBy` (a file of a folder knows its
value), `FilePath` (relative to the preset's file).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class OnlyWith:
    """The key does something only while key `key` of the same section is one of `values` (no values: is not empty).

    Where it does nothing, a user who sets it is told so.
    """

    key: str
    values: tuple[Any, ...] = ()

    def holds(self, value: Any) -> bool:
        """Whether the key is read while the controlling key has this value."""
        return value in self.values if self.values else bool(value)

    def __str__(self) -> str:
        if not self.values:
            return f"only with {self.key} not empty"
        wanted = (f'"{value}"' if isinstance(value, str) else str(value).lower() for value in self.values)
        return f"only with {self.key} = {' or '.join(wanted)}"


@dataclass(frozen=True)
class MemberOf:
    """The value (or each of a list's) names a file of the program's folder `package`; `what` is the kind in errors.

    also: names that are valid without a file, such as "auto".
    """

    package: str
    what: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class AnsweredBy:
    """The value is a name that some file of the program's folder `package` answers to: each has `names()`, those worth
    showing, and `accepts(name)`; `what` is the kind in errors.

    also: names that are valid without a file, such as "none". besides: what else would do, in words.
    """

    package: str
    what: str
    also: tuple[str, ...] = ()
    besides: str = ""


@dataclass(frozen=True)
class FilePath:
    """The value (or each of a list's) is a path or glob, relative to the file that says it.

    A resolved preset holds it whole. if_exists: it may be a name, too, and is a path where there is such a file.
    """

    if_exists: bool = False


class Complaint(NamedTuple):
    """What a check finds: the key it is about ("key" of the section, or "section.key"), a sentence, what would do, and
    the other keys that it comes from: a user may have said any of them, and is shown all the places."""

    key: str
    message: str
    expected: str | None = None
    also: tuple[str, ...] = ()


class Section(BaseModel):
    """A section of a preset: frozen, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    # Groups of keys of which at most one may be set. A preset on top that sets one of them replaces the other below it.
    exclusive_keys: ClassVar[tuple[tuple[str, ...], ...]] = ()
    # Common keys of the section that this scheme or corpus does not read: setting them is an error.
    ignored_keys: ClassVar[tuple[str, ...]] = ()

    def check(self, preset: Any) -> Iterable[Complaint]:
        """What is wrong with this section in view of the whole `preset`, before anything is built.

        `preset` has the sections as attributes (`preset.model`, …); a check that asks for one which is itself invalid
        ends there. Yield complaints rather than collecting them, so that those found before are kept.
        """
        return ()

    def notes(self, preset: Any) -> Iterable[str]:
        """Keys of this section that are right and yet change nothing in view of the whole `preset`, one sentence each,
        naming them as "section.key". Asked of valid presets alone."""
        return ()


class ModelConfig(Section):
    """[model]: the decoder-only trunk. Every scheme runs on the same trunk."""

    transformer_blocks: PositiveInt = Field(
        description="attention + feed-forward pairs (the paper's L_b); sublayers L = 2 L_b"
    )
    d_model: PositiveInt = Field(description="width of the residual stream, channels")
    num_heads: PositiveInt = Field(description="query heads")
    num_kv_heads: PositiveInt | None = Field(
        None, description="key/value heads (grouped-query attention); without it num_heads"
    )
    head_dim: PositiveInt | None = Field(None, description="channels per head, even; without it d_model / num_heads")
    d_ff: PositiveInt | None = Field(
        None, description="hidden channels of the feed-forward; without it 8/3 d_model rounded up to a multiple of 32"
    )
    context_tokens: PositiveInt = Field(description="tokens per training sequence")
    mixer: Annotated[str, MemberOf("model.mixers", "sequence mixer")] = Field(
        "attention", description="sequence mixer: a file of model/mixers/"
    )
    feed_forward: Annotated[str, MemberOf("model.feed_forward", "feed-forward")] = Field(
        "swiglu", description="feed-forward: a file of model/feed_forward/"
    )
    rope_theta: PositiveFloat = Field(10000.0, description="base of the rotary angles")
    norm_epsilon: NonNegativeFloat = Field(1e-12, description="epsilon of every RMSNorm, in units of the mean square")
    tie_embeddings: bool = Field(True, description="the head reuses the embedding matrix")
    init_std: PositiveFloat = Field(
        0.02, description="standard deviation of initial weights; of residual projections: over sqrt(2 L_b)"
    )

    @property
    def num_sublayers(self) -> int:
        """L: attention and feed-forward counted apart."""
        return 2 * self.transformer_blocks

    @property
    def resolved_num_kv_heads(self) -> int:
        """Key/value heads, given or derived."""
        return self.num_kv_heads or self.num_heads

    @property
    def resolved_head_dim(self) -> int:
        """Channels per head, given or derived."""
        return self.head_dim or self.d_model // self.num_heads

    @property
    def resolved_d_ff(self) -> int:
        """Hidden channels of the feed-forward, given or derived."""
        return self.d_ff or -(-8 * self.d_model // (3 * 32)) * 32


class ResidualConfig(Section):
    """[residual]: which residual scheme; the scheme's own file adds its keys."""

    scheme: str = Field(description="residual scheme: a file of residual/schemes/")


TOKENIZER = AnsweredBy("data.tokenizers", "tokenizer", besides="the path of a rank file (….tiktoken)")


class DataConfig(Section):
    """[data]: which corpus and tokenizer; the corpus's own file adds its keys."""

    corpus: str = Field(description="corpus: a file of data/corpora/")
    tokenizer: Annotated[str, FilePath(if_exists=True), TOKENIZER] = Field(
        "bytes", description="tokenizer: bytes, bpe-4096, the path of a rank file, or a tiktoken name"
    )
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.05, description="share of the text held out for validation: documents chosen by their content's hash"
    )
    undecodable: Literal["replace", "strict"] = Field(
        "replace", description="bytes that are not UTF-8: replace and count them, or refuse the file"
    )


class TrainConfig(Section):
    """[train]: how long, how fast, in which precision."""

    horizon_tokens: PositiveInt = Field(description="training length in tokens; steps are derived, rounded up")
    tokens_per_step: PositiveInt = Field(description="tokens per optimiser step, a multiple of context_tokens")
    micro_batch_sequences: PositiveInt = Field(
        description="sequences per forward pass; the rest of the step is accumulated"
    )
    optimizer: Literal["adamw", "muon"] = Field("adamw", description="muon: matrices by Muon, everything else by AdamW")
    learning_rate: PositiveFloat = Field(
        description="peak learning rate of AdamW (of the matrices, too, unless optimizer = muon)"
    )
    muon_learning_rate: Annotated[PositiveFloat | None, OnlyWith("optimizer", ("muon",))] = Field(
        None, description="peak learning rate of Muon's matrices (adjusted to AdamW's RMS); without it learning_rate"
    )
    weight_decay: NonNegativeFloat = Field(0.1, description="decoupled weight decay; matrices and embeddings only")
    beta1: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="AdamW's first moment decay")
    beta2: Annotated[float, Field(ge=0, lt=1)] = Field(0.95, description="AdamW's second moment decay")
    adam_epsilon: PositiveFloat = Field(1e-8, description="AdamW's denominator epsilon")
    grad_clip: NonNegativeFloat = Field(1.0, description="maximum global gradient norm; 0 switches clipping off")
    schedule: Literal["cosine", "wsd"] = Field(
        "cosine", description="after the warm-up: cosine, or constant with a linear decay at the end (wsd)"
    )
    warmup_fraction: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.05, description="share of the steps spent warming up linearly"
    )
    decay_fraction: Annotated[float, Field(gt=0, le=1), OnlyWith("schedule", ("wsd",))] = Field(
        0.2, description="share of the steps spent decaying"
    )
    min_lr_ratio: Fraction = Field(0.1, description="learning rate at the end over its peak")
    precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="bf16: autocast; weights, optimiser and residual stream stay fp32"
    )
    checkpoint_activations: Literal["off", "block"] = Field(
        "off", description="block: keep what passes between blocks and compute the rest again; less memory, more time"
    )
    compile: Literal["auto", "on", "off"] = Field("auto", description="torch.compile; auto: on for CUDA, off for CPU")
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = Field(
        "auto", description="auto, cpu, cuda or cuda:N; auto: CUDA where there is one"
    )
    threads: NonNegativeInt = Field(0, description="CPU threads; 0: as many as torch chooses")
    seed: NonNegativeInt = Field(0, description="initial weights and data order together")
    tuning_seeds: Annotated[tuple[NonNegativeInt, ...] | None, Field(min_length=1)] = Field(
        None, description="seeds of the runs that chose the values here; a run with one of them carries no verdict"
    )
    log_every_steps: PositiveInt = Field(10, description="steps between lines of metrics.jsonl")
    checkpoint_every_steps: NonNegativeInt = Field(
        0, description="steps between checkpoints; 0: only at the end and when interrupted"
    )


class EvalConfig(Section):
    """[eval]: the fixed validation measurement."""

    every_steps: NonNegativeInt = Field(0, description="steps between validations; 0: only at the end")
    tokens: PositiveInt = Field(
        description="validation tokens, always the same ones; whole sequences, at most the validation set"
    )


class ObserveConfig(Section):
    """[observe]: what to record about the inside, off the training clock."""

    observers: Annotated[tuple[str, ...], MemberOf("train.observers", "observer")] = Field(
        ("magnitudes", "gradients", "depth-weights"), description="what is recorded: files of train/observers/"
    )
    every_steps: Annotated[NonNegativeInt, OnlyWith("observers")] = Field(
        0, description="steps between observations; 0: only after the last step"
    )
    probe_sequences: Annotated[PositiveInt, OnlyWith("observers")] = Field(
        4, description="validation sequences of the fixed probe batch"
    )


SECTIONS: dict[str, type[Section]] = {
    "model": ModelConfig,
    "residual": ResidualConfig,
    "data": DataConfig,
    "train": TrainConfig,
    "eval": EvalConfig,
    "observe": ObserveConfig,
}
