"""The keys of every scheme that attends over depth: by default the paper's own mathematics, and a key per ablation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from attnres_cli.errors import plural
from attnres_cli.preset.schema import Complaint, OnlyWith, PositiveInt
from attnres_cli.residual.backends import BackendConfig

# Kinds of query that are compared with keys; the other kind is a table of numbers.
_COMPARED = ("static", "input")


class DepthAttentionConfig(BackendConfig):
    """Keys that every scheme with attention over depth has."""

    # Whether the mixture goes straight into a norm, which takes out a factor per token.
    mixture_is_normalised: ClassVar[bool] = True

    query: Literal["static", "input", "scalars"] = Field(
        "static",
        description="a learned vector per site; projected from the newest source; or no query, one learned number per "
        "site and source",
    )
    key_norm: Annotated[bool, OnlyWith("query", _COMPARED)] = Field(True, description="keys are RMS-normalised")
    gain: Annotated[bool, OnlyWith("key_norm", (True,))] = Field(
        True, description="the key norm has a learned gain, as the released Kimi K3 has"
    )
    logit_scale: Annotated[Literal["none", "1/sqrt(d)"], OnlyWith("query", _COMPARED)] = Field(
        "none", description="factor on the logits; d: channels that a query has per head"
    )
    temperature: Annotated[float, Field(gt=0), OnlyWith("query", _COMPARED)] = Field(
        1.0, description="the logits are divided by it"
    )
    normaliser: Literal["softmax", "sigmoid", "normalised-sigmoid", "softmax-1", "sparsemax", "raw"] = Field(
        "softmax",
        description="from logits to weights; softmax-1: with a source that is nothing; raw: as they are, for scalars",
    )
    depth_heads: PositiveInt = Field(1, description="parts of the channels that choose their sources apart")
    key_rank: Annotated[PositiveInt | None, OnlyWith("query", _COMPARED)] = Field(
        None, description="channels of keys and queries; without it d_model"
    )
    key_projection: Annotated[Literal["projected", "sliced"], OnlyWith("key_rank")] = Field(
        "projected", description="keys of key_rank channels: by one learned matrix, or the last channels of the source"
    )
    window: PositiveInt | None = Field(
        None, description="sources that a site sees beside the embedding: only the newest so many; without it all"
    )
    embedding_source: bool = Field(
        True, description="the embedding is a source of its own; false: it is part of the first one"
    )
    final_mix: bool = Field(
        True, description="the output attends over depth, too; false: the head sees the sum of all sources"
    )
    query_init_std: Annotated[float, Field(ge=0)] = Field(
        0.0,
        description="standard deviation of the first values of queries, of the matrix that makes them, or of scalars; "
        "the paper: must be zero",
    )
    train_queries: bool = Field(
        True,
        description="false: queries, key gains and projections keep their first values (a control; at zero: rescaling "
        "without selection)",
    )
    query_lr_factor: Annotated[float, Field(gt=0), OnlyWith("train_queries", (True,))] = Field(
        1.0, description="learning rate of queries and key gains over that of the rest"
    )

    def check(self, preset: Any) -> Iterator[Complaint]:
        """Faults that show only together with other keys."""
        if self.normaliser == "raw" and self.query != "scalars":
            message = 'normaliser = "raw" is for learned numbers only.'
            yield Complaint("normaliser", message, 'query = "scalars"', ("query",))
        if self.changes_the_mathematics and self.backend != "auto":
            yield Complaint(
                "backend",
                "backend does nothing here: other keys of [residual] change what back ends compute.",
                '"auto"',
            )
        if self.normaliser == "softmax-1" and self.depth_heads == 1 and self.mixture_is_normalised:
            yield Complaint(
                "normaliser",
                "With one head softmax-1 is softmax times one number per token, which the norm after it takes out: "
                "it would change nothing.",
                'depth_heads > 1, or "softmax"',
                also=("depth_heads",),
            )
        if self.window is not None and not self.final_mix:
            yield Complaint(
                "final_mix",
                "With a window the sum of all sources is not kept for the head.",
                "final_mix = true",
                also=("window",),
            )
        width, rank, heads = preset.model.d_model, self.key_rank, self.depth_heads
        if rank is not None and rank > width:
            message = f"key_rank = {rank} is more than d_model = {width}."
            yield Complaint("key_rank", message, f"1 to {width}", ("model.d_model",))
        elif rank == width and self.key_projection == "sliced":
            yield Complaint(
                "key_rank",
                f"The last {rank} channels of d_model = {width} are all of them: key_rank would change nothing.",
                f"1 to {width - 1}" if width > 1 else "no key_rank",
                also=("key_projection", "model.d_model"),
            )
        elif rank is not None and rank % heads:
            message = f"key_rank = {rank} does not divide into depth_heads = {heads} parts."
            yield Complaint("depth_heads", message, also=("key_rank",))
        if width % heads:
            message = f"d_model = {width} does not divide into depth_heads = {heads} parts."
            yield Complaint("depth_heads", message, also=("model.d_model",))

    def notes(self, preset: Any) -> Iterator[str]:
        """A window no smaller than what it looks at: not a fault, so that it can be put on a model of any depth."""
        sublayers, sources = preset.model.num_sublayers, self.sublayer_sources(preset)
        if self.window is not None and self.window >= sources:
            yield (
                f"residual.window = {self.window} leaves nothing out: the model's {sublayers} sublayers make {sources} "
                f"{plural(sources, 'source')}"
            )

    def sublayer_sources(self, preset: Any) -> int:
        """Most sources that a site can have beside the embedding; an embedding that is none begins one of them."""
        return int(preset.model.num_sublayers)

    @property
    def changes_the_mathematics(self) -> bool:
        """Whether any key departs from what the operator's back ends compute: a window, which only leaves sources out,
        does not; nor do a factor on the logits and other first values."""
        return (
            self.query != "static"
            or not self.key_norm
            or self.normaliser != "softmax"
            or self.depth_heads > 1
            or self.key_rank is not None
        )
