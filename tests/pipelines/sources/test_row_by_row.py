"""What a row means depends on that row alone: random rows, hostile rows, every split, each as it is read by itself."""

from __future__ import annotations

import codecs
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from private_topk.pipelines.sources import Columns, text
from private_topk.pipelines.sources import csv as csv_source
from private_topk.pipelines.sources import json_lines as json_source
from private_topk.pipelines.sources.columns import block_of, to_microseconds
from private_topk.pipelines.sources.payloads import JsonPayload
from private_topk.pipelines.texts import encoding
from private_topk.transforms.metric import as_numbers
from tests.examples import examples

SLOW = examples(150)
TIMED = Columns(time="time")

labels = st.text(st.sampled_from('ab",\n\r\\é🎵 \x00{}[]:'), max_size=4)
numbers = st.one_of(st.integers(-(2**70), 2**70), st.sampled_from([0, -1, 2**63, 2**64, 10**40])).map(str)
reals = st.sampled_from(["5.0", "1e3", "-0", "-0.0", "1e400", "1.5", "1E5", "1767225600.25", "1e22", "5e-7", "0.1"])
times = st.sampled_from(
    [
        *("2026-01-01", "2026-01-01T05:06:07Z", "2026-01-01 05:06", "2026-01-01T23:59:60Z"),
        *("9999-12-31T23:59:59.9999999Z", "0000-02-29", "2026-02-29", "10000-01-01", "2026-W01-1", "2026-001"),
        *("20260101", "1767225600", "-5", "+5", "1e400", "nan", "0x10", " 5", "2026-01-01T05:06:07-00:30"),
        *("2026-01-01T05+0130", "2026-01-01T05:06+24:00", "2026-01-05 10:30:00 UTC", "2026-01-05 10:30:00.25 -0800"),
        *("2026-01-05 10:30:00  UTC", "2026-01-05 10:30:00UTC", "", "never", "2026-01-01t05:06:07z", "٢٠٢٦-01-01"),
        *("-0001-01-01", "1969-12-31T23:59:59.9999999"),
    ]
)
broken = st.sampled_from(["NaN", "Infinity", "007", "+1", "1.", ".5", "'x'", "tru", "-", "\x00", '"\\x"', '"a\tb"'])
halves = st.sampled_from(['"\\ud800"', '"\\ud83d\\ude00"', '"\\u0041"', '"\\uDC00x"', '"\\\\ud83d\\ude00"'])


def values(depth: int = 2) -> st.SearchStrategy[str]:
    texts = st.one_of(labels, times).flatmap(
        lambda t: st.sampled_from([json.dumps(t), json.dumps(t, ensure_ascii=False)])
    )
    flat = st.one_of(texts, texts, numbers, reals, st.sampled_from(["true", "false", "null"]), halves, broken)
    if not depth:
        return flat
    inner = st.deferred(lambda: values(depth - 1))
    lists = st.lists(inner, max_size=2).map(lambda found: "[" + ",".join(found) + "]")
    return st.one_of(flat, flat, flat, lists, st.deferred(lambda: objects(depth - 1)))


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> str:
    keys = draw(st.lists(st.sampled_from(['"z"', '"us\\u0065r"', '"a\\"user"', '"user"', '"item"']), max_size=2))
    if draw(st.booleans()):
        keys = draw(st.permutations(['"user"', '"item"', '"time"', *keys[:1]]))
    space = st.sampled_from(["", "", " ", "\t", "\r"])
    pairs = [draw(space) + key + draw(space) + ":" + draw(space) + draw(values(depth)) for key in keys]
    return "{" + ",".join(pairs) + draw(space) + "}"


json_lines = st.one_of(
    objects().map(lambda line: line.replace("\n", " ").encode()),
    objects().map(lambda line: line.replace("\n", " ").encode()),
    st.sampled_from(
        [
            *(b"", b" ", b"\x0b", b"[1]", b"null", b'{"user":"m","item":"x","y":', b"} {} {}", b"\xef\xbb\xbf{}"),
            *(b"\xef\xbb\xbf", b'\xef\xbb\xbf{"user":"a","item":"b","time":1}'),
            *(b'{"user":"\xef\xbb\xbfa","item":"b","time":1}', b'{"user":"\xff","item":"b","time":1}'),
            *(b'{"user":"a","item":"b","time":1} {}', b"{"),
            *(b'{"user":"a","item":"b","z":' + b"[" * 99 + b"]" * 99 + b',"time":5}',),
            *(b'{"user":"a","item":"b","z":' + b"[" * 100 + b"]" * 100 + b',"time":5}', b'{"z":' + b"[" * 5000),
        ]
    ),
)


def found(parts: list, columns: Columns) -> tuple[list[tuple], dict[str, int]]:
    rows, reasons = [], Counter[str]()
    for part in parts:
        block, missing = block_of(part, columns)
        rows += zip(*(column.to_pylist() for column in block.columns), strict=True)
        reasons.update(missing)
    return rows, dict(reasons)


@SLOW
@given(st.lists(json_lines, max_size=9), st.integers(1, 80))
@example([b'{"user":"m","item":"x","y":', b'{"user":"a","item":"b"}', b"} {} {}"], 5)
def test_lines_of_json_are_read_the_same_alone_and_among_others(lines: list[bytes], chunk: int) -> None:
    """In a file, wherever its chunks end, as one message each, whose byte order mark is none of the line's."""
    for ending in (b"\n", b"\r\n"):
        content = ending.join(lines)
        apart = [line for line in content.removeprefix(codecs.BOM_UTF8).split(b"\n") if line.strip(b" \t\r")]
        alone = [found([JsonPayload().rows([codecs.BOM_UTF8 + line], TIMED)], TIMED) for line in apart]
        expected = [row for rows, _ in alone for row in rows]
        with patch.object(text, "_BYTES", chunk):
            rows, reasons = found(_json_parts(content), TIMED)
        assert rows == expected and reasons == dict(sum((Counter(some) for _, some in alone), Counter()))


def _json_parts(content: bytes) -> list:
    with patch.object(json_source, "open_content", lambda path: io.BytesIO(content)):
        return list(json_source.read("x.jsonl", 0, 0, TIMED))


@SLOW
@given(st.lists(objects().map(str.encode), max_size=6), st.randoms(use_true_random=False))
def test_a_message_is_read_the_same_alone_and_among_others(messages: list[bytes], random) -> None:  # noqa: ANN001
    """A message may hold line ends where JSON has white space; otherwise it is a line."""
    alone = [found([JsonPayload().rows([message], TIMED)], TIMED) for message in messages]
    order = list(range(len(messages)))
    random.shuffle(order)
    rows, reasons = found([JsonPayload().rows([messages[n] for n in order], TIMED)], TIMED)
    assert rows == [row for n in order for row in alone[n][0]]
    assert reasons == dict(sum((Counter(alone[n][1]) for n in order), Counter()))


WIDE = Columns(time="time", value="amount", group="group")
amounts = st.one_of(
    numbers,
    reals,
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        [
            *("+1", ".5", "1.", "007", "1e400", "-1e400", "nan", "inf", "1_0", "0x1", " 1", "1 ", "\u0661", "", "1e"),
            *("1e-400", "true", "1,5", "9" * 40, "0." + "1" * 400),
        ]
    ),
)


@st.composite
def wide_objects(draw: st.DrawFn) -> bytes:
    """Most of them are whole; a group and an amount may be anything."""
    number = draw(amounts)
    kinds = {
        "user": '"u"',
        "item": '"i"',
        "time": "5",
        "group": draw(values(0)),
        "amount": draw(st.one_of(st.just(number), st.just(json.dumps(number)), values(1))),
    }
    names = draw(st.permutations([*kinds, *draw(st.lists(st.sampled_from(["group", "amount"]), max_size=1))]))
    return ("{" + ",".join(f'"{name}":{kinds[name]}' for name in names[draw(st.integers(0, 1)) :]) + "}").encode()


@examples(60)
@given(st.lists(wide_objects(), min_size=1, max_size=9))
def test_groups_and_amounts_are_read_the_same_alone_and_among_others(messages: list[bytes]) -> None:
    alone = [found([JsonPayload().rows([message], WIDE)], WIDE) for message in messages]
    together = found([JsonPayload().rows(messages, WIDE)], WIDE)
    expected = [row for rows, _ in alone for row in rows]
    reasons = dict(sum((Counter(some) for _, some in alone), Counter()))
    assert together == (expected, reasons)


@SLOW
@given(st.lists(amounts | st.text(st.sampled_from("0123456789+-.eE _inf"), max_size=12), max_size=9))
def test_texts_are_amounts_by_themselves(texts: list[str]) -> None:
    """Whatever else stands in the column."""
    alone = [as_numbers(pa.array([text], pa.string())).to_pylist()[0] for text in texts]
    assert as_numbers(pa.array(texts, pa.string())).to_pylist() == alone


def _csv(content: bytes, columns: Columns) -> tuple[list[tuple], dict[str, int]]:
    """The rows of a CSV file, sorted, and how many were dropped."""
    with patch.object(csv_source, "open_content", lambda path: io.BytesIO(content)):
        rows, reasons = found(list(csv_source.read("x.csv", 0, 0, columns)), columns)
    return sorted(rows), reasons


def _together(apart: Iterable[tuple[list[tuple], dict[str, int]]]) -> tuple[list[tuple], dict[str, int]]:
    rows, reasons = [], Counter[str]()
    for some, dropped in apart:
        rows += some
        reasons.update(dropped)
    return sorted(rows), dict(reasons)


@SLOW
@given(
    st.lists(st.one_of(times, st.none(), st.text(st.sampled_from("0123456789-:.T Z+eUC"), max_size=12)), max_size=6),
    st.sampled_from(["s", "ms", "us"]),
)
def test_texts_are_times_by_themselves(texts: list[str | None], unit: str) -> None:
    alone = [to_microseconds(pa.array([text], pa.string()), unit).to_pylist()[0] for text in texts]
    assert to_microseconds(pa.array(texts, pa.string()), unit).to_pylist() == alone


NOON = 1_767_268_800
TIMES = {
    "2026-01-01": NOON - 12 * 3600,
    "2026-01-01T12": NOON,
    "2026-01-01 12:00": NOON,
    "2026-01-01t12:00:00z": NOON,
    "2026-01-01T12:00:00.25Z": NOON + 0.25,
    "2026-01-01T12:00:00.1234567": NOON + 0.123456,
    "2026-01-01T12:00:00-00:30": NOON + 1800,
    "2026-01-01T12+0130": NOON - 5400,
    "2026-01-01 12:00:00 -0800": NOON + 8 * 3600,
    "2026-01-01 12:00:00 UTC": NOON,
    "2024-02-29": 1_709_164_800,
    "1969-12-31T23:59:59.9999999": -0.000001,
    "0000-02-29": -62_162_121_600,
    "9999-12-31T23:59:59Z": 253_402_300_799,
    "1767268800": NOON,
    "+5": 5,
    "-5": -5,
    "007": 7,
    "1e3": 1000,
    "1.5": 1.5,
    ".5": 0.5,
}
NO_TIMES = [
    *("", "never", " 5", "nan", "0x10", "1e400", "2026-02-29", "2026-13-01", "2026-00-01", "2026-01-00"),
    *("10000-01-01",),
]
NO_TIMES += (
    "2026-01-01T24:00 2026-01-01T12:60 2026-01-01T23:59:60Z 2026-01-01T12:00+24:00 2026-01-01T12:00+00:60".split()
)
NO_TIMES += [
    "2026-W01-1",
    "2026-001",
    "20260101T00",
    "\u0662\u0660\u0662\u0666-01-01",
    "-0001-01-01",
    "2026-01-01 12:00:00  UTC",
]


def test_texts_that_are_times() -> None:
    """Each by itself and all in one column."""
    expected = [round(second * 1_000_000) for second in TIMES.values()] + [None] * len(NO_TIMES)
    texts = [*TIMES, *NO_TIMES]
    assert [to_microseconds(pa.array([text], pa.string()), "s").to_pylist()[0] for text in texts] == expected
    assert to_microseconds(pa.array(texts, pa.string()), "s").to_pylist() == expected


@SLOW
@given(
    st.lists(st.floats() | st.floats(-(2.0**62), 2.0**62) | st.integers(0, 2**40).map(float), max_size=6),
    st.sampled_from([("s", 10**6), ("ms", 10**3), ("us", 1)]),
)
def test_floats_are_times_to_the_nearest_microsecond(numbers: list[float], unit: tuple[str, int]) -> None:
    """Whole ones exactly, as if they were integers; those that are too far are none."""
    name, factor = unit
    expected = [
        None
        if not abs(number) < 36_525_000 * 86_400 * 10**6 // factor
        else int(number) * factor
        if number.is_integer()
        else round(number * factor)
        for number in numbers
    ]
    assert to_microseconds(pa.array(numbers, pa.float64()), name).to_pylist() == expected


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".jsonl.gz"])
def test_a_line_of_any_length_asks_for_no_memory_and_goes_alone(tmp_path: Path, ending: str) -> None:
    from tests.pipelines.support import read, write

    rows = {
        ".csv": [b"user,item", b"a,x", b"b," + b"y" * 30_000_000, b"c,z"],
        ".jsonl": [
            b'{"user":"a","item":"x"}',
            b'{"user":"' + b"b" * 30_000_000 + b'","item":"y"}',
            b'{"user":"c","item":"z"}',
        ],
    }[ending.removesuffix(".gz")]
    content = b"\n".join(rows)
    path = write(tmp_path / f"rows{ending}", gzip.compress(content, 1) if ending.endswith("gz") else content)
    assert read(path) == ([("a", "x"), ("c", "z")], 1)


def test_the_longest_line_is_the_same_wherever_a_chunk_ends() -> None:
    with patch.object(text, "LONGEST", 10):
        for chunk in range(1, 11):  # never more than the longest line
            with patch.object(text, "_BYTES", chunk):
                for length in (8, 9, 10, 11, 25):
                    content = b"ab\n" + b"x" * length + b"\ncd\n" + b"y" * length + b"\nef"
                    got = list(text.chunks(io.BytesIO(content)))
                    kept = [line for line in content.split(b"\n") if len(line) < 10]
                    assert b"".join(whole for whole, _ in got).split(b"\n") == kept
                    assert sum(too_long for _, too_long in got) == (0 if length < 10 else 2)


ENCODED = "utf-8 utf-16 utf-16-le utf-16-be utf-32 latin-1 cp1252 cp037 shift_jis gb18030 big5 euc_jp johab".split()
"""Encodings of two and four bytes a letter, of one, also where a line feed is another byte, and of one or more."""


@st.composite
def encoded_lines(draw: st.DrawFn, codec: str, delimiter: str) -> bytes:
    """A line as its writer encodes it, or any bytes of whole units in which no line ends."""
    end = "\n".encode(codec)
    width = len(end)
    letters = st.text(st.sampled_from('ab",;\r\ufeffé日本Ӝ\u0a0a\u0a00\u000b\x85Ā\u2028'), max_size=5)
    written = draw(st.one_of(st.tuples(letters, letters, st.just("5")).map(delimiter.join), letters))
    text = written.encode(codec, "ignore")
    if draw(st.booleans()):
        broken = draw(st.binary(min_size=1, max_size=3))
        text = draw(st.sampled_from([text + broken * width, broken * width + text, text[: -width or None] + text]))
    units = [text[at : at + width] for at in range(0, len(text), width)]
    return b"".join(unit for unit in units if unit != end and len(unit) == width)


@SLOW
@given(st.data(), st.sampled_from(ENCODED), st.integers(1, 60), st.sampled_from([",", ";", "\t"]))
def test_csv_lines_in_any_encoding_are_read_the_same_alone(
    data: st.DataObject, name: str, chunk: int, delimiter: str
) -> None:
    """Broken bytes, half pairs, and letters whose bytes hold those of a line end, beside any neighbours."""
    columns = Columns(time="time", encoding=encoding(name), delimiter=delimiter)
    codec = f"{name}-le" if name in ("utf-16", "utf-32") else name
    lines = data.draw(st.lists(encoded_lines(codec, delimiter), max_size=8))
    head = delimiter.join(["user", "item", "time"]).encode(codec)
    mark = "\ufeff".encode(codec) if name in ("utf-16", "utf-32") else b""
    content = mark + "\n".encode(codec).join([head, *lines])
    end = "\n".encode(codec)
    with patch.object(text, "_BYTES", chunk):
        assert _csv(content, columns) == _together(_csv(mark + head + end + line, columns) for line in lines)
