"""What a corpus gives: texts, sequences of tokens in memory, or files of tokens that are used where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class Document:
    """A text: its bytes as they are on disk (line ends kept), and a name that tells a user where they came from."""

    name: str
    text: bytes


@dataclass(frozen=True)
class TokenDocument:
    """A sequence that has its tokens already.

    tokens: uint32 [n]. loss_mask: bool [n], true where predicting that token counts; None: everywhere.
    """

    name: str
    tokens: npt.NDArray[np.uint32]
    loss_mask: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class TokenFile:
    """A file of `num_tokens` little-endian token ids of `dtype` after `header_bytes`, too large to copy.

    part: "validation" when the user named the file for validation, else "train".
    """

    name: str
    path: Path
    header_bytes: int
    num_tokens: int
    dtype: Literal["uint16", "uint32"]
    part: Literal["train", "validation"]
