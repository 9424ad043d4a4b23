"""Several columns as one item, or one group: one answer by every door, published in these columns again."""

from __future__ import annotations

import gzip
import html
import json
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to

from private_topk import Groups, Period, PrivateTopK, PublicDomain, Release, ReleaseKey, UnknownDomain, rank
from private_topk.pipelines.beam_yaml import RankRows
from private_topk.pipelines.release.formats import (
    RANKING_FORMATS,
    RankingSchema,
    as_text,
    columns_in,
    fields_of,
    ranking_rows,
)
from private_topk.pipelines.sinks.bigquery import table_schema
from private_topk.pipelines.sinks.messages import attributes_of, message_of
from private_topk.pipelines.sources import Columns
from private_topk.pipelines.sources.payloads import Decoder, JsonPayload, make_payload
from private_topk.transforms.release import Ranking
from private_topk.transforms.windows import WindowBounds
from tests.nightly import nightly, nightly_but
from tests.pipelines.support import (
    TEXT,
    Done,
    Rows,
    avro_message,
    avro_schema,
    command,
    manifest,
    options,
    reasons,
    to_avro,
    write,
)
from tests.refusals import refused
from tests.transforms.pipelines import create, outcome

ID = str(uuid.UUID(int=5))
PAIRS = [
    *(("a,b", "c"), ("a", "b,c"), ("a", "b"), ('a","b', "c"), ("a", 'b","c'), ("a\\", '"b'), ('a\\"', "b")),
    *(("a", '","'), ('["a","b"]', "c"), (" a", "b "), ("a\tb", "é｜ü"), ("5", "05"), ("05", "5"), (ID, "-1")),
    *(("a\\\\", "b"), ("ab", "c"), ("a", "bc")),
]
"""Of which many look alike once they are joined, quoted or escaped carelessly."""
LISTED = [*PAIRS, ("no", "body")]
ASKED = {
    "input": "rows.jsonl",
    "item_column": "country,title",
    "domain": "list.csv",
    "mechanism": "joint",
    "k": 5,
    "epsilon": 4,
    "publish_counts": 1,
    "output": "out.jsonl",
    "release_key": "file:key",
    "release_id": "r",
    "quiet": True,
}
RELEASE = Release(ReleaseKey.parse("file:key"), "r")
EXACTLY: dict[str, Any] = {"epsilon": 4000, "publish_counts": 4000}


def rows_of(pairs: list[tuple[str, str]]) -> Rows:
    """Two users for the last pair, two more for each before it, none of whom is in two; and rows without an item."""
    found: Rows = []
    for n, (country, title) in enumerate(pairs):
        held = 2 * (len(pairs) - n)
        found += [{"user": f"u{n} {m}", "country": country, "title": title} for m in range(held)]
    lost: list[tuple[Any, Any]] = [(None, "c"), ("a", None), ("", "b"), ("a", ""), (None, None)]
    return found + [{"user": f"lost {n}", "country": one, "title": other} for n, (one, other) in enumerate(lost)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text("a key of enough bytes")
    write(tmp_path / "rows.jsonl", rows_of(PAIRS))
    write(tmp_path / "list.csv", [{"title": title, "country": country} for country, title in LISTED])
    return tmp_path


def run(**change: Any) -> Done:  # noqa: ANN401
    return command("run", *options(**{**ASKED, **change}))


def ran(**change: Any) -> Rows:  # noqa: ANN401
    """What a run publishes."""
    done = run(**change)
    assert done.status == 0, done.err
    return published(change.get("output", "out.jsonl"))


def published(place: str = "out.jsonl") -> Rows:
    done = command("show", place, "--json")
    assert done.status == 0, done.err
    return json.loads(done.out)["rows"]


def in_pairs(rows: Rows) -> list[tuple[str, str]]:
    return [(row["country"], row["title"]) for row in rows]


def told(rows: Rows) -> list[tuple[Any, ...]]:
    return [(row["rank"], row["country"], row["title"], row["noisy_count"]) for row in rows]


def test_the_true_order_of_pairs_that_look_alike() -> None:
    rows = ran(**EXACTLY, k=len(PAIRS))
    assert in_pairs(rows) == PAIRS
    assert [row["noisy_count"] for row in rows] == [2 * (len(PAIRS) - n) for n in range(len(PAIRS))]


def by_file(ending: str, output: str) -> Rows:
    path, rows = Path(f"in{ending}"), rows_of(PAIRS)
    if ending == ".avro":
        path.write_bytes(to_avro(rows, avro_schema(user=TEXT, country=TEXT, title=TEXT)))
    elif ending == ".tsv.gz":
        path.write_bytes(gzip.compress(pl.DataFrame(rows).write_csv(separator="\t").encode()))
    else:
        write(path, rows)
    found = ran(input=path, output=output)
    assert list(found[0])[2:5] == ["rank", "country", "title"] and "item" not in found[0]
    facts = json.loads(Path("out.manifest.json").read_text())
    assert facts["columns"]["item"] == ["country", "title"] and "item_type" not in facts
    return found


ONCE: dict[str, Any] = {"epsilon": 4, "item": ["country", "title"], "publish_counts": 1.0, "release": RELEASE}


def by_frame(make: Callable[[Rows], Any], listed: Callable[[], Any]) -> Rows:
    found = rank(make(rows_of(PAIRS)), 5, "joint", listed(), **ONCE)
    assert found.items == found[0].items == tuple(in_pairs(found.to_rows()))
    assert found.to_arrow().column_names[2:5] == ["rank", "country", "title"]
    assert found.to_polars()["title"].to_list() == [row["title"] for row in found.to_rows()]
    first = as_text(found.items[0])
    assert first in str(found) and html.escape(first).replace("&quot;", "&#34;") in found.html()
    assert "<svg" in found.plot()._repr_html_()
    found.write("again.csv")
    assert told(published("again.csv")) == told(found.to_rows())
    return found.to_rows()


def by_elements(make: Callable[..., Any]) -> Rows:
    rows = [make(**row) for row in rows_of(PAIRS)]
    found = outcome(lambda p: p | create(rows) | PrivateTopK(5, "joint", LISTED, **ONCE) | beam.FlatMap(_rows))
    return [row for _, row in found]


def _rows(ranking: Ranking) -> Rows:
    assert ranking.items == tuple(in_pairs(ranking.to_rows()))
    return [{**row, "window_start": None, "window_end": None} for row in ranking.to_rows()]


def by_category(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(rows).with_columns(pl.col("country").cast(pl.Categorical))


DOORS: dict[str, Callable[[], Rows]] = {
    ".avro": partial(by_file, ".avro", "out.avro"),
    ".parquet": partial(by_file, ".parquet", "out.csv"),
    ".csv": partial(by_file, ".csv", "out.parquet"),
    ".tsv.gz": partial(by_file, ".tsv.gz", "out.jsonl"),
    ".jsonl.zst": partial(by_file, ".jsonl.zst", "out.csv"),
    "polars": partial(by_frame, pl.DataFrame, lambda: LISTED),
    "pandas": partial(by_frame, pd.DataFrame, lambda: pd.read_csv("list.csv", dtype=str)),
    "arrow": partial(by_frame, pa.Table.from_pylist, lambda: pl.read_csv("list.csv", infer_schema=False)),
    "categories": partial(by_frame, by_category, lambda: "list.csv"),
    "dicts": partial(by_elements, dict),
    "rows": partial(by_elements, beam.Row),
}
ANSWER = [*((1, "a,b", "c", 36), (2, "a", "b,c", 35), (3, "a", "b", 32), (4, 'a","b', "c", 29), (5, "a", 'b","c', 28))]
"""Of five places: rank, columns, noisy count."""


@pytest.mark.parametrize("door", nightly_but(DOORS, ".avro", ".tsv.gz", "arrow", "categories", "rows"))
def test_every_door_has_the_pinned_answer(door: str) -> None:
    assert told(DOORS[door]()) == ANSWER


def test_beam_yaml_gives_rows_in_the_columns() -> None:
    rows = [beam.Row(user=f"u{n}", country="DE", platform="ios", title="tea") for n in range(9)]
    items = RankRows(1000.0, "joint", 1, [["DE", "tea"], ["FR", "tea"]], item="country,title")
    group, groups = ["country", "platform"], [["DE", "ios"]]
    grouped = RankRows(1000.0, "joint", 1, ["tea"], item="title", group=group, groups=groups)
    with beam.Pipeline() as pipeline:
        given = pipeline | create(rows)
        assert_that(given | "items" >> items | "1" >> beam.Map(tuple), equal_to([("all", 1, "DE", "tea")]))
        expected = equal_to([("all", 1, "tea", "DE", "ios")])
        assert_that(given | "groups" >> grouped | "2" >> beam.Map(tuple), expected, label="of groups")


def test_numbers_and_uuids_are_parts_by_their_texts() -> None:
    """Whatever type a column has: the answer is that of the same texts."""
    ids = [uuid.UUID(int=n) for n in range(4)]
    rows = [{"user": f"u{n} {m}", "id": ids[n], "number": -n, "code": b"x"} for n in range(4) for m in range(9 - 2 * n)]
    held = {name: [row[name] for row in rows] for name in rows[0]}
    typed = {"id": pa.array([it.bytes for it in held["id"]], pa.uuid()), "number": pa.array(held["number"], pa.int32())}
    listed = [(ids[n], -n, b"x") for n in range(4)]
    asked: dict[str, Any] = {"epsilon": 1000, "item": ["id", "number", "code"]}
    expected = tuple((str(ids[n]), str(-n), "x") for n in range(3))
    assert rank(pa.table(held | typed), 3, "joint", listed, **asked).items == expected
    assert rank(pd.DataFrame(rows), 3, "joint", listed, **asked).items == expected
    found = outcome(lambda p: p | create(rows) | PrivateTopK(3, "joint", listed, **asked) | beam.Map(_items))
    assert [tuple(map(tuple, items)) for _, items in found] == [expected]


def _items(ranking: Ranking) -> tuple[Any, ...]:
    return ranking.items


def test_a_row_lacks_its_item_if_a_part_is_missing_or_no_label() -> None:
    pairs = [("a", "b"), (None, "b"), ("a", None), ("", "b"), ("a", "b\0"), ("\0", "b"), ("a" * 5000, "b")]
    pairs += [("a" * 3000, "b" * 3000), ("a" * 2042, '"' * 1024)]
    written = [{"user": f"u{n}", "country": one, "title": other} for n, (one, other) in enumerate(pairs)]
    columns = Columns(item=("country", "title"))
    for path in (write(Path("a.jsonl"), written), write(Path("a.parquet"), written)):
        assert reasons(path, columns) == {"null": 3, "unreadable": 5}
    longest = [{"user": "u", "country": "a" * size, "title": "b" * 2046} for size in (2043, 2044)]
    found = reasons(write(Path("b.jsonl"), longest), columns)
    assert found == {"unreadable": 1}, "4,096 bytes with quotes and brackets"


def test_the_folders_of_a_file_can_hold_a_part() -> None:
    for country, title, many in (("DE", "tea", 9), ("FR", "tea", 5), ("DE", "cake", 3)):
        place = Path(f"in/country={country}/{title}.csv")
        place.parent.mkdir(parents=True, exist_ok=True)
        write(place, [{"user": f"{country}{n}", "title": title} for n in range(many)])
    Path("list.csv").write_text("country,title\nDE,tea\nDE,cake\nFR,tea\nFR,cake\n")
    assert in_pairs(ran(input="in/*/*.csv", k=3, **EXACTLY)) == [("DE", "tea"), ("FR", "tea"), ("DE", "cake")]


GROUPED = [("DE", "ios", "tea"), ("DE", "web", "cake"), ("DE,ios", "web", "milk"), ("DE", "ios,web", "salt")]


def grouped(output: str = "out.jsonl") -> Rows:
    rows = [
        {"user": f"u{n} {m}", "country": country, "platform": platform, "item": item}
        for n, (country, platform, item) in enumerate(GROUPED)
        for m in range(30)
    ]
    write(Path("plays.jsonl"), rows)
    write(Path("groups.csv"), [{"country": country, "platform": platform} for country, platform, _ in GROUPED])
    Path("items.txt").write_text("cake\nmilk\nsalt\ntea\n")
    asked = {"input": "plays.jsonl", "item_column": None, "domain": "items.txt", "k": 1, **EXACTLY, "output": output}
    return ran(**asked, group_column="country,platform", groups="groups.csv")


@pytest.mark.parametrize("output", ["out.avro", nightly("out.parquet"), nightly("out.csv"), nightly("out.jsonl")])
def test_groups_of_several_columns(output: str) -> None:
    rows = grouped(output)
    assert [(row["country"], row["platform"], row["item"]) for row in rows] == GROUPED
    assert list(rows[0])[2:6] == ["country", "platform", "rank", "item"] and "group" not in rows[0]
    facts = json.loads(Path("out.manifest.json").read_text())
    assert facts["columns"]["group"] == ["country", "platform"]
    assert [window["group"] for window in facts["windows"]] == [list(each[:2]) for each in GROUPED]
    text = command("show", output, "--group", 'DE, "ios,web"')
    assert text.status == 0 and "salt" in text.out and "milk" not in text.out
    page = command("show", output, "--html", "page.html")
    assert page.status == 0 and "&#34;DE,ios&#34;, web" in Path("page.html").read_text()
    asked = options(like=output, domain="items.txt", k=1, epsilon=1, groups_per_user=1, draws=20)
    done = command("preview", *asked)
    assert done.status == 0 and "4 groups" in done.out, done.err


def test_groups_of_several_columns_in_frames_and_elements() -> None:
    expected = grouped()
    rows = [json.loads(line) for line in Path("plays.jsonl").read_text().splitlines()]
    items, names = ["cake", "milk", "salt", "tea"], [each[:2] for each in GROUPED]
    asked: dict[str, Any] = {"epsilon": 4000, "publish_counts": 4000.0, "release": RELEASE}
    asked |= {"group": ["country", "platform"]}
    found = rank(pl.DataFrame(rows), 1, "joint", items, groups=names, **asked)
    assert found.to_rows() == [{**row, "window_start": None, "window_end": None} for row in expected]
    by_group = rank(pl.DataFrame(rows), 1, "joint", {name: items for name in names}, **asked)
    assert [row["item"] for row in by_group.to_rows()] == [each[2] for each in GROUPED]
    asked["groups"] = Groups(names)
    noted = outcome(lambda p: p | create(rows) | PrivateTopK(1, "joint", items, **asked) | beam.Map(_grouped))
    assert sorted(pair for _, pair in noted) == sorted([list(each[:2]), [each[2]]] for each in GROUPED)


def _grouped(ranking: Ranking) -> tuple[Any, ...]:
    return ranking.group, ranking.items


def test_items_and_groups_of_several_columns_each_with_lists_of_its_own() -> None:
    write(Path("plays.jsonl"), [{"user": f"u{n}", "a": "x", "b": "y", "c": "1", "item": "2"} for n in range(30)])
    Path("list.csv").write_text("c,item,a,b\n1,2,x,y\n1,3,x,y\n1,2,x,z\n1,4,x,z\n")
    Path("groups.csv").write_text("a,b\nx,y\nx,z\n")
    asked = {"input": "plays.jsonl", "item_column": "c,item", "group_column": "a,b", "groups": "groups.csv", "k": 1}
    rows = ran(**asked, domain_group_column="a,b", **EXACTLY)
    assert [(row["a"], row["b"], row["c"]) for row in rows] == [("x", "y", "1"), ("x", "z", "1")]
    assert rows[0]["item"] == "2"
    assert "x, y, All rows" in command("show", "out.jsonl").out and "1  1, 2" in command("show", "out.jsonl").out


UNKNOWN = {"domain": None, "unknown_domain": True, "mechanism": "limit-domain", "delta": 0.1, "publish_counts": None}
TIMES = {"window": "7d", "from": "2026-01-05", "to": "2026-01-12"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"item_column": "rank,title"}, "--item-column has a column rank"),
    ({"group_column": "Window,x", "groups": "g.csv"}, "--group-column has a column Window"),
    ({"item_column": "group,title"}, "--item-column has a column group"),
    ({"item_column": "title,title"}, "--item-column must name every column once"),
    ({"item_column": "title,"}, "--item-column must be the name of a column"),
    ({"item_column": 'title,"x'}, "--item-column must be names with commas between them"),
    ({"item_column": "user,title", **UNKNOWN}, "--user-column must be another column than --item-column"),
    ({"item_column": "country,titel"}, "did you mean title?"),
    ({"domain": "items.txt"}, "--domain items.txt must be a table with the columns country, title"),
    ({"domain": None, "domain_range": "0:9"}, "--domain-range must hold a value for each of country, title"),
    ({"domain": "g.csv", "domain_column": "x"}, "--domain must hold a value for each of country, "),
    ({"domain_column": "country,titel"}, "--domain-column 'titel' is no column of list.csv"),
    ({"time_column": "title", **TIMES}, "--time-column must be another column than"),
    ({"value_column": "title", "max_value": 5}, "--value-column must be another column than"),
    ({"group_column": "title,x", "groups": "h.csv"}, "--group-column must be another"),
]


def test_invalid_lists_of_columns_are_refused_before_any_work() -> None:
    Path("items.txt").write_text("a\nb\n")
    Path("g.csv").write_text("Window,x\n1,2\n1,3\n1,4\n1,5\n1,6\n")
    Path("h.csv").write_text("title,x\n1,2\n")
    for change, said in REFUSED:
        done = run(**change)
        assert done.status == 2 and said in done.err, (change, done.err)
        assert not Path("out.jsonl").exists()


def test_a_name_that_is_none_in_avro_is_refused_for_avro_alone() -> None:
    write(Path("rows.jsonl"), [{"user": f"u{n}", "Land, Stadt": "a", "länge": "b"} for n in range(9)])
    Path("list.csv").write_text('"Land, Stadt",länge\na,b\nb,a\n')
    named: dict[str, Any] = {"item_column": '"Land, Stadt",länge', "k": 1, **EXACTLY}
    done = run(**named, output="out.avro")
    assert done.status == 2 and "--item-column has a column 'Land, Stadt', and names in Avro" in done.err
    assert ran(**named, output="out.csv")[0]["Land, Stadt"] == "a"
    Path("one.txt").write_text("a\nb\n")
    [row] = ran(**{**named, "item_column": '"Land, Stadt"', "domain": "one.txt", "output": "one.csv"})
    assert row["item"] == "a", "quotes name one column with a comma"


BOTH = ["country", "title"]
TUPLES: list[Any] = [
    *(PAIRS, [["a", "b", "c"]], dict(PAIRS).items(), pd.Series(PAIRS), pd.MultiIndex.from_tuples(PAIRS)),
    *(PublicDomain.of(PAIRS), UnknownDomain(PublicDomain.of(PAIRS)), {"g": PAIRS}),
]


@pytest.mark.parametrize("listed", TUPLES, ids=lambda listed: type(listed).__name__)
def test_tuples_of_whatever_kind_are_no_items_of_one_column(listed: Any) -> None:  # noqa: ANN401
    more: Any = {"delta": 1e-6, "max_items_per_user": 1} if isinstance(listed, UnknownDomain) else {}
    with refused("domain", "holds tuples or lists of values, and item names one"):
        PrivateTopK(1, domain=listed, epsilon=1, groups=["g"] if isinstance(listed, dict) else None, **more)


@pytest.mark.parametrize("listed", [zip("ab", "cd", strict=True), [["a", "b"]], pd.Series(["a"]).items()])
def test_tuples_are_no_groups_of_one_column(listed: Any) -> None:  # noqa: ANN401
    rows = pl.DataFrame({"user": ["u"], "item": ["a"], "group": ["b"]})
    with refused("groups", "holds tuples or lists of values, and group names one"):
        rank(rows, 1, "joint", ["a"], epsilon=1, groups=listed)


@pytest.mark.parametrize(
    ("item", "listed", "field", "rule"),
    [
        (["country", "rank"], PAIRS, "item", "has a column rank"),
        (BOTH, ["a", "b"], "domain", "must hold a value for each of country, title"),
        (BOTH, [("a", "b", "c"), ("a", "b", "d")], "domain", "must hold a value for each"),
        (BOTH, [("a", ""), ("a", "b")], "domain", "must not hold empty values"),
        (BOTH, [("a", 1.5), ("a", "b")], "domain", "texts, whole numbers or UUIDs, got tuple"),
        (BOTH, pl.DataFrame({"country": ["a"], "x": ["b"]}), "domain", "must have the column title"),
        (["country", 5], PAIRS, "item", "must be the name of a column"),
        ([], PAIRS, "item", "must be the name of a column"),
    ],
)
def test_invalid_lists_of_columns_are_refused_in_python(item: Any, listed: Any, field: str, rule: str) -> None:  # noqa: ANN401
    with refused(field, rule):
        rank(pl.DataFrame(rows_of(PAIRS)), 1, "joint", listed, epsilon=1, item=item)


def test_fields_of_elements_are_refused_where_the_transform_is_applied() -> None:
    for named in (["user", "title"], ["k", "title"]):
        with refused(None, "field"):
            PrivateTopK(1, "joint", PAIRS, epsilon=1, item=named)
    typed: Any = beam.typehints.row_type.RowTypeConstraint.from_fields([("user", str), ("country", str)])
    with refused(None, "rows or dicts with the fields user and country and title"), beam.Pipeline() as pipeline:
        some = pipeline | create([beam.Row(user="u", country="c")]).with_output_types(typed)
        _ = some | PrivateTopK(1, "joint", PAIRS, epsilon=1, item=BOTH)


def test_the_order_of_columns_is_part_of_the_question() -> None:
    """Another order is another question under the id: it is refused, where nothing else is changed."""
    books = {"ledger": "sqlite:///b.db", "dataset": "d"}
    assert command("budget", "create", *options(**books, epsilon=20)).status == 0
    first = ran(**books)
    assert told(ran(**books, output="again.jsonl")) == told(first)
    for more in (books, {}):
        swapped = run(**more, item_column="title,country", output="swapped.jsonl" if more else "out.jsonl")
        assert swapped.status == 2 and "--release-id" in swapped.err and not Path("swapped.jsonl").exists()
    unlike = ran(**books, item_column="title,country", output="swapped.jsonl", release_id="s")
    assert list(unlike[0])[3:5] == ["title", "country"]
    series = command("show", "out.jsonl", "swapped.jsonl")
    assert series.status == 2 and "item column country, title (now title, country)" in series.err


def test_found_rankings_are_lists_of_the_same_columns() -> None:
    ran(release_id="before", output="before.csv", k=3, **EXACTLY)
    assert in_pairs(ran(domain=None, found="before.csv", k=3, **EXACTLY)) == PAIRS[:3]
    Path("titles.txt").write_text("b\nc\n")
    ran(item_column="title", domain="titles.txt", k=1, output="titles.csv")
    others = [("before.csv", "title,country"), ("before.csv", "title"), ("titles.csv", "country,title")]
    for found, columns in others:
        other = run(domain=None, found=found, k=1, output="no.csv", item_column=columns)
        assert other.status == 2 and f"--found {found} has items of other columns than --item-column" in other.err


REPORT = """\
report: weekly
source:
  input: rows.csv
  item_column: [country, "the, title"]
domain:
  unknown: true
  remember: true
window:
  every: week
  first: 2026-01-05
mechanism:
  name: weighted-gaussian
  k: 2
  max_items_per_user: 2
budget:
  epsilon: 20
  delta: 1e-3
release_key: file:key
sink:
  output: out/{start}.csv
"""


def test_a_report_file_lists_the_columns_and_remembers_what_it_found() -> None:
    days = [f"2026-01-{day}T00:00:00Z" for day in ("06", "13")]
    rows = [{"user": f"u{n}", "country": "DE", "the, title": "tea", "time": day} for n in range(200) for day in days]
    write(Path("rows.csv"), rows)
    Path("report.yaml").write_text(REPORT)
    for end in ("2026-01-12", "2026-01-19"):
        done = command("report", "report.yaml", "--window-end", end)
        assert done.status == 0, done.err
        assert "DE, tea" in done.out
    assert [(row["country"], row["the, title"]) for row in published("out")] == [("DE", "tea")] * 2
    facts = json.loads(Path("out/2026-01-12.manifest.json").read_text())
    assert facts["found"] == ["2026-01-05.csv"]
    Path("report.yaml").write_text(REPORT.replace('[country, "the, title"]', '["the, title"]').replace("out/", "one/"))
    assert command("report", "report.yaml", "--window-end", "2026-01-12").status == 0
    assert [row["item"] for row in published("one")] == ["tea"], "a list of one name is that name"
    Path("report.yaml").write_text(REPORT.replace('[country, "the, title"]', "[]"))
    empty = command("report", "report.yaml", "--dry-run")
    assert empty.status == 2 and "report.yaml:4: source.item_column must be a single value" in empty.err


def test_what_is_told_of_a_ranking_names_its_columns() -> None:
    """By a check, a preview, titles and pages; and where the manifest is lost."""
    check = run(dry_run=True)
    assert check.status == 0 and "item from country and title" in check.out
    ran(**EXACTLY)
    asked = {"like": "out.jsonl", "item_column": "country,title", "domain": "list.csv", "k": 2, "epsilon": 4}
    done = command("preview", *options(**asked, draws=20))
    assert done.status == 0 and "the top 2 of 18 items" in done.out
    assert "--item-column country,title" in done.out.partition("In a run: ")[2]
    found = command("preview", *options(**{**asked, "domain": None, "found": "out.jsonl"}, draws=20))
    assert found.status == 0 and "the top 2 of 5 items" in found.out, found.err
    Path("titles.csv").write_text('country,title,name\n"a,b",c,First of all\n')
    done = command("show", "out.jsonl", "--item-titles", "titles.csv", "--title-column", "name")
    assert done.status == 0 and "First of all" in done.out and 'a, "b,c"' in done.out, done.err
    page = command("show", "out.jsonl", "--html", "page.html")
    assert page.status == 0 and "a, &#34;b,c&#34;" in Path("page.html").read_text()
    Path("out.manifest.json").unlink()
    assert '"a,b", c' in command("show", "out.jsonl").out


def test_a_stream_of_files_ranks_items_of_several_columns() -> None:
    write(Path("list.csv"), [{"country": country, "title": title} for country, title in PAIRS[:4]])
    Path("in").mkdir()
    rows = [{**row, "time": "2026-01-05T12:00:00Z"} for row in rows_of(PAIRS[:4])]
    write(Path("in/a.jsonl"), [*rows, {**rows[0], "time": "2026-01-09T00:00:00Z"}])
    day = {"input": "in/*.jsonl", "clock": "event", "window": "1d", "from": "2026-01-05", "to": "2026-01-06"}
    done = command("stream", *options(**{**ASKED, **EXACTLY, **day, "k": 4, "output": "out", "quiet": None}))
    assert done.status == 0, done.err
    assert in_pairs(published("out")) == PAIRS[:4]


def test_messages_are_read_and_written_in_the_columns() -> None:
    columns = Columns(item=("country", "title"), group=("a", "b"), time="time", time_unit="s")
    row = {"user": "u", "country": 'x"', "title": "y,", "a": "1", "b": "2", "time": 5}
    rows = [row, {**row, "country": None, "title": "y"}]
    block = Decoder(JsonPayload(), columns).block([json.dumps(row).encode() for row in rows])
    fields = [{"name": name, "type": ["null", "long"] if name == "time" else TEXT} for name in row]
    schema = {"type": "record", "name": "R", "fields": fields}
    Path("schema.avsc").write_text(json.dumps(schema))

    payload = make_payload("avro", "schema.avsc", columns)
    assert (
        Decoder(payload, columns).block([avro_message(schema, row) for row in rows]).equals(block) and len(block) == 1
    )

    facts = manifest(columns={"user": "user", "item": ["country", "title"], "group": ["a", "b"]})
    ranking = Ranking(WindowBounds(), tuple(block["item"].to_pylist()), 1, "sequence", group=block["group"][0].as_py())
    in_columns = ranking.in_columns(facts.names("item"), facts.names("group"))
    message = json.loads(message_of(in_columns, "r"))
    assert message["items"] == [{"country": 'x"', "title": "y,"}]
    assert (message["a"], message["b"], "group" in message) == ("1", "2", False)
    assert attributes_of(in_columns) == {"window": "all", "group": '["1","2"]'}
    assert ranking.label() == in_columns.label() == 'all|["1","2"]'


def test_published_columns_keep_what_looks_like_a_number() -> None:
    schema = RankingSchema(item=("code", "item"), group=("group", "year"), grouped=True)
    ranking = Ranking(WindowBounds(), ('["007","1e3"]',), 1, "sequence", group='["01","2026"]')
    rows = ranking_rows([ranking.in_columns(schema.item, schema.group)], "r", schema)
    for codec in RANKING_FORMATS.values():
        [row] = codec.decode(codec.encode(rows, schema))
        assert (row["code"], row["item"], row["group"], row["year"]) == ("007", "1e3", "01", "2026")
        assert columns_in(row) == (("group", "year"), ("code", "item"))
    assert [field["name"] for field in table_schema(schema)["fields"]] == list(rows[0])


def test_a_column_named_like_a_published_field_is_refused() -> None:
    everything = RankingSchema(grouped=True, weighed=True)
    for name in {*fields_of(everything), *json.loads(message_of(Ranking(WindowBounds(), (), 1, "set"), "r"))}:
        for role in {"item", "group"} - {name}:
            with refused(f"{role}_column", f"has a column {name}"):
                Columns(**{"item": "other", role: (name, "x")})


def test_a_list_of_one_column_equals_a_single_column() -> None:
    """Also where its texts look like those of several columns, and under a list of one name."""
    items = ['["a","b"]', "a, b", '"a"']
    rows = pl.DataFrame([{"user": f"u{n} {m}", "item": item} for n, item in enumerate(items) for m in range(9 - 2 * n)])
    for name in ("item", ["item"], ("item",)):
        found = rank(rows, 3, "joint", items, epsilon=1000, item=name)
        assert list(found.items) == items and found.to_arrow().column_names[3] == "item"
    found = rank(rows, None, "weighted-gaussian", UnknownDomain(), epsilon=100, delta=0.1, max_items_per_user=1)
    assert set(found.items) <= set(items) and found.manifest.columns == {"user": "user", "item": "item"}


def test_unknown_items_and_windows_of_several_columns() -> None:
    rows = [{"user": f"u{m}", "country": country, "title": title} for country, title in PAIRS[:3] for m in range(300)]
    found = rank(pl.DataFrame(rows), 3, "limit-domain", UnknownDomain(), epsilon=50, delta=0.01, item=BOTH)
    assert set(found.items) == set(PAIRS[:3])
    days = Period.of("2026-01-05", "2026-01-07", "1d")
    timed = pl.DataFrame({"user": ["u", "v"], "a": ["x", "x"], "b": ["y", "y"], "time": ["2026-01-05", "2026-01-06"]})
    by_day = rank(timed, 1, "joint", [("x", "y")], epsilon=1, item=["a", "b"], period=days)
    assert [listing.items for listing in by_day] == [(("x", "y"),), (("x", "y"),)]
