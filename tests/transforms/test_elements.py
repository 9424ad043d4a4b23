"""Which elements are rows of a user and an item: those are read. Other types are refused where Beam knows them at once,
and what flows all the same is dropped by itself.
"""

from __future__ import annotations

import collections
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, Optional
from uuid import UUID

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

from private_topk import rank
from private_topk.transforms.assign_windows import SplitDoFn
from private_topk.transforms.columnar import make_block
from private_topk.transforms.completeness import noted
from private_topk.transforms.counters import warnings_of_workers
from private_topk.transforms.elements import ElementSchema
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import Joint
from private_topk.transforms.metric import Amounts
from private_topk.transforms.rows import MakeBlocks
from private_topk.transforms.top_k import PrivateTopK
from private_topk.transforms.windows import Period
from tests.nightly import nightly
from tests.transforms.pipelines import create, direct, outcome

SECRET = "secret"
WHOLE = {"user": "u", "item": 5, "country": "FR", "value": 1}


class Play(NamedTuple):
    user: str
    item: int


class Turned(NamedTuple):
    item: str
    user: str


class Order(NamedTuple):
    user: str
    item: str
    country: str


class Heard(NamedTuple):
    listener: str
    track: str


@dataclass(frozen=True)
class Bought:
    user: str
    item: str
    price: float


class Named(str):
    """A class of one's own, with another look."""

    def __str__(self) -> str:
        return "<named>"


class Thing:
    """Neither text nor number."""


class Pair(tuple):
    """A class of one's own, without names."""


def read_back(elements: list[Any], schema: ElementSchema | None = None, untyped: bool = False) -> list[tuple[str, str]]:
    """What the blocks hold, in any order."""

    def build(p: beam.Pipeline) -> beam.PCollection:
        rows = p | create(elements)
        rows = rows | beam.Map(lambda row: row).with_output_types(Any) if untyped else rows
        return (
            rows
            | MakeBlocks(schema=schema)
            | beam.FlatMap(lambda block: zip(block["user"].to_pylist(), block["item"].to_pylist(), strict=True))
        )

    return sorted((user, item) for _, (user, item) in outcome(build))


ROWS = {
    "tuples": [("ana", 5), ("bo", 7)],
    "lists": [["ana", 5], ["bo", "7"]],
    "dicts": [{"user": "ana", "item": 5, "price": 1.5}, {"item": "7", "user": "bo", "price": None}],
    "rows of Beam": [beam.Row(user="ana", item=5), beam.Row(user="bo", item=7)],
    "named tuples": [Play("ana", 5), Play("bo", 7)],
    "names before places": [Turned("5", "ana"), Turned("7", "bo")],
    "dataclasses": [Bought("ana", "5", 1.5), Bought("bo", "7", 2.5)],
    "other mappings": [collections.OrderedDict(user="ana", item=5), collections.OrderedDict(user="bo", item=7)],
    "numbers of numpy": [(np.str_("ana"), np.int64(5)), (np.str_("bo"), np.uint8(7))],
    "bytes and subclasses of text": [(b"ana", 5), (Named("bo"), b"7")],
    "whole decimals": [("ana", Decimal(5)), ("bo", Decimal("7"))],
    "mixed": [("ana", 5), {"user": "bo", "item": 7}],
}
PAIRS = [("ana", "5"), ("bo", "7")]


@pytest.mark.parametrize("kind", ROWS)
def test_pairs_and_rows_are_read_by_place_and_by_name(kind: str) -> None:
    assert read_back(ROWS[kind]) == PAIRS


@pytest.mark.parametrize(
    "rows",
    [
        [Heard("ana", "5"), Heard("bo", "7")],
        [{"listener": "ana", "track": 5}, {"listener": "bo", "track": 7}],
        [beam.Row(listener="ana", track=5), beam.Row(listener="bo", track=7)],
    ],
)
def test_fields_of_other_names_are_named(rows: list[Any]) -> None:
    assert read_back(rows, ElementSchema("listener", "track")) == PAIRS


def test_a_none_leaves_a_row_out() -> None:
    assert (
        read_back([("ana", 5), (None, 5), ["ana", None], {"user": "bo", "item": 7}, {"user": None, "item": 1}]) == PAIRS
    )


@pytest.mark.parametrize("with_times", [False, True])
def test_an_element_with_invalid_unicode_is_dropped_alone(with_times: bool) -> None:
    """One user's row ends nobody's job. Called by hand: Beam encodes a sample of what flows, and ends at such a text
    if it meets one there.
    """
    gather = MakeBlocks(with_times).gathering()
    broken = [(chr(0xD800), "x"), ("x", "a" + chr(0xDFFF))]
    for rows, whole in (([("ana", 5), *broken, ("bo", 7)], ["ana", "bo"]), (broken, [])):
        gather.start_bundle()
        for row in rows:
            assert not list(gather.process(row, GlobalWindow(), Timestamp(0)))
        [block] = gather.finish_bundle()
        assert block.value["user"].to_pylist() == whole


@pytest.mark.parametrize(
    ("element", "names", "fault"),
    [
        ({"listener": SECRET, "item": 5}, {}, "a dict has no field 'user'"),
        nightly({"user": SECRET, "item": 5}, {"groups": ["FR"], "group": "country"}, "a dict has no field 'country'"),
        nightly((SECRET, 1.5), {}, "'item' is a float that is not an item"),
        ((SECRET, None), {}, "'item' is missing or empty"),
        nightly((SECRET, 5, 5), {}, "a tuple is no (user, item)"),
        nightly(
            {"user": SECRET, "item": 5, "value": SECRET},
            {"amounts": Amounts(5)},
            "'value' is a str that is not an amount",
        ),
    ],
)
def test_a_worker_warns_once_of_a_bundle_that_begins_unreadable(
    element: Any,  # noqa: ANN401
    names: dict[str, Any],
    fault: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert warnings([element] * 999, names, caplog) == warnings([WHOLE] + [element] * 5000, names, caplog) == []
    [warning] = warnings([element] * 5000, names, caplog)
    assert f"all of the first 1,000 elements of a bundle: {fault}." in warning and SECRET not in warning


def warnings(elements: list[Any], names: dict[str, Any], caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with direct() as pipeline:
        rows = pipeline | create(elements) | beam.Map(lambda row: row).with_output_types(Any)
        _ = rows | PrivateTopK(k=1, mechanism=Joint(epsilon=1.0), domain=["5", "7"], **names)
    return [record.getMessage() for record in caplog.records if "PrivateTopK leaves" in record.getMessage()]


WEEK = {"period": Period.of("2026-01-05", "2026-01-12", "7d")}
LEFT_OUT = {
    "without a time": ((SECRET, 5), WEEK, "their times are outside the period, and so is an element without a time"),
    "before the period": (
        TimestampedValue((SECRET, 5), 0),
        {"period": Period.of("2026-01-05", "2026-01-19", "7d")},
        "their times are outside the period",
    ),
    "not in the domain": ((SECRET, 6), {}, "their items are not in the domain"),
    "not in the groups": (
        (SECRET, 5, SECRET),
        {"groups": ["FR"]},
        "their groups are missing, or not in the list",
    ),
    "an amount of 0": ((SECRET, 5, 0), {"amounts": Amounts(5)}, "their amounts are 0 or less, or round to 0"),
    "an amount below half a unit": ((SECRET, 5, 0.4), {"amounts": Amounts(5)}, "their amounts are 0 or less"),
}


@pytest.mark.parametrize("reason", LEFT_OUT)
def test_a_worker_warns_of_a_bundle_that_drops_out_for_any_reason(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    element, names, told = LEFT_OUT[reason]
    [warning] = warnings([element] * 3000, names, caplog)
    assert f"all of the first 1,000 elements of a bundle: {told}" in warning and SECRET not in warning


def test_rows_that_are_left_keep_a_worker_from_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings([(SECRET, 6)] * 999, {}, caplog) == warnings([(SECRET, 6)] * 3000 + [("ana", 5)], {}, caplog) == []


def test_late_rows_of_a_stream_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Called by hand: when a runner lets a late row through is its own choice."""
    with warnings_of_workers():
        split = SplitDoFn(WEEK["period"])
    split.setup()
    users, start = pa.array([SECRET] * 1000), int(WEEK["period"].starts[0])
    block, _ = make_block(users, users, pa.array([start] * 1000))
    split.start_bundle()
    assert not list(split.process(noted(block, closed=1)))
    [warning] = [record.getMessage() for record in caplog.records]
    assert "they came after their windows had closed" in warning and SECRET not in warning


def test_rank_tells_what_was_dropped_itself_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    rows = pl.DataFrame({"user": ["ana"] * 3000, "item": ["6"] * 3000})
    rank(rows, k=1, mechanism=Joint(epsilon=1.0), domain=["5", "7"], show_dropped_rows=False)
    assert not caplog.records


def test_a_worker_warns_once_over_several_bundles(caplog: pytest.LogCaptureFixture) -> None:
    with warnings_of_workers():
        gather = MakeBlocks().gathering()
    for _ in range(3):
        gather.start_bundle()
        for _ in range(2000):
            assert not list(gather.process({"listener": SECRET}, GlobalWindow(), Timestamp(0)))
        assert not list(gather.finish_bundle())
    assert len(caplog.records) == 1


def test_an_element_with_an_invalid_number_is_dropped_alone() -> None:
    """One user's row ends nobody's job."""
    assert ElementSchema().values((1 << 20_000, "a")) == ElementSchema().values(("u", -(10**5000))) == "unreadable"
    priced = ElementSchema(score=Amounts(60))
    for amount in (Decimal("NaN"), Decimal("sNaN"), float("nan"), np.float32("nan"), None):
        assert priced.values(("u", "a", amount)) == "null"
    for amount in ("five", "5_0", "nan", True, 1j, b"\xff", [5], np.timedelta64(1), date(2026, 1, 5), UUID(int=5)):
        assert priced.values(("u", "a", amount)) == "unreadable", amount
    for amount, number in (
        (Decimal("6.50000"), 6.5),
        (10**400, math.inf),
        (Fraction(13, 2), 6.5),
        (np.float16(6.5), 6.5),
        ("6.5", 6.5),
        (b"65e-1", 6.5),
    ):
        assert priced.values(("u", "a", amount)) == ("u", "a", number)


REFUSED = {
    "texts of two letters": ["ab", "cd"],
    "bytes": [b"ab"],
    "numbers": [7],
    "dicts without the names": [{SECRET: 1, "b": 2}],
    "dicts by number": [{1: SECRET, 2: SECRET}],
    "sets": [{"a", SECRET}],
    "frozen sets": [frozenset([SECRET, "b"])],
    "one value": [(SECRET,)],
    "three values": [(SECRET, "b", "c")],
    "a list of three": [[SECRET, "b", "c"]],
    "other fields": [Heard(SECRET, "b")],
    "other fields of rows": [beam.Row(listener=SECRET, track="b")],
    "users that are floats": [(1.5, SECRET)],
    "items that are decimals with a fraction": [(SECRET, Decimal("1.5")), (SECRET, Decimal("5.0"))],
    "items that are dates": [(SECRET, date(2026, 1, 5))],
    "items that are moments": [(SECRET, datetime(2026, 1, 5))],
    "items of a class of one's own": [(SECRET, Thing())],
    "users that are truths": [(True, SECRET)],
    "items that are lists": [(SECRET, ["x"])],
    "items that are tuples": [(SECRET, ("x", "y"))],
    "rows whose item is a float": [beam.Row(user=SECRET, item=1.5)],
    "dates": [(SECRET, np.datetime64("2026-01-05"))],
    "spans": [(SECRET, np.timedelta64(1))],
}
UNTIL_IT_FLOWS = {
    "items that are decimals with a fraction",
    "dicts without the names",
    "a list of three",
    "dates",
    "spans",
    "dicts by number",
}
"""Beam's types say nothing of a list's length or of a dict's keys."""


def test_an_unreadable_element_is_dropped_and_all_others_are_read() -> None:
    """In one pipeline without types: what is read of it is what stands among all that cannot be read."""
    others = [element for elements in REFUSED.values() for element in elements]
    pairs = [element for elements in ROWS.values() for element in elements]
    assert read_back([*pairs, *others, *pairs], untyped=True) == sorted(2 * len(ROWS) * PAIRS)
    assert {ElementSchema().values(element) for element in others} == {"unreadable"}


@pytest.mark.parametrize("elements", [[], [{SECRET: 1}], [("u", "a", "b"), ("u", 1.5), None, "ab", b"ab"]])
def test_elements_of_any_type_yield_a_ranking(elements: list[Any]) -> None:
    def build(p: beam.Pipeline) -> beam.PCollection:
        rows = p | create([*elements, None]) | beam.Filter(lambda row: row is not None).with_output_types(Any)
        return rows | PrivateTopK(1, Joint(epsilon=1.0), ["a"]) | beam.Map(lambda ranking: ranking.items)

    assert [items for _, items in outcome(build)] == [["a"]]


@pytest.mark.parametrize("kind", sorted(REFUSED.keys() - UNTIL_IT_FLOWS))
def test_an_element_type_known_to_beam_is_refused_at_construction(kind: str) -> None:
    rows = direct() | create(REFUSED[kind])
    with pytest.raises(InvalidArgument, match="PrivateTopK takes .* got an? .* type ") as caught:
        rows | PrivateTopK(1, Joint(epsilon=1.0), ["a"])
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("role", ["user", "item", "group", "value"])
@pytest.mark.parametrize(
    ("field", "told"),
    [
        (np.int8, "of type int8, .* lose the sign: make it an int16"),
        (RowTypeConstraint.from_fields([("id", str)]), r"of type Row\(id=.*: map it to one of these"),
        (Mapping[str, str], r"of type Mapping\[.*: map it to one of these"),
    ],
)
def test_fields_of_another_language_that_cannot_be_read_are_refused(role: str, field: Any, told: str) -> None:  # noqa: ANN401
    """A byte of Java comes out unsigned, so -3 would add 253; of a row or a map every element would be dropped."""
    schema = ElementSchema(score=Amounts(60), groups=True)
    for kind in (field, Optional[field]):  # noqa: UP045 - which rows of Java are declared as
        types = {"user": str, "item": str, "group": str, "value": float} | {role: kind}
        with pytest.raises(InvalidArgument, match=told):
            schema.check(RowTypeConstraint.from_fields(list(types.items())))


def test_a_type_that_cannot_be_read_is_told_with_its_field() -> None:
    rows = RowTypeConstraint.from_fields([("who", float), ("item", str)])
    with pytest.raises(InvalidArgument, match="got a user in 'who' of type float: map it"):
        ElementSchema(user="who").check(rows)


@pytest.mark.parametrize("rows", [[("ana", "5")], [["ana", "5"]], ["ab"], [Play("ana", 5)]])
def test_pairs_are_refused_where_field_names_are_given(rows: list[Any]) -> None:
    with pytest.raises(InvalidArgument, match="takes rows or dicts with the fields listener and track, got an element"):
        read_back(rows, ElementSchema("listener", "track"))
    assert read_back(rows, ElementSchema("listener", "track"), untyped=True) == []


def test_the_methods_of_a_tuple_are_no_fields() -> None:
    assert ElementSchema("count", "index").values(Play("ana", 5)) == "unreadable"


def test_a_class_without_names_is_taken_by_its_places() -> None:
    assert ElementSchema().values(Pair(("ana", 5))) == ("ana", "5")
    assert ElementSchema().values(Pair((1, 2, 3))) == "unreadable"


TABLE = pa.table({"user": [SECRET], "item": ["5"]})
TABLES: dict[str, tuple[Any, str]] = {
    "a table of Arrow": (TABLE, "to_pylist()"),
    "a record batch": (TABLE.to_batches()[0], "to_pylist()"),
    "a frame of polars": (pl.DataFrame(TABLE), "to_dicts()"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_whole_tables_are_refused_and_the_refusal_says_how_they_become_rows(kind: str) -> None:
    table, to_rows = TABLES[kind]
    told = f"flatten them to rows first: beam.FlatMap(lambda table: table.{to_rows})"
    for element_type, refused in ((Any, Exception), (type(table), InvalidArgument)):
        with pytest.raises(refused) as caught, direct() as pipeline:
            tables = pipeline | create([0]) | beam.Map(lambda _: table).with_output_types(element_type)
            tables | PrivateTopK(1, Joint(epsilon=1.0), ["5"])
        assert told in str(caught.value) and SECRET not in str(caught.value)
    assert eval(f"table.{to_rows}", {"table": table}) == [{"user": SECRET, "item": "5"}]


def test_random_objects_are_pairs_or_left_out() -> None:
    """10,000 nests of everything that JSON, rows and tuples hold: none is guessed at."""
    draw = random.Random(7)

    def nest(depth: int) -> Any:  # noqa: ANN401
        kind = draw.randrange(5 if depth == 0 else 10)
        if kind < 5:
            return [None, "ab", 5, 1.5, True][kind]
        parts = [nest(depth - 1) for _ in range(draw.randrange(4))]
        names = [draw.choice(["user", "item", "other"]) for _ in parts]
        return [tuple(parts), parts, dict(zip(names, parts, strict=True)), str(parts), len(parts)][kind - 5]

    label = (str, int)
    for _ in range(10_000):
        element = nest(2)
        pair = [element.get("user", ...), element.get("item", ...)] if isinstance(element, dict) else element
        whole = isinstance(pair, tuple | list) and len(pair) == 2 and ... not in pair
        fine = whole and (None in pair or all(isinstance(v, label) and not isinstance(v, bool) for v in pair))
        null = whole and None in pair
        expected = "null" if null else tuple(str(value) for value in pair) if fine else "unreadable"
        assert ElementSchema().values(element) == expected


def test_the_refusal_names_the_fields_that_are_asked_for() -> None:
    rows = direct() | create([Order("ana", "tea", "FR")])
    with pytest.raises(
        InvalidArgument, match="without group, as Beam knows it: .* the parameters user and item and group, or map"
    ):
        rows | PrivateTopK(1, Joint(epsilon=1.0), ["tea"], groups=["FR"])
    with pytest.raises(
        InvalidArgument, match="without drink, as Beam knows it: give the names of .* as the parameters user and item$"
    ):
        rows | "Missing" >> PrivateTopK(1, Joint(epsilon=1.0), ["tea"], item="drink")
    with pytest.raises(InvalidArgument, match="as Beam knows it: several are a list: .'item', 'country'.$"):
        rows | "Comma" >> PrivateTopK(1, Joint(epsilon=1.0), ["tea"], item="item,country")
    with pytest.raises(InvalidArgument, match="as Beam knows it: .* as well needs groups=... or amounts=..."):
        triples = beam.Pipeline() | create([("ana", "tea", 1)])
        triples | beam.Map(lambda row: row[:2]) | PrivateTopK(1, Joint(epsilon=1.0), ["tea"])
    dicts = rows.pipeline | "Dicts" >> create([{"user": SECRET, "item": "tea", "country": "FR"}])
    with pytest.raises(InvalidArgument, match="^PrivateTopK takes a name for every field, .* several are a list: "):
        dicts | "Comma in dicts" >> PrivateTopK(1, Joint(epsilon=1.0), ["tea"], item="item,country")
    rows | "Named" >> PrivateTopK(1, Joint(epsilon=1.0), ["tea"], groups=["FR"], group="country")


@pytest.mark.parametrize(
    ("element_type", "told"), [(dict[str, str], True), (Any, True), (tuple[str, str], False), (Order, False)]
)
def test_it_is_told_where_nothing_can_be_checked(
    element_type: Any,  # noqa: ANN401
    told: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By the type alone, whatever flows: one user's element neither ends a job nor shows in it."""
    rows = direct() | create([{}]) | beam.Map(lambda row: row).with_output_types(element_type)
    rows | PrivateTopK(1, Joint(epsilon=1.0), ["tea"])
    said = [record.getMessage() for record in caplog.records]
    assert ["cannot check that elements have the fields user and item" in each for each in said] == [True] * told
