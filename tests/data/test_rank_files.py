from __future__ import annotations

import base64
from pathlib import Path

import pytest

from attnres_cli.data.rank_files import RankFileTokenizer, rank_file_text, rank_file_vocabulary_size
from attnres_cli.errors import UserError

BYTES = {bytes([byte]): byte for byte in range(256)}


def write(path: Path, ranks: dict[bytes, int]) -> Path:
    path.write_text(rank_file_text(ranks))
    return path


def test_round_trip_and_end_of_text(tmp_path: Path) -> None:
    tokenizer = RankFileTokenizer("mine", write(tmp_path / "mine.tiktoken", BYTES | {b"th": 256, b"the": 257}))
    assert tokenizer.vocab_size == 259
    assert tokenizer.end_of_text == 258
    (ids,) = tokenizer.encode_documents([b"the th\xc3\xa9"])
    assert ids.tolist() == [257, 32, 256, 0xC3, 0xA9]
    assert tokenizer.decode([*ids.tolist(), 258]) == "the thé<|endoftext|>"
    assert tokenizer.bytes_per_id[[257, 258]].tolist() == [3, 0]


def test_tiktoken_reads_the_same_file(tmp_path: Path) -> None:
    from tiktoken.load import load_tiktoken_bpe

    ranks = BYTES | {b"th": 256}
    assert load_tiktoken_bpe(str(write(tmp_path / "mine.tiktoken", ranks))) == ranks


def test_digest_follows_the_ranks(tmp_path: Path) -> None:
    one = RankFileTokenizer("a", write(tmp_path / "a", BYTES | {b"th": 256}))
    same = RankFileTokenizer("b", write(tmp_path / "b", BYTES | {b"th": 256}))
    other = RankFileTokenizer("c", write(tmp_path / "c", BYTES | {b"he": 256}))
    assert one.digest == same.digest != other.digest


def test_bad_line_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tiktoken", BYTES)
    path.write_text(path.read_text() + "not base64\n")
    with pytest.raises(UserError) as caught:
        rank_file_vocabulary_size(path)
    assert caught.value.faults[0].where == f"{path}:257"


@pytest.mark.parametrize(
    "ranks", [{b"a": 0}, BYTES | {b"th": 300}, {key: rank for key, rank in BYTES.items() if rank != 65}]
)
def test_incomplete_vocabulary(tmp_path: Path, ranks: dict[bytes, int]) -> None:
    with pytest.raises(UserError, match="incomplete"):
        rank_file_vocabulary_size(write(tmp_path / "x.tiktoken", ranks))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.tiktoken can't be read: No such file") as caught:
        RankFileTokenizer("none", tmp_path / "none.tiktoken")
    assert caught.value.faults[0].where == str(tmp_path / "none.tiktoken")


def test_text_is_by_rank() -> None:
    assert (
        rank_file_text({b"b": 1, b"a": 0})
        == f"{base64.b64encode(b'a').decode()} 0\n{base64.b64encode(b'b').decode()} 1\n"
    )
