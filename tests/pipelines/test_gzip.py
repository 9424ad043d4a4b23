"""Streams of gzip, whole and hurt: what is read of one is all of it, or it is refused."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from private_topk.pipelines.files import open_content
from private_topk.transforms.errors import Refusal

HURTS = {
    "cut short": lambda stream, draw: stream[: draw.randrange(len(stream))],
    "a bit": lambda stream, draw: _bit(stream, draw.randrange(8 * len(stream))),
    "some bytes": lambda stream, draw: _other(stream, draw.randrange(len(stream)), draw.randbytes(20)),
    "two streams": lambda stream, draw: stream + gzip.compress(draw.randbytes(40)),
    "zeros behind": lambda stream, draw: stream + bytes(draw.randrange(1, 50)),
    "zeros between": lambda stream, draw: stream + bytes(3) + gzip.compress(b"abc"),
    "something behind": lambda stream, draw: stream + draw.randbytes(draw.randrange(1, 50)),
    "half of another behind": lambda stream, draw: stream + gzip.compress(b"abc")[: draw.randrange(1, 20)],
}


def _bit(stream: bytes, place: int) -> bytes:
    return _other(stream, place // 8, bytes([stream[place // 8] ^ 1 << place % 8]))


def _other(stream: bytes, place: int, instead: bytes) -> bytes:
    return stream[:place] + instead + stream[place + len(instead) :]


def read(step: int) -> bytes | None:
    try:
        with open_content("rows.csv.gz") as content:
            return b"".join(iter(lambda: content.read(step), b""))
    except Refusal as error:
        assert str(error) == "rows.csv.gz is not a whole gzip file: write or copy it again"
        return None


@pytest.mark.parametrize("hurt", HURTS)
def test_a_stream_is_read_whole_or_refused(hurt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw = random.Random(hurt)
    for number in range(100):
        size = draw.choice((0, 1, 50, 70_000))
        whole = draw.randbytes(size) + b"abc,def\n" * size
        stream = HURTS[hurt](gzip.compress(whole, draw.choice((0, 1, 6, 9))), draw)
        Path("rows.csv.gz").write_bytes(stream)
        found = read(draw.choice((100, 65_536, 1 << 22)))
        if hurt in ("two streams", "zeros behind", "zeros between"):
            assert found is not None and found.startswith(whole), number
        elif hurt in ("a bit", "some bytes"):
            assert found in (None, whole), number
        else:
            assert found is None, number


def test_no_bytes_are_no_stream_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was begun and not written; a stream of nothing has 20 bytes."""
    monkeypatch.chdir(tmp_path)
    Path("rows.csv.gz").write_bytes(b"")
    assert read(100) is None
    Path("rows.csv.gz").write_bytes(gzip.compress(b""))
    assert read(100) == b""
