"""What items are ranked by: how many users hold them, clipped sums of amounts, or sums of weights.

One user who is added or removed moves every score the same way, each by anything between 0 and the cap. The
proofs of mechanisms speak of counts that move by 0 or 1; for moves of any size in [0, 1] units of the cap:

- Losses (`joint`, `fast-joint`, `joint-set`, `canonical`) are largest differences of counts or of sorted counts, which
  move as far as the counts do.
- `peeling`, `cdp-peeling`, `pnf-peeling`, `limit-domain` need scores that move one way by at most the cap.
- `oneshot`, `laplace` (calibrated to k): hold the noise of the items not chosen and raise that of each chosen item by
  what it lacks to a full cap.
- `laplace`, `gaussian`, `gamma` by sensitivity: m caps in l_1, sqrt(m) caps in l_2, one cap in l_inf, all largest at
  whole caps.
- The unknown domain's slots: an item that a new user brings in has at most the count of the one it replaces plus a cap.
- The tests of `restricted-*` compare items with a bar, and both move. A user comes and the bar rises by b: take b off
  the threshold's noise, and what passed still passes. A user leaves and the bar falls by b: add b to the threshold's
  noise and take a cap off. Both shifts are a cap at most, and so is that of the one level that fails.
- `top-stable`'s gaps move by at most a cap.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from private_topk.transforms.columnar import (
    Codes,
    Words,
    add_up,
    count_pairs,
    make_table,
    sorted_pairs,
    sorted_sums,
)
from private_topk.transforms.errors import InvalidArgument, by_signature, kind_shown, plain, verbatim
from private_topk.transforms.mechanisms.weighted import UNIT as WEIGHT
from private_topk.transforms.mechanisms.weighted import Weighting
from private_topk.transforms.release import NoiseSize
from private_topk.transforms.types import Kind, is_binary, is_text, rule_of, written_out

_MAX_UNITS = 1 << 30
"""The largest cap, in units: the amounts of eight billion users still add up to less than 2**63."""

Number = Fraction | Decimal | float | str
"""What may be given for an exact number: a float is the decimal that it prints."""

NUMERAL = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
"""How a number is written in a text, as a regular expression."""


_MOST = 2**63 - 1  # that a column of integers can hold


class Pairs(NamedTuple):
    """Distinct (user, code) pairs: (n,) a number for the user of each, their codes, and what each adds in units; and
    the user words by number.
    """

    ranks: Codes
    codes: Codes
    users: Words
    added: Codes


@dataclass(frozen=True)
class Score:
    """What one user adds to the score of an item: here 1 for each that they hold. The other scores are its subclasses.

    Attributes:
        columns: what of a row says what is added: fields of elements, by their roles, and columns of blocks.
        measure: what items are ranked by; `called`, what that of an item is; and `explained`, both in a sentence.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    measure: ClassVar[str] = "numbers of users"
    called: ClassVar[str] = "count"

    @property
    def explained(self) -> str:
        return (
            "Items are ranked by how many different people have them. How often one person has an item does not matter."
        )

    @property
    def cap(self) -> int:
        """The most that a user adds to an item, in units."""
        return 1

    @property
    def unit(self) -> Fraction:
        """What a unit is worth."""
        return Fraction(1)

    @property
    def resolution(self) -> Fraction | None:
        """What a unit is worth; None where it is a user."""
        return None

    @property
    def most(self) -> Fraction:
        """The most that a user adds to an item."""
        return self.cap * self.unit

    @property
    def least(self) -> int:
        """In an unknown domain, the least score in units that a mechanism looks at."""
        return 0

    def describe(self) -> dict[str, Any]:
        """What a manifest states of it, as JSON; and a release's seed, but for what the mechanism states."""
        return {}

    def options(self) -> dict[str, Any]:
        """The options that ask for it, None for those that it does not need."""
        return {"max_value": None, "value_resolution": None}

    def check_resolution(self, kind: Kind | None, column: str, where: str = "") -> None:
        """Raise InvalidArgument if amounts of a kind would lose their decimals, and nobody has said so."""

    def rounded(self, block: pa.RecordBatch) -> int:
        """How many rows of a block lose the decimals of their amounts, and nobody has said so."""
        return 0

    def in_units(self, block: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a block that add something, with what they add in units."""
        return block

    def added(self, rows: pa.RecordBatch) -> Codes:
        """What each row adds, in units, (n,)."""
        return _ones(len(rows))

    def stored(self, added: Codes) -> dict[str, NDArray]:
        """Its columns of rows that add so much."""
        return dict.fromkeys(self.columns, added.astype(np.uint32))

    def pairs(self, users: Words, codes: Codes, added: Codes) -> Pairs:
        """The distinct pairs of rows, and what each adds."""
        ranks, codes, users = sorted_pairs(users, codes)
        return Pairs(ranks, codes, users, _ones(len(codes)))

    def totals(self, ranks: Codes, codes: Codes, added: Codes, size: int) -> tuple[Codes, Codes]:
        """The codes in [0, size) that occur in pairs, increasing, and what these add up to."""
        return count_pairs(codes, size)

    def shown(self, units: int) -> int | float:
        """A score in units as it is published."""
        return units

    def noise(self, units: NoiseSize) -> NoiseSize:
        """Noise in units as it is published."""
        return units


USERS = Score()


def _ones(size: int) -> Codes:
    """So many ones, in the memory of one."""
    return np.broadcast_to(np.int64(1), size)


@by_signature
@dataclass(frozen=True)
class Amounts(Score):
    """Ranking by sums of amounts, such as minutes, plays or revenue, instead of by the number of users.

    An item's score is the sum over users of `min(max_value, the user's amount for it)`. A user's amount for an item is
    the sum of the amounts of their rows of it in the window, each rounded to the nearest multiple of the resolution
    (ties to the even one) and at least 0.

    An amount is the 64-bit float nearest to it, whatever type holds it, and it is a tie where that float is the one
    nearest to a half of a unit. So a decimal means the same as an integer, a float, a decimal and a text: 1.015 is a
    tie of cents, though its float lies below.

    Args:
        max_value: the most that one user adds to an item's score. Public: chosen without looking at the data.
        value_resolution: amounts are counted in units of it, by default 1. A column of floats or decimals needs it.
            `max_value` is a whole number of units, 2**30 at most.
    """

    identity_tag: ClassVar[str] = "amounts"

    max_value: Fraction
    value_resolution: Fraction
    _is_said: bool = field(
        init=False, compare=False, repr=False, metadata={"not_in_fingerprint": "a 1 that is said is the same 1"}
    )

    def __init__(self, max_value: Number, value_resolution: Number | None = None) -> None:
        object.__setattr__(self, "_is_said", value_resolution is not None)
        for name, number in (("max_value", max_value), ("value_resolution", value_resolution if self._is_said else 1)):
            object.__setattr__(self, name, _positive(name, number))
        units = self.max_value / self.value_resolution
        got = f"got {_number(self.max_value)} and {_number(self.value_resolution)}"
        if units.denominator != 1:
            raise InvalidArgument("max_value", f"must be a whole multiple of {{value_resolution}}, {got}")
        if units > _MAX_UNITS:
            raise InvalidArgument(
                "max_value", f"must be at most 2**30 times {{value_resolution}}, {got}", "count in coarser units"
            )
        if max(self.max_value, 1 / self.value_resolution) >= 2**52:
            raise InvalidArgument("max_value", "must be below 2**52, and {value_resolution} above 2**-52")

    columns: ClassVar[tuple[str, ...]] = ("value",)
    measure: ClassVar[str] = "amounts"
    called: ClassVar[str] = "sum"

    @property
    def explained(self) -> str:
        most = f"{float(self.most):,.15g}"
        return f"Items are ranked by an amount that is added up over people; each adds at most {most} to an item."

    @property
    def cap(self) -> int:
        """`max_value` in units."""
        return int(self.max_value / self.value_resolution)

    @property
    def unit(self) -> Fraction:
        return self.value_resolution

    @property
    def resolution(self) -> Fraction:
        return self.value_resolution

    def check_resolution(self, kind: Kind | None, column: str, where: str = "") -> None:
        if kind is not None and kind.fractions and not self._is_said:
            rule = f"must be given: column {column!r}{where and f' of {where}'} may have decimals, by its type"
            remedy = "0.01 keeps two decimals, and 1 rounds every amount to a whole number"
            raise InvalidArgument("value_resolution", verbatim(rule), remedy)

    def rounded(self, block: pa.RecordBatch) -> int:
        if self._is_said:
            return 0
        numbers = block["value"].to_numpy()
        return int(np.count_nonzero((numbers > 0) & (numbers < self.cap) & (numbers != np.floor(numbers))))

    def in_units(self, block: pa.RecordBatch) -> pa.RecordBatch:
        units = self.units(block["value"])
        columns = {name: block[name] for name in block.schema.names if name != "value"}
        table = make_table(**columns, value=units.astype(np.uint32))
        return table.filter(pa.array(units > 0)) if len(units) and units.min() == 0 else table

    def added(self, rows: pa.RecordBatch) -> Codes:
        return rows["value"].to_numpy().astype(np.int64)

    def pairs(self, users: Words, codes: Codes, added: Codes) -> Pairs:
        return Pairs(*sorted_sums(users, codes, added, self.cap))

    def totals(self, ranks: Codes, codes: Codes, added: Codes, size: int) -> tuple[Codes, Codes]:
        return add_up(codes, added)

    def units(self, values: pa.Array) -> Codes:
        """The amounts of rows in units, 0 to `cap`, (n,) int64.

        Args:
            values: float64 without nulls or NaN, as `as_numbers` makes them.
        """
        # Compared with the float nearest to half a unit, and not multiplied: a product is rounded, and turns ties up
        # or down. Both sides of the quotient are whole and below 2**53 for all but resolutions of very many digits.
        step, parts = float(self.value_resolution.numerator), float(self.value_resolution.denominator)
        numbers = values.to_numpy()
        with np.errstate(over="ignore"):
            below = np.floor(np.clip(numbers * parts / step, -1, self.cap + 1))
        half = (2 * below + 1) * step / (2 * parts)
        up = (numbers > half) | ((numbers == half) & (below % 2 == 1))
        return np.clip(below + up, 0, self.cap).astype(np.int64)

    def shown(self, units: int) -> int | float:
        amount = units * self.value_resolution
        return max(-_MOST - 1, min(int(amount), _MOST)) if self.unit.denominator == 1 else float(amount)

    def noise(self, units: NoiseSize) -> NoiseSize:
        stddev = Fraction(str(units.stddev)) * self.value_resolution  # exactly the six digits it is rounded to
        return NoiseSize(float(min(stddev, Fraction(sys.float_info.max))), self.shown(int(units.within_95)))

    def describe(self) -> dict[str, Any]:
        numbers = {"max_value": _number(self.max_value), "value_resolution": _number(self.value_resolution)}
        return {"amounts": numbers}

    def options(self) -> dict[str, Any]:
        return {"max_value": self.max_value, "value_resolution": self.value_resolution if self._is_said else None}


@dataclass(frozen=True)
class Weights(Score):
    """Users share themselves out over what they hold, as a mechanism that weighs them says."""

    weighting: Weighting

    def describe(self) -> dict[str, Any]:
        noise = float(f"{float(self.weighting.noise / WEIGHT):.6g}")
        of_a_user = f"min(1, sqrt({self.weighting.whole_items} / t))"
        return {"weights": {"of_a_user_with_t_items": of_a_user, "noise_stddev": noise or None}}

    @property
    def least(self) -> int:
        return self.weighting.least

    def totals(self, ranks: Codes, codes: Codes, added: Codes, size: int) -> tuple[Codes, Codes]:
        return add_up(codes, self.weighting.weights(ranks))


def _number(value: Fraction) -> int | float | str:
    return int(value) if value.denominator == 1 else plain(value)


def _positive(field: str, value: object) -> Fraction:
    if isinstance(value, Fraction) and value > 0:
        return value
    try:
        number = None if isinstance(value, bool) else Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        number = None
    if number is None or number <= 0:
        raise InvalidArgument(field, f"must be a positive number, got {kind_shown(value)}")
    return number


def as_numbers(values: pa.Array) -> pa.Array:
    """A column of amounts as float64, null where there is none: for a missing value, NaN, and a text that is no number.

    Every number becomes the float nearest to it; beyond the floats it is infinite, which is above every cap or below 0.
    What a value means never depends on the others of its column.

    Raises:
        TypeError: for a type that holds no numbers.
    """
    broken = rule_of("amount", values.type)
    if broken is not None:
        raise TypeError(broken.rule)
    values = written_out(values)
    if pa.types.is_decimal(values.type):  # Arrow's own cast to floats is off by what the column's scale makes of it
        values = values.cast(pa.large_string())
    if is_text(values.type) or is_binary(values.type):
        import polars as pl  # loads as long as the rest of this package

        column = pl.Series("amount", values.cast(pa.large_string()))
        known = column.str.contains(NUMERAL).fill_null(False)
        values = column.set(~known, None).cast(pl.Float64, strict=False).to_arrow()
    elif pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    numbers = values.cast(pa.float64(), safe=False)
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
