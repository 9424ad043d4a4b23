"""What a row's amount means, and that one user adds at most the cap, whatever the rows and their order are."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import TimestampedValue
from hypothesis import given
from hypothesis import strategies as st

from private_topk.transforms import (
    Amounts,
    CountBudget,
    Period,
    PrivateTopK,
    PublicDomain,
    Release,
    ReleaseKey,
    UnknownDomain,
    sharding,
    user_shard,
)
from private_topk.transforms.amounts import as_numbers
from private_topk.transforms.beam_yaml import RankRows
from private_topk.transforms.columnar import make_block
from private_topk.transforms.counts import add_up
from private_topk.transforms.layout import Layout
from private_topk.transforms.mechanisms import Joint, Laplace, Mechanism, RestrictedLaplace
from private_topk.transforms.parts import MANIFEST, Part
from private_topk.transforms.top_k import make_selection
from private_topk.transforms.user_shard import UserShard
from tests.quick import examples, in_check
from tests.transforms.pipelines import outcome

ITEMS = ["a", "b", "c", "d"]
HOSTILE = [
    0.0,
    -0.0,
    1.0,
    0.4,
    0.5,
    0.6,
    1.5,
    59.0,
    60.0,
    61.0,
    1e9,
    2.0**62,
    1e308,
    math.inf,
    -math.inf,
    -1.0,
    -(2.0**62),
    5e-324,
    math.nan,
    None,
]
Domain = UnknownDomain | list[str]
KEY = ReleaseKey.held(b"0123456789abcdef")
DOMAINS = {"public": PublicDomain.of(ITEMS), "unknown": UnknownDomain()}
SIXTY = Amounts.of(60)


def meant(amount: float | None, amounts: Amounts) -> int | None:
    """What a row adds, in units, by rational arithmetic; None where the row is left out."""
    if amount is None or math.isnan(amount):
        return None
    if math.isinf(amount):
        return amounts.cap if amount > 0 else 0
    return min(max(round(Fraction(amount) / amounts.value_resolution), 0), amounts.cap)


def sums(rows: Iterable[tuple[str, str, float | None]], amounts: Amounts) -> dict[str, int]:
    """The score of every item, by dictionaries alone."""
    of_users: dict[tuple[str, str], int] = defaultdict(int)
    for user, item, amount in rows:
        of_users[user, item] += meant(amount, amounts) or 0
    found: dict[str, int] = defaultdict(int)
    for (_, item), units in of_users.items():
        found[item] += min(units, amounts.cap)
    return {item: units for item, units in found.items() if units}


@pytest.mark.parametrize("resolution", ["1", "0.01", "5", "0.125"])
def test_a_row_adds_what_rational_arithmetic_says(resolution: str) -> None:
    """At amounts that floats hold exactly; ties go to the even unit."""
    amounts = Amounts.of(60, resolution)
    values = [v for v in HOSTILE if v is not None and not math.isnan(v)] + [k / 8 for k in range(-20, 600, 7)]
    found = amounts.units(pa.array(values, pa.float64()))
    assert found.tolist() == [meant(value, amounts) for value in values]


@pytest.mark.parametrize("resolution", ["1", "0.01", "0.05", "5", "0.3", "2.5", "0.001", "1/3", "0.00007"])
def test_decimals_are_rounded_as_decimals(resolution: str) -> None:
    """Every tie up to 3,000 units, and what lies next to it: as decimals and as the floats that they are written as."""
    amounts = Amounts.of(Fraction(resolution) * 2900, Fraction(resolution))
    unit = amounts.value_resolution
    ties = [(m + Fraction(1, 2)) * unit for m in range(-3, 3000)]
    exact = [tie + move * unit for tie in ties for move in (Fraction(-1, 1000), 0, Fraction(1, 1000))]
    held = [Decimal(a.numerator) / Decimal(a.denominator) for a in exact if resolution != "1/3"]
    expected = [min(max(round(a / unit), 0), amounts.cap) for a in exact]
    for column in (
        held and pa.array(held),
        pa.array([float(a) for a in exact]),
        pa.array([repr(float(a)) for a in exact]),
    ):
        assert not column or amounts.units(as_numbers(column)).tolist() == expected


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        (
            pa.array(["1", "-1", ".5", "5.", "+7", "1e2", "1e400", "-1e400", "4611686018427387904", "-0.0", "1e-400"]),
            [1, -1, 0.5, 5, 7, 100, math.inf, -math.inf, 2.0**62, 0, 0],
        ),
        (
            pa.array(["", "nan", "NaN", "inf", "-inf", " 3", "3 ", "0x1", "1_0", "1,5", "12a", "true", None, "--1"]),
            [None] * 14,
        ),
        (pa.array([2**62, -(2**63), 2**63 - 1, None]), [2.0**62, -(2.0**63), 2.0**63, None]),
        (pa.array([2**64 - 1], pa.uint64()), [2.0**64]),
        (pa.array([math.nan, -0.0, math.inf, 1.5]), [None, 0, math.inf, 1.5]),
        (pa.array(np.array([1.5, np.nan], np.float16)), [1.5, None]),
        (pa.array([Decimal("1.25"), None]), [1.25, None]),
        (pa.array(["2", "x", "2"]).dictionary_encode(), [2, None, 2]),
        (pa.nulls(2), [None, None]),
    ],
)
def test_numbers_in_every_kind_of_column(column: pa.Array, numbers: list[float | None]) -> None:
    assert as_numbers(column).to_pylist() == numbers
    alone = [as_numbers(column.slice(n, 1)).to_pylist()[0] for n in range(len(column))]
    assert alone == numbers, "what a value means hangs on the others of its column"


@pytest.mark.parametrize("kind", [pa.bool_(), pa.date32(), pa.timestamp("us"), pa.list_(pa.int64()), pa.binary()])
def test_a_column_of_no_numbers_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="amounts must be numbers, got"):
        as_numbers(pa.array([], kind))


@pytest.mark.parametrize(
    ("most", "resolution", "message"),
    [
        (0, 1, "max_value must be a positive number, got 0"),
        (-1, 1, "max_value must be a positive number"),
        (math.nan, 1, "max_value must be a positive number, got nan"),
        (math.inf, 1, "max_value must be a positive number, got inf"),
        ("much", 1, "max_value must be a positive number, got 'much'"),
        (True, 1, "max_value must be a positive number"),
        (60, 0, "value_resolution must be a positive number, got 0"),
        (60, 7, "max_value must be a whole multiple of value_resolution, got 60 and 7"),
        (0.5, 1, "max_value must be a whole multiple of value_resolution, got 0.5 and 1"),
        (2**31, 1, r"max_value must be at most 2\*\*30 times value_resolution"),
        (60, "1e-30", r"max_value must be at most 2\*\*30 times value_resolution"),
        (1e300, 1e300, r"max_value must be below 2\*\*52"),
    ],
)
def test_caps_and_units_that_are_none_are_refused(most: object, resolution: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Amounts.of(most, resolution)


def test_numbers_are_meant_as_they_are_written() -> None:
    assert Amounts.of(0.3, 0.1) == Amounts(Fraction(3, 10), Fraction(1, 10)) and Amounts.of(0.3, 0.1).cap == 3
    assert Amounts.of(60).describe() == {"max_value": 60, "value_resolution": 1}
    assert Amounts.of(60, 0.25).shown(7) == 1.75 and Amounts.of(60, 5).shown(7) == 35


def counted(
    rows: list[tuple[str, str, float | None]],
    domain: str,
    limit: int | None,
    cap: Amounts,
    shards: int,
    blocks: int,
    early: bool,
) -> dict[str, int]:
    """The totals of one window by the pipeline's functions; `early` as in a stream, bounded as the rows come."""
    known = DOMAINS[domain]
    layout = Layout.of(known)
    fn = sharding._ShardDoFn(known, KEY, shards, layout, amounts=cap)
    counter = UserShard(layout, KEY, limit, cap.cap)
    fn.setup()
    pairs = {shard: [counter.no_pairs()] for shard in range(shards)}
    for block in range(blocks):
        some = rows[block::blocks] or [("", "", None)]
        users, items, amounts = (list(column) for column in zip(*some, strict=True))
        columns = (
            pa.array(users, pa.string()),
            pa.array(items, pa.string()),
            as_numbers(pa.array(amounts, pa.float64())),
        )
        for shard, table in fn.process(make_block(*columns[:2], amounts=columns[2])[0]):
            pairs[shard].append(table)
            if early:
                pairs[shard] = [counter.distinct(pairs[shard])]
    places = defaultdict(list)
    for shard, tables in pairs.items():
        for place, table in counter.counts(tables):
            places[place].append(Part(np.array([shard]), table))
    found: dict[str, int] = {}
    for place, parts in places.items():
        assert place != MANIFEST
        table = add_up(place, parts, layout)[1].table
        for item, count in zip(table["item"].to_pylist(), table["count"].to_pylist(), strict=True):
            found[ITEMS[item] if domain == "public" else item] = count
    return found


ROWS = st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from(ITEMS), st.sampled_from(HOSTILE)), max_size=60)
WAYS = [(1, 1, False), (2, 3, True), (8, 2, False), (1, 4, True)]
"""Shards, blocks, and whether pairs are put together as they come."""

Rows = list[tuple[str, str, float | None]]


@examples(50)
@given(
    rows=ROWS,
    domain=st.sampled_from(sorted(DOMAINS)),
    resolution=st.sampled_from([1, 0.5, 20]),
    way=st.sampled_from(WAYS),
)
def test_sums_are_those_of_dictionaries(rows: Rows, domain: str, resolution: float, way: tuple[int, int, bool]) -> None:
    amounts = Amounts.of(60, resolution)
    assert counted(rows, domain, None, amounts, *way) == sums(rows, amounts)


@examples(50)
@given(
    others=ROWS,
    mine=st.lists(st.tuples(st.sampled_from(ITEMS), st.sampled_from(HOSTILE)), max_size=40),
    domain=st.sampled_from(sorted(DOMAINS)),
    limit=st.sampled_from([None, 1, 2]),
    ways=st.tuples(st.sampled_from(WAYS), st.sampled_from(WAYS)),
    draw=st.randoms(use_true_random=False),
)
def test_one_user_adds_at_most_the_cap_to_at_most_so_many_items(others, mine, domain, limit, ways, draw) -> None:  # noqa: ANN001
    """Whatever the user's rows are. The same whichever way they are counted."""
    rows = [*others, *(("the one user", *row) for row in mine)]
    here = look(others, rows, domain, limit, ways[0])
    draw.shuffle(rows)
    assert here == counted(rows, domain, limit, SIXTY, *ways[1]), "what is kept hangs on order, blocks or shards"


def look(others: Rows, rows: Rows, domain: str, limit: int | None, way: tuple[int, int, bool]) -> dict[str, int]:
    """The sums of the rows, held to those of the rows of the others."""
    without, here = counted(others, domain, limit, SIXTY, *way), counted(rows, domain, limit, SIXTY, *way)
    added = {item: here.get(item, 0) - without.get(item, 0) for item in {*here, *without}}
    assert all(0 <= units <= 60 for units in added.values())
    assert sum(units > 0 for units in added.values()) <= (limit or len(ITEMS))
    return here


@pytest.mark.parametrize("way", WAYS)
def test_the_look_sees_a_cap_that_is_not_applied(way: tuple[int, int, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    mine: Rows = [("the one user", "a", 59.0)] * 3
    look([], mine, "public", None, way)
    sound = user_shard.sorted_sums
    monkeypatch.setattr(user_shard, "sorted_sums", lambda *columns: sound(*columns[:3], 2**60))
    with pytest.raises(AssertionError):
        look([], mine, "public", None, way)


WEEK = Period(datetime(2026, 1, 5, tzinfo=timezone.utc), datetime(2026, 1, 8, tzinfo=timezone.utc), timedelta(days=1))
SLIDING = Period(WEEK.start, WEEK.end, timedelta(days=2), timedelta(days=1))


def plays(seed: int = 1) -> list[tuple[str, str, float | None, int]]:
    """User, item, amount, and seconds since the period's start; some users have every hostile amount."""
    draw = np.random.default_rng(seed)
    some = [
        (
            f"u{draw.integers(30)}",
            ITEMS[min(draw.integers(4), draw.integers(4))],
            float(draw.integers(1, 9)),
            int(draw.integers(259_200)),
        )
        for _ in range(900)
    ]
    evil = [(f"evil {n % 3}", ITEMS[n % 4], amount, 1000 * n) for n, amount in enumerate(HOSTILE * 4)]
    return [*some, *evil]


def ranked(
    rows: list[Any], period: Period | None, mechanism: Mechanism, domain: Domain, shards: int = 4
) -> list[list[Any]]:
    """Every window's items and noisy sums, as PrivateTopK gives them."""
    release = Release(ReleaseKey.held(b"a key of enough bytes"), "amounts")
    rank = PrivateTopK(
        3,
        mechanism,
        domain,
        publish_counts=CountBudget(1.0),
        release=release,
        period=period,
        amounts=SIXTY,
        shards=shards,
    )
    begin = WEEK.start.timestamp()

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        timed = pipeline | beam.Create([TimestampedValue(row[:3], begin + row[3]) for row in rows])
        return timed | rank | beam.Map(lambda r: [r.window.label(), list(r.items), list(r.noisy_counts or ())])

    return sorted(element for _, element in outcome(build))


@in_check("period1")
@pytest.mark.parametrize("period", [None, WEEK, SLIDING])
def test_a_pipeline_ranks_by_the_sums(period: Period | None) -> None:
    """At an epsilon without noise to speak of, against dictionaries, window by window; in any order of the rows."""
    rows = plays()
    release = Release(ReleaseKey.held(b"a key of enough bytes"), "sharp")
    rank = PrivateTopK(
        3, Laplace(1e6), ITEMS, publish_counts=CountBudget(1e6), release=release, period=period, amounts=SIXTY
    )
    begin = WEEK.start.timestamp()

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        timed = pipeline | beam.Create([TimestampedValue(row[:3], begin + row[3]) for row in rows])
        return timed | rank | beam.Map(lambda r: [r.window.label(), list(zip(r.items, r.noisy_counts, strict=True))])

    found = dict(element for _, element in outcome(build))
    windows = (
        [(None, None, "all")]
        if period is None
        else [
            (window.start.timestamp() - begin, window.end.timestamp() - begin, window.label())
            for window in period.windows()
        ]
    )
    assert len(found) == len(windows)
    for start, end, label in windows:
        inside = [row[:3] for row in rows if start is None or start <= row[3] < end]
        best = sorted(sums(inside, SIXTY).items(), key=lambda pair: -pair[1])[:3]
        ranked_here = found[label if start is not None else next(iter(found))]
        assert [tuple(pair) for pair in ranked_here if pair[1]] == best


@pytest.mark.long
def test_the_answer_does_not_hang_on_the_order_of_rows_or_shards() -> None:
    rows = plays()
    cases: list[tuple[Any, Any]] = [(Joint(1.0), ITEMS), (RestrictedLaplace(3.0, 1e-3, 2), UnknownDomain())]
    for mechanism, domain in cases:
        first = ranked(rows, SLIDING, mechanism, domain)
        turned = random.Random(3).sample(rows, len(rows))
        assert first == ranked(turned, SLIDING, mechanism, domain, shards=2) and len(first) == 2


def test_amounts_are_numbers_in_elements_of_three() -> None:
    for bad, message in (
        (("a", "b"), "takes .user, item, value. triples"),
        (("a", "b", "3"), "amounts that are numbers, got one of type str"),
        (("a", "b", True), "got one of type bool"),
        ("abc", "got an element of type str"),
    ):
        with pytest.raises(Exception, match=message) as raised, beam.Pipeline(runner="FnApiRunner") as pipeline:
            _ = pipeline | beam.Create([bad]) | PrivateTopK(1, Joint(1.0), ITEMS, amounts=SIXTY)
        assert "'3'" not in str(raised.value)


def test_huge_integers_decimals_and_fractions_are_amounts() -> None:
    rows = [
        ("u", "a", 10**400),
        ("v", "a", -(10**400)),
        ("w", "b", Decimal("2.5")),
        ("x", "b", Fraction(7, 2)),
        ("y", "c", np.float32(3)),
    ]
    rank = PrivateTopK(3, Laplace(1e6), ITEMS, publish_counts=CountBudget(1e6), amounts=SIXTY)
    [[_, found]] = outcome(
        lambda p: p | beam.Create(rows) | rank | beam.Map(lambda r: list(zip(r.items, r.noisy_counts, strict=True)))
    )
    assert [tuple(pair) for pair in found] == [("a", 60), ("b", 2 + 4), ("c", 3)]


def test_beam_yaml_takes_a_field_of_amounts() -> None:
    rows = [
        beam.Row(user="u", item="a", minutes=500.0),
        beam.Row(user="v", item="b", minutes=40.0),
        beam.Row(user="w", item="b", minutes=None),
    ]
    found = outcome(
        lambda p: (
            p
            | beam.Create(rows)
            | RankRows(2, "laplace", 1e6, ITEMS, value="minutes", max_value=60)
            | beam.Map(lambda row: [row.rank, row.item])
        )
    )
    assert sorted(element for _, element in found) == [[1, "a"], [2, "b"]]
    with pytest.raises(ValueError, match="value needs max_value"):
        RankRows(2, "laplace", 1.0, ITEMS, value="minutes")
    with pytest.raises(ValueError, match="max_value and value_resolution need value"):
        RankRows(2, "laplace", 1.0, ITEMS, max_value=60)


def test_the_seed_and_the_manifest_know_the_amounts() -> None:
    plain, capped, finer = (
        make_selection(2, Joint(1.0), ITEMS, amounts=amounts).parameters()
        for amounts in (None, SIXTY, Amounts.of(60, 0.5))
    )
    assert "amounts" not in plain and "cap" not in plain
    assert capped == {**plain, "cap": 60, "amounts": {"max_value": 60, "value_resolution": 1}} != finer
    with pytest.raises(TypeError, match="amounts must be Amounts"):
        make_selection(2, Joint(1.0), ITEMS, amounts=60)  # type: ignore[arg-type]
