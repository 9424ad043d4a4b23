"""What a row's amount means, and that one user adds at most the cap, whatever the rows and their order are."""

from __future__ import annotations

import math
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
from hypothesis import strategies as st

from private_topk.transforms import (
    Amounts,
    CountBudget,
    Period,
    PrivateTopK,
    Release,
    ReleaseKey,
    UnknownDomain,
)
from private_topk.transforms.beam_yaml import RankRows
from private_topk.transforms.mechanisms import Joint, Laplace, Mechanism
from private_topk.transforms.metric import as_numbers
from private_topk.transforms.spec import TopK
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


ROWS = st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from(ITEMS), st.sampled_from(HOSTILE)), max_size=60)
WAYS = [(1, 1, False), (2, 3, True), (8, 2, False), (1, 4, True)]
"""Shards, blocks, and whether pairs are put together as they come."""

Rows = list[tuple[str, str, float | None]]


WEEK = Period(datetime(2026, 1, 5, tzinfo=timezone.utc), datetime(2026, 1, 8, tzinfo=timezone.utc), timedelta(days=1))


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
        TopK.of(2, Joint(1.0), ITEMS, amounts=amounts).parameters() for amounts in (None, SIXTY, Amounts.of(60, 0.5))
    )
    assert "amounts" not in plain and "cap" not in plain
    assert capped == {**plain, "cap": 60, "amounts": {"max_value": 60, "value_resolution": 1}} != finer
    with pytest.raises(TypeError, match="amounts must be Amounts"):
        TopK.of(2, Joint(1.0), ITEMS, amounts=60)  # type: ignore[arg-type]
