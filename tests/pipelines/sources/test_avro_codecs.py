"""Blocks are unpacked to the same bytes by either library, to no more than a block may take, whole or not at all."""

from __future__ import annotations

import bz2
import lzma
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from private_topk.pipelines.sources import avro_codecs
from private_topk.pipelines.sources.avro_codecs import CODECS, LARGEST, TooLarge
from private_topk.transforms.errors import Refusal
from tests.pipelines.sources.test_avro_types import container
from tests.pipelines.sources.test_hostile import TEXTS
from tests.pipelines.support import read, write

LIBRARIES = pytest.mark.parametrize("library", [isal_zlib, zlib], ids=["isal", "zlib"])
CONTENTS = st.one_of(
    st.binary(max_size=2000),
    st.builds(lambda part, times: part * times, st.binary(max_size=50), st.integers(0, 20_000)),
)


def deflated(content: bytes, level: int = 6, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, strategy=strategy)
    return packer.compress(content) + packer.flush()


@LIBRARIES
@settings(max_examples=60, deadline=None)
@given(content=CONTENTS, level=st.integers(0, 9), strategy=st.integers(0, 4), cut=st.integers(0, 10_000))
def test_deflate_gives_what_was_packed_and_nothing_of_what_was_cut(
    library: Any,  # noqa: ANN401 - a module
    content: bytes,
    level: int,
    strategy: int,
    cut: int,
) -> None:
    packed = deflated(content, level, strategy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_codecs, "_INFLATE", library)
        assert CODECS["deflate"](packed) == content
        with pytest.raises(library.error):
            CODECS["deflate"](packed[: cut % len(packed)])


@LIBRARIES
@pytest.mark.parametrize("size", [LARGEST, LARGEST + 1])
def test_deflate_stops_at_the_largest_block(library: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    """Of zeros the fewest bytes stand for so many: what may be unpacked in one go is bounded by its size."""
    monkeypatch.setattr(avro_codecs, "_INFLATE", library)
    packed = deflated(bytes(size), 9)
    if size > LARGEST:
        with pytest.raises(TooLarge):
            CODECS["deflate"](packed)
    else:
        assert len(CODECS["deflate"](packed)) == size


ZEROS = bytes(3 << 20)
BOMBS = {
    "deflate": deflated(ZEROS),
    "bzip2": bz2.compress(ZEROS),
    "xz": lzma.compress(ZEROS, preset=0),
    "zstandard": pa.compress(ZEROS, "zstd", asbytes=True),
    "snappy": pa.compress(ZEROS, "snappy", asbytes=True) + b"\0\0\0\0",
    "lz4": len(ZEROS).to_bytes(4, "little") + pa.compress(ZEROS, "lz4_raw", asbytes=True),
}


@pytest.mark.parametrize("codec", BOMBS)
def test_no_codec_unpacks_more_than_a_block_may_take(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro_codecs, "LARGEST", 1 << 20)
    path = write(tmp_path / "rows.avro", container(TEXTS, [(1000, BOMBS[codec])], codec))
    with pytest.raises(Refusal, match="has a block that decodes to more than 256 MiB: write smaller blocks"):
        read(path)


def test_what_is_unpacked_in_one_go_cannot_be_too_large() -> None:
    """The densest stream that deflate has: a match of 258 bytes in two bits, again and again."""
    packed = deflated(bytes(1 << 24), 9)
    assert (1 << 24) / len(packed) <= avro_codecs._MOST_OF_A_BYTE
