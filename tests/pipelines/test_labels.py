"""One rule for what a label may be: in rows of every format, in lists, in elements, and in what is published."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from apache_beam.testing.util import assert_that, equal_to

from private_topk.pipelines.rank import rank
from private_topk.transforms.domain import UnknownDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import make_mechanism
from private_topk.transforms.rows import MakeBlocks
from tests.pipelines.support import avro_schema, command, options, to_avro, write
from tests.refusals import refused
from tests.transforms.pipelines import create

LABELS = [
    *("tea", "a\nb", "\n", "\r\n", 'say "x"', '"', '""', "\ufefftea", "tea\ufeff", "x" * 4096, "a\rb", "a\r"),
    *("\ra", "  lead", "trail ", " ", "\t", "\\N", "null", "NULL", "NaN", "NA", "None", "true", "a,b", "'"),
    *("-", "é", "e\u0301", "\x85", "\u2028", "\x1a", "\x7f", "=1+1", "#c", "a\\", "0", "007", "1e5"),
    *("\U0001f375"),
]
NO_LABELS = ["", "a\0b", "\0", "x" * 4097]
ASKED = dict(unknown_domain=True, mechanism="weighted-gaussian", epsilon=200, delta=1e-3, max_items_per_user=100)


def rows() -> list[dict[str, Any]]:
    """Every text is held by 100 users. Users too have odd names, of which the last four are none."""
    some = [{"user": f"u{n}", "item": item} for item in [*LABELS, *NO_LABELS] for n in range(100)]
    odd = [{"user": user, "item": "tea"} for user in LABELS]
    return [*some, *odd, *({"user": user, "item": "by nobody"} for user in NO_LABELS for _ in range(100))]


def published(path: Path) -> list[str]:
    """The items of a ranking, by plain readers."""
    if path.suffix == ".avro":
        return [row["item"] for row in fastavro.reader(io.BytesIO(path.read_bytes()))]
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)["item"].to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line)["item"] for line in path.read_bytes().decode().split("\n") if line]
    texts = pa.csv.ConvertOptions(column_types={"item": pa.string()}, strings_can_be_null=False)
    return pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(newlines_in_values=True), convert_options=texts)[
        "item"
    ].to_pylist()


@pytest.mark.parametrize(
    ("read", "written"),
    [(".jsonl", ".csv"), (".avro", ".jsonl"), (".parquet", ".avro"), (".jsonl", ".parquet"), (".csv", ".csv")],
)
def test_published_labels_are_the_same_in_every_format_and_read_back(tmp_path: Path, read: str, written: str) -> None:
    """A line feed is no part of a line of CSV, and a bare carriage return in quotes is."""
    schema = avro_schema(user="string", item="string")
    write(tmp_path / f"rows{read}", to_avro(rows(), schema) if read == ".avro" else rows())
    first, second = tmp_path / f"first{written}", tmp_path / f"second{written}"
    done = command("run", *options(input=tmp_path / f"rows{read}", output=first, **ASKED))
    assert done.status == 0, done.err
    wanted = [item for item in LABELS if read != ".csv" or "\n" not in item]
    assert sorted(published(first)) == sorted(wanted)
    done = command("run", *options(input=tmp_path / f"rows{read}", found=first, output=second, **ASKED))
    assert done.status == 0, done.err
    assert sorted(published(second)) == sorted(wanted)
    facts = json.loads((tmp_path / "second.manifest.json").read_text())
    assert facts["domain"]["catalogue"]["size"] == len(wanted)


def test_frames_and_elements_know_the_same_labels() -> None:
    half = "\ud83c"  # of a surrogate pair
    pairs = [(row["user"], row["item"]) for row in rows()] + [("u1", half), (half, "tea")]
    mechanism = make_mechanism("weighted-gaussian", epsilon=200, delta=1e-3, max_items_per_user=100)
    frame = pd.DataFrame(pairs, columns=["user", "item"], dtype=object)
    assert sorted(rank(frame, None, mechanism, UnknownDomain()).items) == sorted(LABELS)
    pairs = [pair for pair in pairs if half not in pair]  # Beam itself sends no such text from worker to worker
    with beam.Pipeline("FnApiRunner") as pipeline:
        blocks = pipeline | create(pairs) | MakeBlocks()
        left = blocks | beam.FlatMap(lambda it: zip(it["user"].to_pylist(), it["item"].to_pylist(), strict=True))
        wanted = [(user, item) for user, item in pairs if {user, item}.isdisjoint(NO_LABELS)]
        assert_that(left, equal_to(wanted))


@pytest.mark.parametrize(
    ("field", "lists"),
    [
        ("domain", {"domain": ["tea", "\ud800"]}),
        ("domain", {"domain": {"x": ["tea", "cup\udfff"]}}),
        ("domain", {"domain": [("x", "tea"), ("x", "\ud800")], "item": ["shop", "item"]}),
        ("groups", {"domain": ["tea"], "groups": ["x", "\ud800"]}),
    ],
)
def test_lists_with_half_of_a_surrogate_pair_are_refused(field: str, lists: dict[str, Any]) -> None:
    """No file can hold one, and neither can a block."""
    with refused(field, "must hold texts of whole characters, got one with half of a surrogate pair: leave it out"):
        frame = pd.DataFrame({"user": ["u"], "item": ["tea"], "group": ["x"], "shop": ["x"]})
        rank(frame, 1, "joint", **lists, epsilon=1)


@pytest.mark.parametrize(("text", "rule"), [("", "empty values"), ("a\0b", "NUL characters"), ("x" * 4097, "4,096")])
def test_lists_with_other_texts_are_refused(tmp_path: Path, text: str, rule: str) -> None:
    """Of items and of groups, in a file of any format or in memory. A list of CSV with a NUL is no CSV."""
    frame = pd.DataFrame({"user": ["u"], "item": ["tea"], "group": ["x"]})
    with pytest.raises(InvalidArgument, match=rule):
        rank(frame, 1, "joint", ["tea", text], epsilon=1)
    with pytest.raises(InvalidArgument, match=rule):
        rank(frame, 1, "joint", ["tea"], epsilon=1, groups=["x", text])
    for name in ("list.jsonl", "list.parquet", "list.avro", "list.csv", "list.txt"):
        listed: Any = [{"item": "tea", "group": "x"}, {"item": text, "group": text}]
        if name == "list.avro":
            listed = to_avro(listed, avro_schema(item="string", group="string"))
        write(tmp_path / name, f"tea\n{text}\nx\n" if name == "list.txt" else listed)
        write(tmp_path / "rows.csv", "user,item,group\nu,tea,x\n")
        write(tmp_path / "good.txt", "tea\n")
        for lists in (
            {"domain": tmp_path / name},
            {"domain": tmp_path / "good.txt", "groups": tmp_path / name, "group_column": "group"},
        ):
            places = {"input": tmp_path / "rows.csv", "output": tmp_path / "out.csv"}
            done = command("run", *options(**places, mechanism="joint", k=1, epsilon=1, **lists))
            assert done.status == 2 and f"{tmp_path / name}" in done.err
            assert not (tmp_path / "out.csv").exists()
