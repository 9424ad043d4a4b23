"""What one user's row can do to a job: nothing, however long it is. It is left out, and the others are published."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pytest
from apache_beam.testing.util import assert_that, equal_to

from private_topk.pipelines.sources import Columns
from private_topk.pipelines.sources.payloads import make_payload
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.metric import Amounts
from private_topk.transforms.rows import MakeBlocks
from private_topk.transforms.top_k import PrivateTopK
from tests.pipelines.support import avro_schema, command, options
from tests.refusals import refused
from tests.transforms.pipelines import create

LONGEST = 4096
TOO_LONG = "é" * (LONGEST // 2) + "x"


def test_too_long_elements_are_dropped_and_long_ones_split_into_blocks() -> None:
    """Of a bundle of 30,000 long labels, 120 MB, no block holds all."""
    pairs = [("u", TOO_LONG), (TOO_LONG, "tea"), ("u", 10**20_000), (10**4095, "tea"), ("u", -(10**4095))]
    with beam.Pipeline("FnApiRunner") as pipeline:
        sizes = pipeline | create(pairs) | MakeBlocks() | beam.Map(lambda block: block["user"].to_pylist())
        assert_that(sizes, equal_to([["1" + "0" * 4095]]))
    with beam.Pipeline("FnApiRunner") as pipeline:
        many = pipeline | create([0]) | beam.FlatMap(lambda _: ((n, "x" * 4090 + f"{n:05}") for n in range(30_000)))
        blocks = many | MakeBlocks() | beam.Map(lambda block: (len(block), block.nbytes))
        assert_that(blocks, _small)


def _small(found: list[tuple[int, int]]) -> None:
    assert sum(rows for rows, _ in found) == 30_000 and all(size <= 17 << 20 for _, size in found)


def test_amounts_of_an_element_that_are_no_numbers() -> None:
    rows = [("u", "tea", Decimal("sNaN")), ("u", "tea", 10**400), *((f"u{n}", "tea", 1) for n in range(50))]
    with beam.Pipeline("FnApiRunner") as pipeline:
        ranking = pipeline | create(rows) | PrivateTopK(1, Joint(20.0), ["tea", "cake"], amounts=Amounts(5))
        assert_that(ranking | beam.Map(lambda it: list(it.items)), equal_to([["tea"]]))


WEIGHTLESS = [
    "null",
    {"type": "record", "name": "nothing", "fields": []},
    {"type": "record", "name": "nothing", "fields": [{"name": "more", "type": "null"}]},
    {"type": "fixed", "name": "nothing", "size": 0},
]


@pytest.mark.parametrize("items", WEIGHTLESS)
@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: ["null", it], lambda it: {"type": "map", "values": it}])
def test_a_schema_with_arrays_of_empty_values_is_refused(tmp_path: Path, items: Any, wrap: Any) -> None:  # noqa: ANN401
    """Each takes no byte, and would take Python a while: 50 s and 8 GB for a row of 20 bytes."""
    schema = avro_schema(user="string", item="string", more=wrap({"type": "array", "items": items}))
    with (tmp_path / "rows.avro").open("wb") as sink:
        fastavro.writer(sink, schema, [])
    (tmp_path / "schema.avsc").write_text(json.dumps(schema))
    places = {"input": tmp_path / "rows.avro", "domain": tmp_path / "none.txt", "output": tmp_path / "out.csv"}
    asked = options(**places, mechanism="joint", k=1, epsilon=1)
    assert command("run", *asked).status == 2
    with refused("payload_schema", "array of items without bytes: one row could hold a billion"):
        make_payload("avro", str(tmp_path / "schema.avsc"), Columns())
    (tmp_path / "none.txt").write_text("tea\n")
    done = command("run", *asked)
    assert done.status == 2 and "an array of items without bytes" in done.err


@pytest.mark.parametrize("watched", [False, True])
def test_a_file_whose_name_is_no_utf_8(tmp_path: Path, watched: bool) -> None:
    name = os.path.join(os.fsencode(tmp_path), b"rows-\xff.jsonl")
    with open(name, "w") as sink:
        sink.writelines(json.dumps({"user": f"u{n}", "item": "tea", "time": 1_767_600_000}) + "\n" for n in range(99))
    (tmp_path / "items.txt").write_text("tea\ncake\n")
    words = options(input=tmp_path / "rows-*.jsonl", domain=tmp_path / "items.txt", mechanism="joint", k=1, epsilon=20)
    if watched:
        words += ["--from", "2026-01-05", "--to", "2026-01-06", "--window", "1d", "--clock", "log", "--poll", "1s"]
        done = command("stream", *words, "--output", str(tmp_path / "out"), "--output-format", "csv")
    else:
        done = command("run", *words, "--output", str(tmp_path / "out.csv"))
    assert done.status == 0, done.err
