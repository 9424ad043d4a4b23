"""The same rows in every format are the same rows, with their groups and amounts: each reader held to the others."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from private_topk.pipelines.sources import Columns
from tests.examples import examples
from tests.pipelines.support import Rows, avro_schema, packed, read, to_avro, to_json_lines

COLUMNS = Columns(time="at", time_unit="ms", value="paid", group="land")
WHOLE = ["null", "long"]
TEXT = ["null", "string"]

labels = st.none() | st.text(st.sampled_from('ab",;\\é🎵 \u0301{}[]:#7'), min_size=1, max_size=4)
numbers = st.none() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 7, -7])
moments = st.none() | st.integers(-(10**15), 10**15) | st.sampled_from([0, 2**62, -(2**62), 1_767_225_600_000])
amounts = (
    st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([-0.0, 0.1, 5e-324, 2.0**53, 30.0])
)
wholes = st.none() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, 60])


@st.composite
def tables(draw: st.DrawFn) -> tuple[Rows, dict[str, Any], dict[str, pa.DataType]]:
    """Rows, and the types that their columns have where a format has any."""
    users, lands, paid = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    row = st.fixed_dictionaries(
        {
            "user": numbers if users else labels,
            "item": labels,
            "at": moments,
            "land": numbers if lands else labels,
            "paid": wholes if paid else amounts,
        }
    )
    avro = {
        "user": WHOLE if users else TEXT,
        "item": TEXT,
        "at": WHOLE,
        "land": WHOLE if lands else TEXT,
        "paid": WHOLE if paid else ["null", "double"],
    }
    arrow = {"long": pa.int64(), "string": pa.string(), "double": pa.float64()}
    return draw(st.lists(row, min_size=1, max_size=12)), avro, {name: arrow[kinds[1]] for name, kinds in avro.items()}


def as_csv(rows: Rows, delimiter: str = ",") -> bytes:
    """Numbers as Python writes them; what is missing is empty."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n", delimiter=delimiter)
    writer.writerow(rows[0])
    writer.writerows([["" if row[name] is None else str(row[name]) for name in rows[0]] for row in rows])
    return sink.getvalue().encode()


def as_parquet(rows: Rows, types: dict[str, pa.DataType]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(types)), sink, row_group_size=5)
    return sink.getvalue()


@examples(60)
@given(tables(), st.sampled_from([1, 40, 1 << 30]))
def test_every_format_gives_the_same_rows(
    table: tuple[Rows, dict[str, Any], dict[str, pa.DataType]], size: int
) -> None:
    """Labels that are texts or whole numbers, far times, amounts of any size; in one piece or cut into many."""
    rows, avro, arrow = table
    written = {
        "csv": as_csv(rows),
        "csv.zst": packed(as_csv(rows), ".zst"),
        "tsv": as_csv(rows, "\t"),
        "jsonl": to_json_lines(rows),
        "parquet": as_parquet(rows, arrow),
        "avro": to_avro(rows, avro_schema(**avro), sync_interval=64),
    }
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for ending, content in written.items():
            path = Path(folder, f"rows.{ending}")
            path.write_bytes(content)
            found[ending] = read(path, COLUMNS, size)
    plain = found.pop("jsonl")
    assert len(plain.rows) + plain.dropped == len(rows)
    for ending, its in found.items():
        assert json.dumps(its.rows) == json.dumps(plain.rows), ending
        assert its.dropped == plain.dropped, ending
