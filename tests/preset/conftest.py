"""A small program to read presets for: two schemes, two corpora, and names of files, without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field, model_validator

from attnres_cli.preset.schema import Complaint, DataConfig, FilePath, OnlyWith, PositiveInt, ResidualConfig


class Plain(ResidualConfig):
    scheme: Literal["plain"] = "plain"


class Blocks(ResidualConfig):
    exclusive_keys: ClassVar[tuple[tuple[str, ...], ...]] = (("num_blocks", "block_sublayers"),)

    scheme: Literal["blocks"] = "blocks"
    gain: bool = Field(True, description="a gain")
    num_blocks: PositiveInt | None = Field(None, description="blocks")
    block_sublayers: PositiveInt | None = Field(None, description="sublayers per block")

    def check(self, preset: Any) -> Iterator[Complaint]:
        if self.num_blocks and self.num_blocks > preset.model.num_sublayers:
            message = f"num_blocks = {self.num_blocks} is more than the {preset.model.num_sublayers} sublayers."
            yield Complaint("num_blocks", message, f"1 to {preset.model.num_sublayers}")


class Files(DataConfig):
    corpus: Literal["files"] = Field(description="files of text")
    files: Annotated[tuple[str, ...], Field(min_length=1), FilePath()] = Field(description="paths and globs")


class Puzzle(DataConfig):
    ignored_keys: ClassVar[tuple[str, ...]] = ("undecodable",)

    corpus: Literal["puzzle"] = Field(description="a task")
    tokenizer: Literal["none"] = Field("none", description="no tokenizer")
    task: Literal["copy", "hops"] = Field("copy", description="which task")
    hops: Annotated[PositiveInt, OnlyWith("task", ("hops",))] = Field(2, description="hops per answer")
    length: PositiveInt = Field(8, description="symbols")

    @model_validator(mode="after")
    def _long_enough(self) -> Puzzle:
        if self.hops >= self.length:
            raise ValueError(f"hops = {self.hops} needs a larger length")
        return self


class StandIn:
    """Members of a program that is not there."""

    models: ClassVar[dict[str, dict[str, Any]]] = {
        "residual.schemes": {"blocks": Blocks, "plain": Plain},
        "data.corpora": {"files": Files, "puzzle": Puzzle},
        "model.mixers": {"attention": None, "convolution": None},
        "model.feed_forward": {"swiglu": None},
        "train.observers": {"depth-weights": None, "gradients": None, "magnitudes": None},
        "data.tokenizers": {"letters": None, "rank-file": None},
    }
    # What the tokenizers answer to; the second one to paths.
    answers: ClassVar[dict[str, tuple[tuple[str, ...], Callable[[str], bool]]]] = {
        "letters": (("bytes",), lambda name: name == "bytes"),
        "rank-file": ((), lambda name: "/" in name or name.endswith(".tiktoken")),
    }

    def names(self, package: str) -> tuple[str, ...]:
        return tuple(self.models[package])

    def load(self, package: str, name: str, *, what: str) -> Any:
        if package == "data.tokenizers":
            shown, accepts = self.answers[name]
            return SimpleNamespace(names=lambda: shown, accepts=accepts)
        return SimpleNamespace(Config=self.models[package][name])


BASE = """\
# A base to build on.
[model]
transformer_blocks = 2
d_model = 64
num_heads = 4
context_tokens = 16

[residual]
scheme = "plain"

[data]
corpus = "files"
files = ["a.txt"]

[train]
horizon_tokens = 6400
tokens_per_step = 64
micro_batch_sequences = 2
learning_rate = 1e-3

[eval]
tokens = 64
"""


@pytest.fixture
def members() -> StandIn:
    return StandIn()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project folder, the working directory, holding base.toml."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "base.toml").write_text(BASE)
    return folder


@pytest.fixture
def write(project: Path) -> Callable[[str, str], Path]:
    """Write a file of the project, with the folders that it needs."""

    def write_file(name: str, text: str) -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_file
