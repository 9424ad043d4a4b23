"""What a value means as an event time: microseconds since 1970 UTC, or nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.transforms.columnar import type_name

__all__ = ["to_microseconds"]

_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_TEXT = (r"^([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?"
         r"(?:[Zz]|([+-][0-9]{2})(?::?([0-9]{2}))?)?)?$")  # fmt: skip
_WHOLE = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_FARTHEST = 3_155_760_000_000_000_000  # microseconds in 100,000 years, well inside int64


def to_microseconds(times: pa.Array, unit: str) -> pa.Array:
    """Event times as microseconds since 1970 UTC, int64; null where a value is no time or farther than 100,000 years.

    Finer times are rounded down, floating-point ones that are not whole to the nearest (ties to even). What a value
    means never depends on the others of its column.

    Raises TypeError for a type that cannot be a time.
    """
    if isinstance(times, pa.ChunkedArray):
        times = times.combine_chunks()
    if pa.types.is_dictionary(times.type):
        times = times.dictionary_decode()
    kind = times.type
    if pa.types.is_timestamp(kind):
        ticks = times.cast(pa.int64())
        return _micros_of(ticks) if kind.unit == "ns" else _scaled(ticks, _UNITS[kind.unit])
    if pa.types.is_date32(kind):
        return _scaled(times.cast(pa.int32()).cast(pa.int64()), 86_400_000_000)
    if pa.types.is_date64(kind):
        return _scaled(times.cast(pa.int64()), _UNITS["ms"])
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _scaled(times, _UNITS[unit])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _from_text(times.cast(pa.large_string()), unit)
    if pa.types.is_null(kind):
        return times.cast(pa.int64())
    raise TypeError(f"event times must be timestamps, dates, numbers or ISO 8601 texts, got {type_name(kind)}")


def _micros_of(nanos: pa.Array) -> pa.Array:
    """Rounded down on both sides of 1970; Arrow's own division and cast round towards it."""
    floor = np.floor_divide(nanos.fill_null(0).to_numpy(zero_copy_only=False), 1000)
    return pa.array(floor, mask=np.asarray(nanos.is_null()))


def _scaled(values: pa.Array, factor: int) -> pa.Array:
    """values * factor as int64, null where the product would be out of range: it must never wrap into a window."""
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    if pa.types.is_floating(values.type):
        return _scaled_floats(values.cast(pa.float64()), factor)
    if values.type.bit_width == 64:
        most = _FARTHEST // factor
        least = 0 if pa.types.is_unsigned_integer(values.type) else 1 - most
        near = [pc.less(values, pa.scalar(most, values.type)), pc.greater_equal(values, pa.scalar(least, values.type))]
        values = pc.if_else(pc.and_(*near), values, pa.scalar(None, values.type))
    return pc.multiply(values.cast(pa.int64()), factor)


def _scaled_floats(values: pa.Array, factor: int) -> pa.Array:
    """Whole numbers exactly, as if they were integers: 5.0 and 5 are one time, however a library writes them."""
    near = pc.less(pc.abs(values), float(_FARTHEST // factor))  # false for NaN
    values = pc.if_else(near, values, None)
    whole = pc.equal(values, pc.floor(values))
    exact = pc.multiply(pc.floor(values).cast(pa.int64()), factor)
    rounded = pc.round(pc.multiply(values, float(factor)), round_mode="half_to_even").cast(pa.int64())
    return pc.if_else(whole, exact, rounded)


def _from_text(texts: pa.Array, unit: str) -> pa.Array:
    """ISO 8601 texts and numbers, each by itself.

    Arrow casts whole columns of one well-formed kind to the same times, and raises at the first other text. What it
    raises at must not be read by another rule: users whose times are written oddly would take other users' rows along.
    """
    first = texts.slice(0, 1)
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            first.cast(kind)  # Arrow makes up an error for every text before it raises one: slow, where all are wrong
            return texts.cast(kind).cast(pa.int64())
        except pa.ArrowInvalid:
            continue
    import polars as pl  # loads as long as the rest of this package

    found = pl.Series("time", _from_numbers(texts, unit))
    if found.null_count() > texts.null_count:
        found = found.fill_null(pl.Series("time", _from_calendar(texts)))
    return found.to_arrow().cast(pa.int64())


def _from_numbers(texts: pa.Array, unit: str) -> pa.Array:
    """Numbers as JSON writes them, with a sign, leading zeros and a bare point besides; null for others."""
    import polars as pl

    column = pl.Series("time", texts)
    whole = column.set(~column.str.contains(_WHOLE).fill_null(False), None).cast(pl.Int64, strict=False)
    found = _scaled(whole.to_arrow(), _UNITS[unit])
    if whole.null_count() == column.null_count():
        return found
    others = column.set(~column.str.contains(_NUMBER).fill_null(False) | whole.is_not_null(), None)
    return pc.coalesce(found, _scaled(others.cast(pl.Float64, strict=False).to_arrow(), _UNITS[unit]))


def _from_calendar(texts: pa.Array) -> pa.Array:
    """Dates and times of ISO 8601 in digits; null for others, and for what no calendar or clock shows."""
    import polars as pl

    parts = pl.Series("time", texts).str.extract_groups(_TEXT).struct.unnest()
    columns = parts.get_columns()
    fraction = columns[6].fill_null("").str.slice(0, 6).str.pad_end(6, "0")
    numbers = [column.cast(pl.Int64).fill_null(0).to_numpy() for column in (*columns[:6], fraction, *columns[7:])]
    year, month, day, hour, minute, second, micro, zone, past = numbers
    months = (year * 12 + month - 1 - 1970 * 12).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    real = (month >= 1) & (month <= 12) & (day >= 1) & (days.astype("datetime64[M]") == months)
    real &= (hour < 24) & (minute < 60) & (second < 60) & (np.abs(zone) < 24) & (past < 60)
    behind = columns[7].str.starts_with("-").fill_null(False).to_numpy()
    offset = 60 * zone + np.where(behind, -past, past)
    seconds = days.astype(np.int64) * 86_400 + hour * 3600 + (minute - offset) * 60 + second
    return pa.array(seconds * 1_000_000 + micro, mask=~real | columns[0].is_null().to_numpy())
