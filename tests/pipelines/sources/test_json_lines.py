from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from private_topk.pipelines.files import match
from private_topk.pipelines.sources import Columns
from private_topk.pipelines.sources.formats import cut_into_pieces
from private_topk.pipelines.sources.payloads import make_payload
from private_topk.transforms.errors import InvalidArgument
from tests.pipelines.sources.contract import FormatContract
from tests.pipelines.support import Rows, packed, read, reasons, to_json_lines, write
from tests.refusals import refused

GOOD = '{"user": 5, "item": "a"}'


class TestFormat(FormatContract):
    ending = ".jsonl"
    headed = False

    def content(self, rows: Rows) -> bytes:
        return to_json_lines(rows)


@pytest.mark.parametrize("ending", [".jsonl", ".ndjson.gz", ".json"])
def test_values_of_json_lines_are_read_as_labels(tmp_path: Path, ending: str) -> None:
    lines = [
        GOOD,
        "",
        '{"z": {"deep": [1, {"q": null}]}, "item": "é🎵\\ud83d\\ude00", "user": "5"}',
        '{"item": "b"}',
        '{"user": null, "item": "b"}',
        '{"user": "", "item": "b"}',
        '{"user": "\\t", "item": "a\\n\\"b\\"\\\\c"}',
        json.dumps({"user": 2**70, "item": -7}),
    ]
    content = "\r\n".join(lines).encode()
    path = write(tmp_path / f"rows{ending}", gzip.compress(content) if ending.endswith("gz") else content)
    rows = [("5", "a"), ("5", "é🎵😀"), ("\t", 'a\n"b"\\c'), (str(2**70), "-7")]
    assert read(path) == (rows, 3)


def test_a_row_that_has_a_stated_column_too_is_dropped_by_itself_whatever_it_holds(tmp_path: Path) -> None:
    held = [{"c": "DE"}, {"c": "FR"}, {"c": {}}, {"c": None}, {}]
    path = write(tmp_path / "rows.jsonl", "\n".join(json.dumps({"user": "u", "item": "i"} | more) for more in held))
    stated = Columns(group="c", constants=(("c", "DE"),))
    assert read(path, stated) == ([("u", "i", "DE")] * 2, 3)
    assert reasons(path, stated) == {"unreadable": 3}
    [piece] = cut_into_pieces(match(str(path)), stated)
    assert [*next(piece.rows()).causes().values()] == [3]


def test_times_of_json_lines_are_read_or_dropped(tmp_path: Path) -> None:
    times = [1700000000, 1700000000.5, "2026-01-01T00:00:00Z", "1700000000", None, "", "never", 10**19]
    text = "".join(json.dumps({"user": "u", "item": "i", "time": time}) + "\n" for time in times)
    micros = [1700000000 * 10**6, 17000000005 * 10**5, 1767225600 * 10**6, 1700000000 * 10**6]
    path = write(tmp_path / "rows.jsonl", text)
    assert read(path, Columns(time="time")) == ([("u", "i", micro) for micro in micros], 4)
    assert reasons(path, Columns(time="time")) == {"null": 2, "unreadable": 2}


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".ndjson.gz"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_lines_in_another_encoding_are_refused_by_its_name(tmp_path: Path, ending: str, encoding: str) -> None:
    """All of their rows would be unreadable, which a run without an operator's eye publishes as noise."""
    path = write(tmp_path / f"rows{ending}", packed(GOOD.encode(encoding), ending))
    told = rf"rows.* is in {encoding.upper()}, .* UTF-8: write it in UTF-8, as iconv"
    with pytest.raises(InvalidArgument, match=told):
        read(path)


def test_lines_that_are_packed_and_do_not_say_so_are_refused_by_what_they_are(tmp_path: Path) -> None:
    zstd = packed(GOOD.encode(), ".zst")
    for content, told in ((zstd, ["holds zstd", "rows.jsonl.zst"]), (b"PK\3\4", ["holds zip", "unpack it"])):
        with refused("", *told):
            read(write(tmp_path / "rows.jsonl", content))


BROKEN = [
    '{"user": "m", "it',
    "[1]",
    "null",
    "x",
    '{"user": 1.5, "item": 2}',
    '{"user": 5.0, "item": 2}',
    '{"user": ["m"], "item": 2}',
    '{"user": true, "item": 2}',
    '{"user": NaN, "item": 2}',
    '{"user": "m", "item": 2}{"user": "n", "item": 2}',
    '{"user": "\\ud800", "item": 2}',
    '{"user": 1, "item": ' + "[" * 5000 + "]" * 5000 + "}",
    '{"user": 1, "item": 2, "z": ' + "[" * 100_000,
]


@pytest.mark.parametrize("place", [0, 1500, 2000])
def test_a_row_that_cannot_be_read_is_dropped_by_itself_wherever_it_stands(tmp_path: Path, place: int) -> None:
    for broken in BROKEN:
        lines = [GOOD] * 2000
        lines.insert(place, broken)
        path = write(tmp_path / "rows.jsonl", "\n".join(lines))
        assert read(path) == ([("5", "a")] * 2000, 1), broken[:50]
        assert reasons(path) == {"unreadable": 1}


def test_an_object_that_is_too_deep_for_the_parser_is_dropped_alone(tmp_path: Path) -> None:
    start = '{"user": "u", "item": "i", "z": '
    closed = [start + "[" * depth + "]" * depth + "}" for depth in (100, 10**5, 10**6)]
    wide = start + "[" + "[]," * 5000 + "0]}"
    opened = [start + bracket * depth for bracket in ("[", '{"a":') for depth in (99, 10**5, 10**6)]
    path = write(tmp_path / "rows.jsonl", "\n".join([*opened, *closed, wide, GOOD]))
    assert read(path) == ([("u", "i"), ("u", "i"), ("5", "a")], len(opened) + 2)
    assert reasons(path) == {"unreadable": len(opened) + 2}


def test_a_value_has_100_levels_at_most_however_much_of_the_stack_is_left(tmp_path: Path) -> None:
    """Runners leave more of it or less, and the same rows must count on all. A bracket in a text is no level."""
    kinds = [("[", "]"), ('{"a\\"[{": ', "}"), ('[1, "]\\\\", ', "]"), ('[[0], {"}": 0}, ', "]")]
    rows = ['{"user": "u", "item": "i", "z": %s}', '{"z": %s, "user": "u", "item": "i"}']

    def nested(depth: int) -> list[str]:
        """The last bracket stands at this depth; of the last kind it is beside the value."""
        values = [opened * (depth - 1) + '["{["]' + closed * (depth - 1) for opened, closed in kinds]
        return [row % value for row in rows for value in values]

    path = write(tmp_path / "rows.jsonl", "\n".join([*nested(100), *nested(101), *nested(900)]))

    def from_below(calls: int) -> object:
        return from_below(calls - 1) if calls else read(path)

    assert read(path) == from_below(400) == ([("u", "i")] * 8, 16)


@pytest.mark.parametrize("name", ["user", "größe", "имя", "a/b", "c0", "\u2028"])
def test_columns_of_any_name_however_a_writer_spells_it(tmp_path: Path, name: str) -> None:
    """Of a key that is there twice, in any spelling, the last value counts; in an inner object it is another's."""
    spelt = "".join(f"\\u{ord(letter):04x}" for letter in name)
    keys = [json.dumps(name), json.dumps(name, ensure_ascii=False), f'"{spelt}"']
    keys.append(json.dumps(name).replace("/", "\\/"))
    lines = [f'{{{key}: {n}, "item": "i"}}' for n, key in enumerate(keys)]
    doubled = [f'{{{one}: 1, "item": "i", {other}: 2}}' for one in keys for other in keys]
    inner = f'{{{keys[0]}: 9, "item": "i", "z": {{{keys[0]}: 2}}}}'
    path = write(tmp_path / "rows.jsonl", "\n".join([*lines, *doubled, inner]))
    rows = [*((f"{n}", "i") for n in range(len(keys))), *[("2", "i")] * len(doubled), ("9", "i")]
    assert read(path, Columns(user=name)) == (rows, 0)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "\t"])
def test_a_column_whose_name_json_would_escape_is_refused(tmp_path: Path, name: str) -> None:
    with refused("", "cannot be read from JSON: its name has a quote, a backslash or"):
        read(write(tmp_path / "rows.jsonl", GOOD), Columns(user=name))
    with refused("", "cannot be read from JSON"):
        make_payload("json", None, Columns(user=name, time="time"))


def test_what_other_keys_hold_does_not_matter_if_it_is_json(tmp_path: Path) -> None:
    others = ["1e400", "9" * 5000, '{"a": 1, "a": 2}', '[{"user": 1}, {"item": [2]}]', '"\\u0000"', "-0"]
    lines = [f'{{"z": {other}, "user": "u", "item": {n}}}' for n, other in enumerate(others)]
    broken = [f'{{"z": {other}, "user": "u", "item": 7}}' for other in ("tru", "01", '"\\ud800"', '"\\x"', "NaN")]
    path = write(tmp_path / "rows.jsonl", "\n".join([*lines, *broken]))
    assert read(path) == ([("u", f"{n}") for n in range(len(others))], len(broken))


def test_numbers_of_any_length_are_labels_digit_by_digit_as_far_as_labels_go(tmp_path: Path) -> None:
    numbers = ["18446744073709551616", "-9223372036854775809", "9" * 4096, "-0", "0", "9" * 5000]
    lines = [f'{{"user": {number}, "item": "i"}}' for number in numbers]
    path = write(tmp_path / "rows.jsonl", "\n".join(lines))
    assert read(path) == ([(number if number != "-0" else "0", "i") for number in numbers[:-1]], 1)


def test_quotes_that_are_not_closed_cost_no_more_than_their_line(tmp_path: Path) -> None:
    """Brackets enough to be looked at, and then a string without an end: each quote in it could be another's start."""
    path = write(tmp_path / "rows.jsonl", '{"z": ' + "[" * 101 + '"' + '\\"' * 2_000_000 + "\n" + GOOD)
    assert read(path) == ([("5", "a")], 1)
