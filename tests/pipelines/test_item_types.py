"""Items that the schema of the rows and the public list say are integers are integers in what is published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from private_topk import Rankings
from private_topk.pipelines.question import Question
from private_topk.pipelines.registry import sink_of
from private_topk.pipelines.report import Report, source_for
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.metric import Amounts
from private_topk.transforms.spec import TopK
from tests.pipelines.support import avro_schema, command, options, to_avro, write
from tests.refusals import refused

IDS = [1_893_456_789_012_345_678, -4, 0, 77]
ROWS = [
    {"user": f"u{n}", "item": IDS[n % 2], "time": f"2026-01-0{5 + n // 2 % 2}", "shop": 1 + n % 2} for n in range(400)
]
LONG = avro_schema(user="string", item="long", time="string", shop="int")
ASKED = {
    "input": "plays.avro",
    "domain": "items.txt",
    "mechanism": "joint",
    "k": 2,
    "epsilon": 9,
    "release_key": "file:key",
    "release_id": "weekly",
    "quiet": True,
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "plays.avro", to_avro(ROWS, LONG))
    write(tmp_path / "items.txt", "".join(f"{item}\n" for item in IDS))
    write(tmp_path / "key", "a key of enough bytes")
    return tmp_path


def published(output: str, **change: object) -> Path:
    asked = {**ASKED, "output": output, **change}
    done = command("run", *options(**{name: value for name, value in asked.items() if value is not None}))
    assert done.status == 0, done.err
    return Path(output)


def items(path: Path) -> list[Any]:
    with path.open("rb") as source:
        return [row["item"] for row in fastavro.reader(source)]


def manifest(path: Path) -> dict[str, Any]:
    return json.loads(path.with_suffix(".manifest.json").read_text())


def test_a_long_of_avro_comes_back_from_every_format() -> None:
    found = published("r.avro")
    assert sorted(items(found)) == [-4, IDS[0]]
    with found.open("rb") as source:
        schema: Any = fastavro.reader(source).writer_schema
    assert {field["name"]: field["type"] for field in schema["fields"]}["item"] == "long"
    assert pl.read_avro(found).schema["item"] == pl.Int64() and manifest(found)["item_type"] == "int64"
    assert pq.read_schema(published("p.parquet")).field("item").type == pa.int64()
    lines = published("j.jsonl").read_text().splitlines()
    assert [json.loads(line)["item"] for line in lines] == items(found)
    csv = published("c.csv").read_text()
    assert re.findall(r'^,,\d,"(-?\d+)",', csv, re.M) == list(map(str, items(found)))


def test_a_check_tells_the_type_too_so_that_no_file_is_opened_twice() -> None:
    for path, integers in (("plays.avro", True), ("plays.csv", False)):
        write(Path("plays.csv"), ROWS)
        source = source_for({"input": (path,), "output": "r.csv"})
        source.check(None)
        Path(path).unlink()
        assert source.integer_items is integers


def test_a_list_beside_an_unknown_domain_has_its_say() -> None:
    asked = {
        "unknown_domain": True,
        "mechanism": "weighted-gaussian",
        "k": None,
        "delta": 1e-6,
        "max_items_per_user": 9,
    }
    write(Path("named.txt"), f"{IDS[0]}\nno number\n")
    for domain, expected in ((None, [-4, IDS[0]]), ("items.txt", IDS), ("named.txt", ["-4", str(IDS[0]), "no number"])):
        found = items(published("r.avro", **asked, domain=domain, overwrite=True, release_id=str(domain)))
        assert sorted(found) == sorted(expected)


STRINGS: dict[str, dict[str, object]] = {
    "a list with a name": {"domain": "named.txt"},
    "a list with another spelling": {"domain": "padded.txt"},
    "rows without types": {"input": "plays.csv"},
    "lines without a schema": {"input": "plays.jsonl"},
    "one file of texts among others": {"input": "*plays*.avro"},
    "more than 64 bits with a sign": {"input": "large.parquet"},
}


@pytest.mark.parametrize("case", STRINGS)
def test_items_not_declared_as_integers_stay_text(case: str) -> None:
    write(Path("named.txt"), "".join(f"{item}\n" for item in [*IDS, "tea"]))
    write(Path("padded.txt"), "".join(f"{item}\n" for item in [*IDS, "007"]))
    write(Path("plays.csv"), ROWS), write(Path("plays.jsonl"), ROWS)
    texts = [{**row, "item": str(row["item"])} for row in ROWS[:4]]
    write(Path("other plays.avro"), to_avro(texts, avro_schema(user="string", item="string")))
    table = pa.table({"user": [row["user"] for row in ROWS], "item": pa.array([0, 77] * 200, pa.uint64())})
    pq.write_table(table, "large.parquet")
    found = published("r.avro", **STRINGS[case])
    assert all(isinstance(item, str) for item in items(found)) and "item_type" not in manifest(found)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint32(), pa.int64(), pa.dictionary(pa.int32(), pa.int64())])
def test_integers_of_parquet_of_any_width_are_int64(kind: pa.DataType) -> None:
    column = pa.array([0, 77] * 200, kind.value_type if pa.types.is_dictionary(kind) else kind)
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
    pq.write_table(pa.table({"user": [row["user"] for row in ROWS], "item": column}), "r.parquet")
    assert sorted(items(published("out.avro", input="r.parquet"))) == [0, 77]


@pytest.mark.parametrize(
    "more",
    [
        {"domain": None, "unknown_domain": True, "mechanism": "limit-domain", "delta": 1e-6},
        {"domain": None, "domain_range": "-9:99"},
    ],
)
def test_without_a_list_the_rows_decide_the_item_type(more: dict[str, object]) -> None:
    assert all(isinstance(item, int) for item in items(published("r.avro", **more)))


def test_groups_stay_texts() -> None:
    write(Path("shops.txt"), "2\n1\n")
    groups: dict[str, object] = {"group_column": "shop", "groups": "shops.txt"}
    rows = pl.read_avro(published("r.avro", **groups))
    assert rows["group"].to_list() == ["2", "2", "1", "1"] and rows.schema["item"] == pl.Int64()


def test_all_that_reads_rankings_takes_both() -> None:
    """They are shown alike; JSON has the type of the file."""
    integers = published("r.avro", publish_counts=1)
    write(Path("plays.csv"), ROWS)
    texts = published("t.avro", input="plays.csv", publish_counts=1)
    for more in ([], ["--html"]):
        shown = [command("show", path, *more, *([f"{path.stem}.html"] if more else [])) for path in (integers, texts)]
        assert shown[0].status == shown[1].status == 0 and (more or shown[0].out == shown[1].out)
    bodies = [re.sub(r"[0-9a-f]{64}", "", Path(f"{stem}.html").read_text()) for stem in "rt"]
    assert bodies[0] == bodies[1] and str(IDS[0]) in bodies[0]
    assert [row["item"] for row in json.loads(command("show", integers, "--json").out)["rows"]] == items(integers)
    write(Path("titles.csv"), f"item,title\n{IDS[0]},Amber Avenue\n")
    titled = command("show", integers, "--item-titles", "titles.csv").out
    assert "Amber Avenue" in titled and "-4" in titled
    read = Rankings.read(integers)
    named = read.titled({IDS[0]: "Amber Avenue"})
    assert str(named) in titled and "Amber Avenue" in named.html() and named.to_rows() == read.to_rows()
    assert str(read.titled("titles.csv")) == str(read.titled(Path("titles.csv"))) == str(named)
    assert read.titled({IDS[0]: "Amber", IDS[1]: "Amber"}).html() == read.html(), "which of them it is cannot be told"
    with pytest.raises(InvalidArgument, match="titles must be a path or a dict of items to texts"):
        read.titled({IDS[0]: 1})
    with pytest.raises(InvalidArgument, match="titles none.csv does not exist"):
        read.titled("none.csv")
    write(Path("plays.csv"), [{**row, "track": row["item"]} for row in ROWS])
    write(Path("titles.csv"), f"track,title\n{IDS[0]},Amber Avenue\n")
    own = published("o.avro", input="plays.csv", item_column="track")  # lists are read by the rows' name of the item
    assert "Amber Avenue" in command("show", own, "--item-titles", "titles.csv").out
    like = command("preview", "--like", integers, "--mechanism", "joint", "--k", "2", "--epsilon", "1")
    assert like.status == 0, like.err
    series = ["show", published("a.avro", **WEEKS[0]), published("b.avro", **WEEKS[1], input="plays.csv")]
    told = command(*series)
    assert told.status == 0 and told.out.count(f"  {IDS[0]}\n") == 2, told.err
    assert command(*series, "--html", "series.html").status == 0


WEEKS: list[dict[str, object]] = [
    {"window": "1d", "from_": f"2026-01-0{day}", "to": f"2026-01-0{day + 1}", "release_id": f"day {day}"}
    for day in (5, 6)
]


def test_found_integers_are_ranked_as_integers() -> None:
    unknown = {
        "domain": None,
        "unknown_domain": True,
        "k": None,
        "mechanism": "weighted-gaussian",
        "delta": 1e-6,
        "max_items_per_user": 4,
    }
    found = published("found.avro", **unknown)
    assert set(items(found)) == set(IDS[:2])
    assert set(items(published("r.avro", domain=None, found="found.avro"))) == set(IDS[:2])


def test_a_release_does_not_go_on_with_another_type() -> None:
    published("r.avro")
    write(Path("plays.csv"), ROWS)
    done = command("run", *options(**{**ASKED, "input": "plays.csv", "output": "r.avro"}))
    assert done.status == 2 and "with item_type int64 (now none)" in done.err


def test_streams_have_the_types_of_a_schema_that_is_known_at_the_launch() -> None:
    write(Path("long.avsc"), json.dumps(LONG))
    for place in ("kafka://broker:1/plays", "pubsub://projects/p/subscriptions/s"):
        asked: dict[str, Any] = {"input": (place,), "output": "out"}
        avro = source_for({**asked, "payload": "avro", "payload_schema": "long.avsc"}, watch=True)
        assert avro.integer_items and not source_for(asked, watch=True).integer_items
        write(Path("paid.avsc"), json.dumps(avro_schema(user="string", item="long", time="string", paid="double")))
        more = {"value_column": "paid", "payload": "avro", "payload_schema": "paid.avsc"}
        paid = source_for({**asked, **more}, watch=True)
        question = Question(TopK(1, Joint(1.0), PublicDomain.of(["7"]), score=Amounts(5)))
        with refused("value_resolution", f"must be given: column 'paid' of {place} may have decimals, by its type"):
            Report(question, paid, sink_of("out.csv")).check_amounts()
    assert not source_for({"input": ("*.avro",), "output": "out"}, watch=True).integer_items


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["0", "-1", str(2**63 - 1), str(-(2**63))], True),
        (["1", "007"], False),
        (["-0"], False),
        (["+5"], False),
        ([str(2**63)], False),
        ([" 5"], False),
        (["5.0"], False),
        (["1e3"], False),
        (["0x10"], False),
        (["١"], False),
    ],
)
def test_integers_are_spelled_as_python_spells_them(labels: list[str], expected: bool) -> None:
    assert PublicDomain.of(labels).holds_integers() is expected
