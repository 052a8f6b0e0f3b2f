from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnres_cli.data.corpora.tokens import Config, documents
from attnres_cli.data.documents import TokenFile
from attnres_cli.errors import UserError
from attnres_cli.shipped import shipped_folder


def with_header(ids: np.ndarray, *, version: int = 1, count: int | None = None) -> bytes:
    header = struct.pack("<3i", 20240520, version, len(ids) if count is None else count).ljust(1024, b"\0")
    return header + ids.tobytes()


def test_samples_are_the_prose_in_both_forms() -> None:
    samples = shipped_folder("data_samples")
    prose = (samples / "prose.txt").read_bytes()
    for file in opened(samples, files=("prose-uint16.bin", "prose-header.bin")):
        ids = np.fromfile(file.path, dtype="<u2", offset=file.header_bytes, count=file.num_tokens)
        assert ids.tolist() == [*prose, 256]


def opened(folder: Path, **keys: Any) -> list[TokenFile]:
    section = Config(corpus="tokens", vocab_size=1000, **({"files": ("*.bin",)} | keys))
    return list(documents(section, folder))


def test_both_forms(tmp_path: Path) -> None:
    ids = np.arange(20, dtype="<u2")
    (tmp_path / "a.bin").write_bytes(ids.tobytes())
    (tmp_path / "b.bin").write_bytes(with_header(ids))
    bare, headed = opened(tmp_path)
    assert (bare.num_tokens, bare.header_bytes) == (20, 0)
    assert (headed.num_tokens, headed.header_bytes) == (20, 1024)
    for file in (bare, headed):
        assert np.array_equal(np.fromfile(file.path, dtype="<u2", offset=file.header_bytes), ids)


def test_wide_ids(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(np.arange(5, dtype="<u4").tobytes())
    (file,) = opened(tmp_path, dtype="uint32")
    assert (file.num_tokens, file.dtype) == (5, "uint32")


def test_parts(tmp_path: Path) -> None:
    for name in ("val.bin", "train_1.bin", "train_0.bin"):
        (tmp_path / name).write_bytes(b"\1\0")
    files = opened(tmp_path, files=("train_*.bin",), validation_files=("val.bin",))
    assert [(file.name, file.part) for file in files] == [
        ("train_0.bin", "train"),
        ("train_1.bin", "train"),
        ("val.bin", "validation"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\1\0\2", "3 bytes, which is no whole number of uint16 ids"),
        (with_header(np.arange(4, dtype="<u2"), version=3), "header version 3"),
        (with_header(np.arange(4, dtype="<u2"), count=9), "promises 9 tokens, 1,042 bytes; it has 1,032"),
        (with_header(np.arange(4, dtype="<u2"))[:500], "promises 4 tokens"),
        (with_header(np.arange(0, dtype="<u2")), "promises 0 tokens"),
        (with_header(np.arange(4, dtype="<u4")), "promises 4 tokens, 1,032 bytes; it has 1,040"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "bad.bin").write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        opened(tmp_path)
    assert caught.value.faults[0].where == str(tmp_path / "bad.bin")
