from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.sources import Columns
from tests.pipelines.support import read, write

GOOD = '{"user": 5, "item": "a"}'


@pytest.mark.parametrize("ending", [".jsonl", ".ndjson.gz", ".json"])
def test_values(tmp_path: Path, ending: str) -> None:
    lines = [
        GOOD,
        "",
        '{"z": {"deep": [1, {"q": null}]}, "item": "é🎵\\ud83d\\ude00", "user": "5"}',
        '{"item": "b"}',
        '{"user": null, "item": "b"}',
        '{"user": "", "item": "a\\n\\"b\\"\\\\c"}',
        json.dumps({"user": 2**70, "item": -7}),
    ]
    content = "\r\n".join(lines).encode()
    path = write(tmp_path / f"rows{ending}", gzip.compress(content) if ending.endswith("gz") else content)
    rows = [("5", "a"), ("5", "é🎵😀"), ("", 'a\n"b"\\c'), (str(2**70), "-7")]
    assert read(path) == (rows, 2)


def test_times(tmp_path: Path) -> None:
    times = [1700000000, 1700000000.5, "2026-01-01T00:00:00Z", "1700000000", None, "never", 10**19]
    text = "".join(json.dumps({"user": "u", "item": "i", "time": time}) + "\n" for time in times)
    micros = [1700000000 * 10**6, 17000000005 * 10**5, 1767225600 * 10**6, 1700000000 * 10**6]
    path = write(tmp_path / "rows.jsonl", text)
    assert read(path, Columns(time="time")) == ([("u", "i", micro) for micro in micros], 3)


def test_byte_order_mark_and_no_rows(tmp_path: Path) -> None:
    assert read(write(tmp_path / "rows.jsonl", "\ufeff" + GOOD)).rows == [("5", "a")]
    for empty in ("", "\n\n"):
        assert read(write(tmp_path / "rows.jsonl", empty)) == ([], 0)


def test_a_file_of_several_chunks(tmp_path: Path) -> None:
    rows = [(f"user {n}", f"item {n % 100} " * 10) for n in range(60_000)]
    text = "\n".join(json.dumps({"user": user, "item": item}) for user, item in rows)
    assert len(text) > 6 << 20
    assert read(write(tmp_path / "rows.jsonl", text)).rows == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]\n", "not a JSON lines file: every line must be one JSON object"),
        ("user,item\nsecret,b\n", "every line must be one JSON object"),
        ('{"user": "secret"', "every line must be one JSON object"),
        ('{"secret": 1, "item": 2}\n', "none of the first lines has 'user': name the column that is meant"),
        ('{"user": true, "item": 2}\n', "column 'user' must hold strings or integers, got bool"),
        ('{"user": 1.5, "item": 2}\n', "got float"),
        ('{"user": ["secret"], "item": 2}\n', "got list"),
        ('{"user": 1, "item": ' + "[" * 5000 + "]" * 5000 + "}\n", "one JSON object|got list"),
        ((GOOD + "\n") * 1500 + '{"user": "secret", "it\n', "every line must be one JSON object"),
        ((GOOD + "\n") * 1500 + "[1]\n", "every line must be one JSON object"),
    ],
)
def test_foreign_files_are_refused_without_showing_them(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(write(tmp_path / "rows.jsonl", text))
    assert "rows.jsonl" in str(caught.value) and "secret" not in str(caught.value)


def test_a_line_without_end_asks_for_no_memory(tmp_path: Path) -> None:
    content = gzip.compress(b'{"user": "' + b"a" * (80 << 20), 1)
    with pytest.raises(InputError, match="a line of more than 64 MiB"):
        read(write(tmp_path / "rows.jsonl.gz", content))
