"""From the columns of a file to a block: which columns are read, and what their values may be."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.errors import InputError
from private_topk.transforms.columnar import as_labels, make_block

__all__ = ["SAY_WHICH", "Columns", "block_of", "check_types", "to_microseconds"]

SAY_WHICH = "name the column that is meant as the user, item, time or domain column"

_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_TIME_TEXT = r"^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2})(?::(\d{2})(?::(\d{2})(\.\d+)?)?)?(?:Z|([+-]\d{2})(?::?(\d{2}))?)?)?$"
_FARTHEST = 3_155_760_000_000_000_000  # microseconds in 100,000 years, well inside int64


@dataclass(frozen=True)
class Columns:
    """The names of the columns. `time` is None where the rows are not cut by event time.

    `time_unit` is what a plain number means: s, ms or us since 1970 UTC. Timestamps, dates and ISO 8601 texts say it
    themselves; those without a time zone are in UTC.
    """

    user: str = "user"
    item: str = "item"
    time: str | None = None
    time_unit: str = "s"

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name in (self.user, self.item, self.time) if name is not None))


def block_of(table: dict[str, pa.Array], columns: Columns) -> tuple[pa.RecordBatch, int]:
    """A block, and how many rows were left out for a missing or unreadable value."""
    times = to_microseconds(table[columns.time], columns.time_unit) if columns.time is not None else None
    return make_block(table[columns.user], table[columns.item], times)


def to_microseconds(times: pa.Array, unit: str) -> pa.Array:
    """Event times as microseconds since 1970 UTC, int64; null where a value is no time or farther than 100,000 years.

    Raises TypeError for a type that cannot be a time.
    """
    if isinstance(times, pa.ChunkedArray):
        times = times.combine_chunks()
    if pa.types.is_dictionary(times.type):
        times = times.dictionary_decode()
    kind = times.type
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns":
            return times.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        return _scaled(times.cast(pa.int64()), _UNITS[kind.unit])
    if pa.types.is_date32(kind):
        return _scaled(times.cast(pa.int32()).cast(pa.int64()), 86_400_000_000)
    if pa.types.is_date64(kind):
        return _scaled(times.cast(pa.int64()), _UNITS["ms"])
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _scaled(times, _UNITS[unit])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _from_text(times, unit)
    if pa.types.is_null(kind):
        return times.cast(pa.int64())
    raise TypeError(f"event times must be timestamps, dates, numbers or ISO 8601 texts, got {kind}")


def _scaled(values: pa.Array, factor: int) -> pa.Array:
    """values * factor as int64, null where the product would be out of range: it must never wrap into a window."""
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    if pa.types.is_floating(values.type):
        product = pc.round(pc.multiply(values.cast(pa.float64()), float(factor)))
        near = pc.less(pc.abs(product), float(_FARTHEST))  # false for NaN
        return pc.if_else(near, product, None).cast(pa.int64())
    if values.type.bit_width == 64:
        most = _FARTHEST // factor
        least = 0 if pa.types.is_unsigned_integer(values.type) else -most - 1
        near = [pc.less(values, pa.scalar(most, values.type)), pc.greater_equal(values, pa.scalar(least, values.type))]
        values = pc.if_else(pc.and_(*near), values, pa.scalar(None, values.type))
    return pc.multiply(values.cast(pa.int64()), factor)


def _from_text(times: pa.Array, unit: str) -> pa.Array:
    """Whole columns of one well-formed kind are cast at once; of others every text by itself, to the same times."""
    texts = times.cast(pa.string())
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            return texts.cast(kind).cast(pa.int64())
        except pa.ArrowInvalid:
            continue
    column = pl.Series("time", texts)
    found = _written_out(column).str.to_datetime("%FT%T%.f%:z", time_unit="us", time_zone="UTC", strict=False)
    for form in ("%+", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"):
        found = found.fill_null(column.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False))
    found = found.fill_null(column.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us", "UTC"))).to_physical()
    for number in (pl.Int64, pl.Float64):
        if found.null_count() > column.null_count():
            numbers = _scaled(column.cast(number, strict=False).to_arrow(), _UNITS[unit])
            found = found.fill_null(pl.Series("time", numbers))
    return found.to_arrow().cast(pa.int64())


def _written_out(texts: pl.Series) -> pl.Series:
    """The texts that Arrow takes for times, with all they may leave out; null for others.

    What becomes of a row must not depend on the rows it is read with: a user whose times are written oddly would take
    other users' rows along.
    """
    date, hour, minute, second, fraction, zone, offset = texts.str.extract_groups(_TIME_TEXT).struct.unnest()
    parts = [date, "T", hour.fill_null("00"), ":", minute.fill_null("00"), ":", second.fill_null("00"),
             fraction.fill_null(""), zone.fill_null("+00"), ":", offset.fill_null("00")]  # fmt: skip
    return pl.select(pl.concat_str([pl.lit(part) for part in parts])).to_series()


def check_types(path: str, found: dict[str, pa.DataType], columns: Columns) -> None:
    """Raise InputError unless the columns are there, users and items as labels and the time as a time."""
    for name in columns.names():
        if name not in found:
            raise InputError(f"{path} has no column {name!r}: its columns are {', '.join(sorted(found))}; {SAY_WHICH}")
        try:
            empty = pa.array([], found[name])
            to_microseconds(empty, columns.time_unit) if name == columns.time else as_labels(empty)
        except (TypeError, pa.ArrowNotImplementedError) as error:
            raise InputError(f"{path}: column {name!r} cannot be used: {error}") from None
