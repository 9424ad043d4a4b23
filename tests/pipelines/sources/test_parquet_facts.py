"""Parquet files that lie about themselves: sizes, counts, offsets and nesting, each answered with one sentence."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from private_topk.pipelines.sources import Columns, parquet
from private_topk.pipelines.sources.columns import texts_of
from private_topk.pipelines.sources.parquet_facts import check_pages, groups_of
from private_topk.pipelines.sources.thrift import Broken, Short, decode
from private_topk.transforms.columnar import as_labels
from private_topk.transforms.refusal import Refusal
from tests.pipelines.sources import parquet_maker as make
from tests.pipelines.sources.parquet_maker import I32, I64, Chunk, Page, file_of, nulls, packed, plain
from tests.pipelines.sources.test_hostile import outcomes
from tests.pipelines.support import command, read, write
from tests.quick import in_check

LYING = " is damaged: a row group has other pages than it says. Write or copy it again"
NONE = " is not a Parquet file, or it is truncated: write or copy it again"
BOMB = " has a page that decodes to more than 256 MiB: write smaller pages"
ENDLESS = (" claims more rows than 16,777,216 and 100 for each of its bytes: leave out those without a user or an "
           "item, or copy it again")  # fmt: skip
WORD = Page(b"\1\0\0\0a", 5, 1, make.PLAIN, True)


def users(*values: bytes, **more: object) -> Chunk:
    return Chunk([plain(values)], **more)  # type: ignore[arg-type]


def two(chunk: Chunk, rows: int, claimed: int | None = None) -> bytes:
    """A file of one row group: the given users, and as many items as there are rows."""
    return file_of([{"user": chunk, "item": Chunk([plain([b"i"] * rows)])}], [rows if claimed is None else claimed])


def indices(count: int, run: bytes) -> Page:
    content = make.levels(count) + run
    return Page(content, len(content), count, make.RLE_DICTIONARY)


def bomb(codec: str) -> Page:
    """A good page with zeros behind it, packed a thousandfold."""
    content = plain([b"a", b"b", b"c"]).content + bytes(260 << 20)
    return Page(packed(content, codec), len(content), 3)


def deep(depth: int) -> bytes:
    group = [{3: I32(1), 4: b"a", 5: I32(1)} for _ in range(depth)]
    return file_of([], [], schema=[{4: b"schema", 5: I32(1)}, *group, {1: I32(6), 3: I32(1), 4: b"x"}])


def bombs() -> dict[str, tuple[bytes, str]]:
    """Lies that take long to tell."""
    return {
        "zeros without end in a page, zstd": (two(Chunk([bomb("zstd")], "zstd"), 3), BOMB),
        "zeros without end in a page, gzip": (two(Chunk([bomb("gzip")], "gzip"), 3), BOMB),
        "nested without end": (deep(200_000), NONE),
    }


def hostile() -> dict[str, tuple[bytes, str]]:
    once = indices(9, b"\1" + make.number(18) + b"\0")
    endless = Page(b"\1\0\0\0a", 5, 2**31 - 1, make.PLAIN, True)
    return {
        "as it should be": (two(users(b"a", b"b", b"c"), 3), "3 rows"),
        "more rows claimed": (two(users(b"a", b"b", b"c"), 3, 10**6), LYING),
        "fewer rows claimed": (two(users(b"a", b"b", b"c"), 3, 2), LYING),
        "no rows claimed": (two(users(b"a", b"b", b"c"), 3, 0), LYING),
        "less than no rows": (two(users(b"a", b"b", b"c"), 3, -5), NONE),
        "rows without end": (two(users(b"a", b"b", b"c"), 3, 10**12), ENDLESS),
        "columns of other lengths": (two(users(b"a", b"b"), 3), LYING),
        "values without end": (two(users(b"a", b"b", b"c", values=10**12), 3), LYING),
        "two gigabytes claimed": (two(Chunk([Page(b"x" * 10, 2**31 - 1, 3)], "snappy"), 3), BOMB),
        "less than nothing claimed": (two(Chunk([Page(b"x" * 10, -1, 3)], "snappy"), 3), LYING),
        "an offset far behind the end": (two(users(b"a", change={9: I64(2**62)}), 1), LYING),
        "an offset before the start": (two(users(b"a", change={9: I64(-5)}), 1), NONE),
        "a size far beyond the end": (two(users(b"a", change={7: I64(2**62)}), 1), LYING),
        "a text for a size": (two(users(b"a", change={7: b"ten"}), 1), NONE),
        "nulls without end": (
            file_of([{name: Chunk([nulls(2**31 - 1)] * 50) for name in ("user", "item")}], [50 * (2**31 - 1)]),
            ENDLESS,
        ),
        "an index beyond the dictionary": (
            two(Chunk([WORD, indices(9, b"\x20" + make.number(18) + b"\xff\xff\xff\x7f")]), 9),
            "cannot be decoded",
        ),
        "no dictionary": (two(Chunk([once]), 9), "cannot be decoded"),
        "a dictionary of two milliard words": (
            two(Chunk([endless, once]), 9),
            "cannot be decoded",
        ),
    }


def test_a_lie_ends_in_one_sentence(tmp_path: Path) -> None:
    """In this process, with all the memory it wants; the next test is of all lies, with little."""
    for number, (name, (content, said)) in enumerate(hostile().items()):
        path = write(tmp_path / f"{number}.parquet", content)
        try:
            found = f"{len(read(path).rows)} rows"
        except Refusal as refusal:
            found = str(refusal)
        assert said in found, (name, found)


@pytest.mark.long
def test_every_lie_ends_in_one_sentence(tmp_path: Path) -> None:
    cases = {**hostile(), **bombs()}
    paths = [write(tmp_path / f"{n}.parquet", content) for n, (content, _) in enumerate(cases.values())]
    found = dict(zip(cases, outcomes(*paths), strict=True))
    assert {name: said for name, (_, said) in cases.items() if said not in found[name]} == {}, found


def test_the_command_line_says_it_and_exits_with_2(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And nothing else on stderr, also not from the libraries that read."""
    path = write(tmp_path / "rows.parquet", deep(20_000))
    words = ["run", "--input", path, "--unknown-domain", "--mechanism", "limit-domain", "--k", "1", "--epsilon", "1",
             "--delta", "1e-6", "--output", tmp_path / "out.csv"]  # fmt: skip
    done = command(*words)
    assert done.status == 2 and done.err.count("\n") == 1 and NONE in done.err, done.err
    assert capfd.readouterr().err == ""


def by_arrow(users: list[str], **options: object) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"user": pa.array(users, pa.large_string()), "item": ["i"] * len(users)})
    pq.write_table(table, sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    names = [f"user {n % 70}" for n in range(5000)]
    content = by_arrow(names, use_dictionary=False, column_encoding={"user": encoding, "item": encoding},
                       row_group_size=900, data_page_size=1000)  # fmt: skip
    assert [user for user, _ in read(write(tmp_path / "rows.parquet", content)).rows] == names


@in_check("options1")
@pytest.mark.parametrize(
    "options", [{"use_dictionary": False, "column_encoding": {"user": "DELTA_BYTE_ARRAY", "item": "PLAIN"}},
                {"use_dictionary": False, "compression": "zstd", "write_batch_size": 10},
                {"dictionary_pagesize_limit": 8 << 20}]
)  # fmt: skip
def test_long_labels_are_read_a_few_at_a_time(tmp_path: Path, options: dict) -> None:
    """Half of the rows have a label of a megabyte, which takes next to nothing in the file."""
    path = write(tmp_path / "rows.parquet", by_arrow(["short"] * 180 + ["x" * (1 << 20)] * 180, **options))
    parts = list(parquet.read(str(path), 0, 1, Columns()))
    sizes = [(len(part.columns["user"]), as_labels(texts_of(part.columns["user"])[0]).nbytes) for part in parts]
    assert sum(rows for rows, _ in sizes) == 360 and max(size for _, size in sizes) < 150 << 20


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_pages_hold_the_rows_of_their_group_however_they_are_written(version: str, codec: str) -> None:
    content = io.BytesIO(by_arrow([f"u{n % 300}" for n in range(3000)], compression=codec, data_page_version=version,
                                  row_group_size=1000, data_page_size=200, dictionary_pagesize_limit=500,
                                  write_page_index=version == "2.0"))  # fmt: skip
    groups = groups_of(content, "rows.parquet")
    assert [group.rows for group in groups] == [1000] * 3
    lengths = check_pages(content, "rows.parquet", groups, ["user", "item"])
    assert len(lengths.dictionaries) == 6 and 1 <= lengths.longest < 100


def test_a_struct_that_is_cut_anywhere_does_not_end() -> None:
    content = make.struct({1: I32(-7), 2: [b"a", b"b"], 3: {1: I64(2**40)}, 40: [{5: I32(1)}] * 20, 41: b"x" * 200})
    facts, end = decode(content)
    assert end == len(content) and facts == {1: -7, 2: [b"a", b"b"], 3: {1: 2**40}, 40: [{5: 1}] * 20, 41: b"x" * 200}
    for cut in range(len(content)):
        with pytest.raises(Short):
            decode(content[:cut])
    with pytest.raises(Broken, match="too deep"):
        decode(b"\x1c" * 5000)
    with pytest.raises(Short):
        decode(b"\x19\xf5\xff\xff\xff\xff\x0f")  # a list of four milliard numbers


def test_random_bytes_are_refused(tmp_path: Path) -> None:
    for size in (0, 3, 8, 11, 12, 500):
        with pytest.raises(Refusal, match="is not a Parquet file"):
            read(write(tmp_path / "rows.parquet", b"PAR1" + bytes(size) + b"PAR1"))
