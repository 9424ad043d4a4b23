"""What a row's amount means, by rational arithmetic; test_dictionaries.py has what a user adds."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from private_topk.pipelines.release.identity import identity_of
from private_topk.transforms import Amounts, CountBudget, PrivateTopK
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import Joint, Laplace
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.metric import USERS, Score, as_numbers
from private_topk.transforms.release import Release
from private_topk.transforms.spec import TopK
from tests.transforms.pipelines import create, outcome

ITEMS, SIXTY = ["a", "b", "c", "d"], Amounts(60)
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
]


@pytest.mark.parametrize("resolution", ["1", "0.01", "5", "0.125"])
def test_a_row_adds_what_rational_arithmetic_says(resolution: str) -> None:
    """At amounts that floats hold exactly; ties go to the even unit."""
    amounts = Amounts(60, resolution)
    values = [*HOSTILE, *(k / 8 for k in range(-20, 600, 7))]
    clipped = [max(min(value, 61.0), -1.0) for value in values]
    meant = [min(max(round(Fraction(value) / amounts.value_resolution), 0), amounts.cap) for value in clipped]
    assert amounts.units(pa.array(values, pa.float64())).tolist() == meant


@pytest.mark.parametrize("resolution", ["1", "0.01", "0.05", "5", "0.3", "2.5", "0.001", "1/3", "0.00007"])
def test_decimals_are_rounded_as_decimals(resolution: str) -> None:
    """Every tie up to 3,000 units, and what lies next to it: as decimals and as the floats that they are written as."""
    amounts = Amounts(Fraction(resolution) * 2900, Fraction(resolution))
    unit = amounts.value_resolution
    ties = [(m + Fraction(1, 2)) * unit for m in range(-3, 3000)]
    exact = [tie + move * unit for tie in ties for move in (Fraction(-1, 1000), 0, Fraction(1, 1000))]
    columns = [pa.array([float(a) for a in exact]), pa.array([repr(float(a)) for a in exact])]
    if resolution != "1/3":
        columns.append(pa.array([Decimal(a.numerator) / Decimal(a.denominator) for a in exact]))
    for column in columns:
        expected = [min(max(round(a / unit), 0), amounts.cap) for a in exact]
        assert amounts.units(as_numbers(column)).tolist() == expected


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        (
            pa.array(["1", "-1", ".5", "5.", "+7", "1e2", "1e400", "-1e400", "4611686018427387904", "-0.0", "1e-400"]),
            [1, -1, 0.5, 5, 7, 100, math.inf, -math.inf, 2.0**62, 0, 0],
        ),
        (pa.array(["007", "5e-7", "9" * 40]), [7, 5e-7, 1e40]),
        (
            pa.array(["", "nan", "NaN", "inf", "-inf", " 3", "3 ", "0x1", "1_0", "1,5", "12a", "true", None, "--1"]),
            [None] * 14,
        ),
        (
            pa.array(["Infinity", "1e", "\u0661", "+", ".", "e5"]),
            [None] * 6,
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


@pytest.mark.parametrize("kind", [pa.bool_(), pa.date32(), pa.timestamp("us"), pa.list_(pa.int64()), pa.uuid()])
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
    with pytest.raises(InvalidArgument, match=message):
        Amounts(most, resolution)


def test_numbers_are_meant_as_they_are_written() -> None:
    assert Amounts(0.3, 0.1) == Amounts(Fraction(3, 10), Fraction(1, 10)) and Amounts(0.3, 0.1).cap == 3
    assert SIXTY.describe() == {"amounts": {"max_value": 60, "value_resolution": 1}}
    assert Amounts(60, 0.25).shown(7) == 1.75 and Amounts(60, 5).shown(7) == 35


def test_a_resolution_of_1_is_the_same_whether_it_is_said_or_not() -> None:
    assert Amounts(60, 1) == SIXTY and identity_of(Amounts(60, 1)) == identity_of(SIXTY)
    assert Amounts(60, 1).options() == {"max_value": 60, "value_resolution": 1}, "commands that are told say it too"
    assert SIXTY.options() == {"max_value": 60, "value_resolution": None}


@pytest.mark.parametrize("amount", [1.5, Decimal("1.5")])
def test_elements_whose_amounts_may_have_decimals_need_a_resolution(amount: object) -> None:
    rows = beam.Pipeline() | create([("u", "a", amount)])
    with pytest.raises(InvalidArgument, match="^value_resolution must be given: column 'value' may have decimals"):
        rows | PrivateTopK(1, Joint(1.0), ITEMS, amounts=SIXTY)
    for number, resolution in enumerate((1, 0.1)):
        rows | f"Rank {number}" >> PrivateTopK(1, Joint(1.0), ITEMS, amounts=Amounts(60, resolution))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (("a", "b"), "takes .user, item, value. triples"),
        ("abc", "got an element of type str"),
        (("a", "b", date(2026, 1, 5)), "amounts that are numbers, got an amount of type date"),
        (("a", "b", True), "got an amount of type bool"),
    ],
)
def test_amounts_are_numbers_in_elements_of_three(bad: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidArgument, match=message) as raised:
        beam.Pipeline() | create([bad]) | PrivateTopK(1, Joint(1.0), ITEMS, amounts=SIXTY)
    assert "2026" not in str(raised.value)


def test_huge_integers_decimals_and_fractions_are_amounts() -> None:
    rows = [
        ("u", "a", 10**400),
        ("v", "a", -(10**400)),
        ("w", "b", Decimal("2.5")),
        ("x", "b", Fraction(7, 2)),
        ("y", "c", np.float32(3)),
        ("z", "c", "2.0"),
        *(("z", "c", text) for text in ("much", "1_0", " 3", "nan")),
    ]
    rank = PrivateTopK(3, Laplace(1e6), ITEMS, publish_counts=CountBudget(1e6), amounts=SIXTY)
    pairs = beam.Map(lambda ranking: list(zip(ranking.items, ranking.noisy_counts, strict=True)))
    [[_, found]] = outcome(lambda p: p | create(rows) | rank | pairs)
    assert [tuple(pair) for pair in found] == [("a", 60), ("b", 2 + 4), ("c", 3 + 2)]


@pytest.mark.parametrize("epsilon", [1e-18, 1e-307, 5e-324])
@pytest.mark.parametrize("score", [USERS, SIXTY, Amounts(60, 2)])
def test_noise_beyond_all_numbers_is_a_number_that_a_file_can_hold(epsilon: float, score: Score) -> None:
    spec = TopK(2, Joint(1.0), PublicDomain.of(ITEMS), publish_counts=CountBudget(epsilon), score=score)
    drawn = spec.draw(Histogram.of(np.array([3, 2, 1, 0])), b"", "window", Release.fresh())
    assert drawn.noise is not None and drawn.noise == spec.noise(2) and math.isfinite(drawn.noise.stddev)
    for value in (*(drawn.noisy_counts or ()), drawn.noise.within_95):
        assert -(2**63) <= value < 2**63
