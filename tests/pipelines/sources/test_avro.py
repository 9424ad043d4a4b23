"""Avro: every row once however a file is cut, every type a schema may give, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import resource
import zlib
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from private_topk.pipelines.files import FileInfo, match
from private_topk.pipelines.sources import Columns, avro
from private_topk.pipelines.sources.formats import reader_of
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.sources.containers import container, number
from tests.pipelines.sources.contract import FormatContract
from tests.pipelines.support import Rows, avro_schema, command, read, to_avro, write
from tests.refusals import refused

ROWS = [{"user": f"u{n}" * (n % 5), "item": None if n % 11 == 0 else f"item {n % 50}"} for n in range(3000)]
PLAIN = to_avro(ROWS[:300])


class TestFormat(FormatContract):
    ending = ".avro"

    def content(self, rows: Rows) -> bytes:
        return to_avro(rows, sync_interval=500)


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard", "snappy", "lz4"])
@pytest.mark.parametrize("size", [2, 100, 20_000, 3 << 20])
def test_codecs_give_what_was_packed_and_nothing_of_what_is_broken(tmp_path: Path, codec: str, size: int) -> None:
    """Of a row of any size."""
    label = random.Random(size).randbytes(size // 2).hex()
    content = number(len(label)) + label.encode() + b"\x02i"
    schema = avro_schema(user="string", item="string")
    packed = {
        "deflate": lambda: zlib.compress(content)[2:-4],
        "bzip2": lambda: bz2.compress(content),
        "xz": lambda: lzma.compress(content, preset=0),
        "zstandard": lambda: pa.compress(content, "zstd", asbytes=True),
        "snappy": lambda: pa.compress(content, "snappy", asbytes=True) + zlib.crc32(content).to_bytes(4, "big"),
        "lz4": lambda: len(content).to_bytes(4, "little") + pa.compress(content, "lz4_raw", asbytes=True),
    }[codec]()
    found = read(write(tmp_path / "rows.avro", container(schema, [(1, packed)], codec)))
    assert found == (([(label, "i")], 0) if size <= 4096 else ([], 1))
    with refused("", "is damaged: a block cannot be decoded"):
        read(write(tmp_path / "rows.avro", container(schema, [(1, packed[: len(packed) // 2])], codec)))


def test_one_block_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    rows = [{"user": f"{n:09d}" * 5, "item": "x" * 40} for n in range(60_000)]
    path = write(tmp_path / "rows.avro", to_avro(rows, codec="null", sync_interval=1 << 30))
    assert path.stat().st_size > 5 << 20
    assert read(path, size=1 << 20).rows == [(row["user"], row["item"]) for row in rows]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an Avro file, or its header is truncated"),
        (b"user,item\na,b\n" * 100, "not an Avro file"),
        (PLAIN[:-5], "truncated: its last block is not complete"),
        (PLAIN.replace(b"\x08null", b"\x08wxyz", 1), "compressed with 'wxyz', which cannot be read here"),
        (to_avro(["a"], "string"), "not an Avro file of records"),
        (to_avro([1, "a"], ["int", "string"]), "not an Avro file of records"),
        (PLAIN.replace(b'"record"', b'"recorx"', 1), "not an Avro file of records"),
    ],
    ids=range(7),  # a file holds random bytes, and a test needs a name that stays
)
def test_foreign_and_truncated_files(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"rows\.avro .*{message}"):
        read(write(tmp_path / "rows.avro", content))


POLARS = b"\1\2\3\4" * 4
"""The sync marker of every file that polars writes."""

ALIGNED = 8 << 20
"""Bytes of the smallest range that a file is split into."""


def stored(user: str, item: str) -> bytes:
    """A row as polars stores it."""
    return b"".join(b"\x02" + number(len(text)) + text.encode() for text in (user, item))


def is_utf8(value: int) -> bool:
    try:
        return bool(number(value).decode())
    except UnicodeDecodeError:
        return False


def a_block_of_text(rows: list[tuple[str, str]], least: int) -> bytes:
    """A block of rows and one more, of at least so many bytes, that is text from its first byte to its last."""
    content = b"".join(stored(*row) for row in rows)
    long = next(length for length in range(least - len(content), 1 << 30) if is_utf8(length))
    size = len(content) + len(stored("x" * long, ""))
    short = next(length for length in range(64) if is_utf8(size + length))
    content += stored("x" * long, "!" * short)
    assert is_utf8(len(rows) + 1)
    return number(len(rows) + 1) + number(len(content)) + content


FAKES = {
    "a block as long as a range": lambda: a_block_of_text([(f"f{n}", "cake") for n in range(60)], ALIGNED + 1000),
    "36 bytes": lambda: b"\x02\x04ab",
}


@pytest.mark.parametrize("fake", FAKES)
@pytest.mark.parametrize("before", [ALIGNED + 5000, 2 * ALIGNED + 100])
def test_a_label_with_markers_and_a_fake_block_changes_no_other_row(tmp_path: Path, fake: str, before: int) -> None:
    """One user's row, of no item of the list, in a file as polars writes it: the answer is that without it."""
    label = "x" * before + (POLARS + FAKES[fake]() + POLARS).decode()
    rows = [(f"u{n}", "tea" if n % 3 else "juice") for n in range(30)]
    path, lists = tmp_path / "rows.avro", write(tmp_path / "items.txt", "cake\ntea\njuice\n")
    key = write(tmp_path / "key", bytes(range(32)))
    found = []
    for name, more in (("with", [("one", label)]), ("without", [])):
        pl.DataFrame(rows[:9] + more + rows[9:], schema=["user", "item"], orient="row").write_avro(path)
        asked = f"--input {path} --domain {lists} --mechanism joint --k 3 --epsilon 50 --release-key file:{key} --quiet"
        done = command("run", *asked.split(), "--release-id", "r", "--output", tmp_path / f"{name}.csv")
        assert done.status == 0, done.err
        found.append((tmp_path / f"{name}.csv").read_bytes())
    assert found[0] == found[1] and found[0].index(b"tea") < found[0].index(b"juice") < found[0].index(b"cake")


def test_ranges_end_with_blocks_for_rows_that_hold_markers(tmp_path: Path) -> None:
    marker = POLARS.decode()
    rows = [
        {"user": f"u{n}", "item": "i" + f"{marker}{chr(n % 2) * 2}{marker}\x02\x04ab{marker}" * (n % 3)}
        for n in range(400)
    ]
    path = write(tmp_path / "rows.avro", to_avro(rows, codec="null", sync_interval=200, sync_marker=POLARS))
    (file,) = match(str(path))
    for size in (1, 50, 700, 5000, file.size):
        ranges = list(reader_of(file.path).pieces(file, size))
        assert [0, *(stop for _, stop in ranges)] == [*(start for start, _ in ranges), file.size]
        assert len(ranges) == 1 or size < file.size
        found = read(path, size=size)
        assert found.rows == [(row["user"], row["item"]) for row in rows if "\0" not in row["item"]]
        assert found.dropped == sum("\0" in row["item"] for row in rows)


def test_remote_and_zipped_files_are_read_in_one_piece() -> None:
    """A seek may be a request there; no place is looked at."""
    assert list(reader_of("a.avro").pieces(FileInfo("gs://bucket/a.avro", 1 << 40), ALIGNED)) == [(0, 1 << 40)]
    assert len(list(reader_of("a.avro.gz").pieces(FileInfo("a.avro.gz", 1 << 40), ALIGNED))) == 1


# Each schema is decoded by another decoder.
TEXTS = {"type": "record", "name": "Row", "fields": [{"name": n, "type": "string"} for n in ("user", "item")]}
WITH_MAP = {**TEXTS, "fields": [*TEXTS["fields"], {"name": "more", "type": {"type": "map", "values": "long"}}]}
SCHEMAS = [(TEXTS, b""), (WITH_MAP, b"\0")]


def texts(*rows: tuple[str, str]) -> bytes:
    return b"".join(number(len(part)) + part.encode() for row in rows for part in row)


@pytest.fixture(params=[0, 1], ids=["polars", "fastavro"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator:
    """Writes a file of blocks, each a row count, its rows, and what stands behind them."""
    schema, end = SCHEMAS[request.param]

    def write_blocks(*blocks: tuple[int, list[tuple[str, str]], bytes]) -> Path:
        packed = [(count, b"".join(texts(row) + end for row in rows) + more) for count, rows, more in blocks]
        return write(tmp_path / "rows.avro", container(schema, packed))

    yield write_blocks


A, B = [("ann", "tea"), ("bob", "tea")], [("cem", "cake"), ("dan", "cake")]


def test_a_block_is_used_up_to_its_last_byte_or_refuses_the_file(made, tmp_path: Path) -> None:  # noqa: ANN001
    assert read(made((2, A, b""), (0, [], b""), (2, B, b""), (0, [], b""))).rows == A + B
    for blocks in (
        [(2, A, b"\x02x"), (2, B, b"")],  # joined, the next block's users would be its items
        [(2, A, b"\0"), (2, B, b"")],
        [(2, A, b""), (2, B, b"\0\0\0")],
        [(1, A, b""), (2, B, b"")],
        [(3, A, b""), (2, B, b"")],
        [(1, A, b""), (3, B, b"")],  # as many in all as there are
        [(2, A, b""), (0, [], b"\0")],
        [(0, [], b"\x02x"), (2, A, b"")],
    ):
        path = made(*blocks)
        with refused("", "rows.avro is damaged: a block cannot be decoded"):
            read(path)
        items = write(tmp_path / "items.txt", "tea\ncake\n")
        asked = f"run --input {path} --domain {items} --mechanism joint --k 1 --epsilon 1 --output {tmp_path}/out.csv"
        done = command(*asked.split())
        assert done.status == 1 and "is damaged" in done.err and not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("ending", [".avro", ".avro.gz"])
def test_a_file_that_ends_in_a_block_or_claims_what_is_not_there(tmp_path: Path, ending: str) -> None:
    good = container(TEXTS, [(2, texts(*A))], sync=POLARS)
    block = number(2) + number(len(texts(*B))) + texts(*B)
    damaged = "truncated"
    for more, said in (
        (block[:1], damaged),
        (block[:7], damaged),
        (block, damaged),
        (block + POLARS[:-1], damaged),
        (number(2) + number(1000) + POLARS, damaged),  # the end of the file looks right
        (number(2) + number(-5) + POLARS, damaged),
        (number(-2) + block[1:] + POLARS, damaged),
        (b"\xff" * 30 + POLARS, damaged),
        (number(2) + number(1 << 40) + POLARS, damaged),
    ):
        content = good + more
        path = write(tmp_path / f"rows{ending}", gzip.compress(content) if ending.endswith(".gz") else content)
        for size in (20, 1 << 30):
            with pytest.raises(InvalidArgument, match=said):
                read(path, size=size)


def test_a_large_file_cut_inside_a_row_that_holds_a_marker_is_refused_before_the_charge(tmp_path: Path) -> None:
    path = tmp_path / "rows.avro"
    label = "x" * (9 << 20) + POLARS.decode()
    pl.DataFrame([("a", "tea"), ("b", label), ("c", "tea")], schema=["user", "item"], orient="row").write_avro(path)
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex(POLARS, 0, -16) + 16])
    items, key = write(tmp_path / "items.txt", "tea\ncake\n"), write(tmp_path / "key", bytes(range(32)))
    held = ("--ledger", f"sqlite:///{tmp_path}/ledger.db", "--dataset", "d")
    assert command("budget", "create", *held, "--epsilon", 9, "--privacy-unit", "user").status == 0
    done = command(
        *f"run --input {path} --domain {items} --mechanism joint --k 1 --epsilon 1".split(),
        *held,
        *f"--privacy-unit user --release-key file:{key} --release-id r --output {tmp_path}/out.csv".split(),
    )
    assert done.status == 2 and "is truncated or damaged" in done.err, done.err
    assert json.loads(command("budget", "history", *held, "--json").out)["charges"] == []


def test_a_file_that_is_replaced_after_it_was_split_is_refused_and_of_one_that_grew_the_start_is_read(
    tmp_path: Path,
) -> None:
    rows = [{"user": f"u{n}", "item": "tea"} for n in range(300)]
    path = write(tmp_path / "rows.avro", to_avro(rows, sync_interval=300, sync_marker=POLARS))
    (file,) = match(str(path))
    module = reader_of(file.path)
    ranges = list(module.pieces(file, 1000))
    assert len(ranges) == 3

    def rows_read() -> int:
        parts = (part for start, stop in ranges for part in module.read(file.path, start, stop, Columns()))
        return sum(len(part.columns["user"]) for part in parts)

    grown = path.read_bytes() + number(1) + number(len(texts(A[0]))) + texts(A[0]) + POLARS
    write(path, grown)
    assert rows_read() == 300
    others = [{"user": f"u{n}", "item": POLARS.decode() * 9} for n in range(300)]
    for content in (
        to_avro(others, sync_interval=300, sync_marker=POLARS),
        to_avro(rows, sync_interval=400, sync_marker=POLARS),
        to_avro(rows[:200], sync_interval=300, sync_marker=POLARS),
    ):
        write(path, content)
        with refused("", "is truncated or damaged"):
            rows_read()


def bomb(codec: str, size: int) -> bytes:
    """A block of one row whose label has so many bytes, all zero, packed without ever being in memory."""
    opened = {
        "deflate": lambda: zlib.compressobj(1, zlib.DEFLATED, -15),
        "bzip2": bz2.BZ2Compressor,
        "xz": lambda: lzma.LZMACompressor(preset=0),
    }
    parts = [texts(("u", ""))[:-1] + number(size), *[bytes(1 << 20)] * (size >> 20)]
    if codec in opened:
        packer = opened[codec]()
        return b"".join([*map(packer.compress, parts), packer.flush()])
    if codec == "zstandard":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            for part in parts:
                stream.write(part)
        return sink.getvalue().to_pybytes()
    if codec == "lz4":
        return (1 << 31).to_bytes(4, "little") + bytes(100)
    length, size = b"", 1 << 31
    while size:
        length, size = length + bytes([size & 0x7F | 0x80 * (size > 0x7F)]), size >> 7
    return length + bytes(100)


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard", "snappy", "lz4", "null"])
def test_a_block_that_unpacks_to_gigabytes_is_refused_in_little_memory(tmp_path: Path, codec: str) -> None:
    """Without a codec in a zipped file. Python's own decompressors hold what they have unpacked twice."""
    if codec == "null":
        head = container(TEXTS, []) + number(1) + number(1 << 31)
        path = tmp_path / "rows.avro.gz"
        with gzip.open(path, "wb", 1) as sink:
            sink.write(head)
            for _ in range(1 << 9):
                sink.write(bytes(1 << 20))
    else:
        path = write(tmp_path / "rows.avro", container(TEXTS, [(1, bomb(codec, 1 << 29))], codec))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidArgument) as refusal:
        read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 << 10
    assert path.name in refusal.value.rule and "unpacks to more than 256 MiB" in refusal.value.rule
    assert "smaller blocks" in refusal.value.remedy


def test_a_whole_frame_in_one_packed_block_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As polars writes it: larger than a block of others may be, and packed as rows are."""
    monkeypatch.setattr(avro, "_LARGEST", 1 << 16)
    rows = [(f"user {n}", f"item {n % 1000}") for n in range(20_000)]
    packed = zlib.compress(texts(*rows), wbits=-15)
    path = write(tmp_path / "rows.avro", container(TEXTS, [(len(rows), packed)], "deflate"))
    assert len(texts(*rows)) > max(1 << 16, path.stat().st_size)
    assert read(path).rows == rows


def test_every_cut_of_a_file_is_refused_or_gives_the_rows_of_its_whole_blocks(tmp_path: Path) -> None:
    """By the format a file that ends with a block is whole: nothing in it says how many blocks there were."""
    blocks = [A, [("eve", "pie")], B, [("x" * 70, "tea")]]
    contents = [(len(rows), texts(*rows)) for rows in blocks]
    whole = {len(container(TEXTS, contents[:n])): sum(blocks[:n], []) for n in range(len(blocks) + 1)}
    content = container(TEXTS, contents)
    for cut in range(1, len(content) + 1):
        path = write(tmp_path / "rows.avro", content[:cut])
        for size in (1, 1 << 30):
            if cut in whole:
                assert read(path, size=size).rows == whole[cut]
            else:
                with pytest.raises(InvalidArgument, match="truncated|not an Avro file"):
                    read(path, size=size)
