"""A table in the memory of this process: a source for runs that stay in it.

The kind of table is recognised by its methods, so no library has to be installed: polars, pandas, Arrow and DuckDB
offer their columns as Arrow's. The type of a column is public, and a column of a type that cannot be read is refused. A
column of Python objects has no type: it is read as texts, each value by itself, and a row with an unreadable value is
dropped. Arrow would infer one type for all, so that one user's value could change those of others. A column with many
objects that are of another type is refused: without a word their rows would be missed. That tells of 100 rows, as
counters of dropped rows do.
"""

from __future__ import annotations

import hashlib
import io
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as field_of
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars import selectors

from private_topk.pipelines.release.identity import fingerprint, identity_of, not_in_fingerprint
from private_topk.pipelines.sources.columns import MEANINGS, Columns, Rows, Types, as_bytes, block_of
from private_topk.pipelines.sources.names import check_names
from private_topk.pipelines.sources.source import BlockReader, DroppedRowsByReason, Source
from private_topk.runners import Launch
from private_topk.transforms.completeness import with_receipt
from private_topk.transforms.errors import InvalidArgument, crosses, verbatim
from private_topk.transforms.release import ReleaseKey
from private_topk.transforms.types import Meaning, is_missing, is_text, kind_of_class, label_of
from private_topk.transforms.windows import Period

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_ROWS = 1 << 17
_TABLE = "the table"
_TEXTS, _BYTES = (pa.string(), pa.string_view()), (pa.binary(), pa.binary_view())
_PLAIN = dict.fromkeys(_TEXTS, pa.large_string()) | dict.fromkeys(_BYTES, pa.large_binary())
_TABLES: weakref.WeakValueDictionary[str, pa.Table] = weakref.WeakValueDictionary()
"""Tables by their digests. A job does not carry its rows: the runner's threads look them up here."""


@dataclass(frozen=True)
class Frame(Source):
    """The rows of a table. Its identity in a ledger comes from its contents.

    Args:
        table: the columns that are read, and no others.
    """

    table: pa.Table = field_of(repr=False, compare=False, metadata=not_in_fingerprint("its digest names the rows"))
    columns: Columns = Columns()
    digest: str = ""

    uri, bounded, live = "a table in memory", True, False

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", _digest(self.table))
        # Frames of equal contents share one table, which lives as long as any of them.
        object.__setattr__(self, "table", _TABLES.setdefault(self.digest, self.table))

    @property
    def types(self) -> Sequence[Types]:
        return ({name: self.table[name].type for name in self.table.column_names},)

    def check(self, period: Period | None) -> None:
        """`table_of` has checked all."""

    def check_runner(self, launch: Launch) -> None:
        if launch.remote or launch.name != "direct":
            raise InvalidArgument(
                "runner", f"{launch.name} cannot see a table in the memory of this process", "use direct"
            )

    def read(self, period: Period | None) -> BlockReader:
        reading = beam.ParDo(_ReadDoFn(self.digest, self.columns.within(period)))
        # block of up to 131,072 rows
        return BlockReader(lambda pipeline, _: pipeline | beam.Impulse() | "Read the table" >> reading, (0,))

    def rows(self, period: Period | None) -> Iterator[Rows]:
        return _parts(self.table, self.columns.within(period))

    def stored_bytes(self) -> int:
        return int(self.table.nbytes)

    def identity(self, key: ReleaseKey, period: Period | None) -> str:
        return fingerprint(
            {"kind": "frame", "digest": self.digest, "columns": identity_of(self.columns.within(period))}, key
        )


def _parts(table: pa.Table, columns: Columns) -> Iterator[Rows]:
    for start in range(0, max(len(table), 1), _ROWS):
        part = table.slice(start, _ROWS)
        yield Rows({name: _in_one(part[name]) for name in columns.names()})


def _in_one(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array; of texts as bytes, cast before chunks are combined, since large binary has no limit."""
    if is_text(column.type):
        column = column.cast(pa.large_binary())
    return as_bytes(column.combine_chunks())


def _digest(table: pa.Table) -> str:
    """The digest of the values, whatever the layout of texts and dictionaries, of which libraries have several."""
    hashing = _Hashing()
    with pa.PythonFile(hashing, "w") as sink:
        for column in table.schema:
            schema = pa.schema([(column.name, _plain(column.type))])
            with pa.ipc.new_stream(sink, schema) as writer:
                for start in range(0, len(table), _ROWS):
                    part = table[column.name].slice(start, _ROWS).cast(schema.types[0])
                    hashing.content.update(part.is_valid().to_numpy())
                    writer.write_batch(pa.record_batch([_packed(part)], schema))
    return hashing.content.hexdigest()


def _packed(part: pa.ChunkedArray) -> pa.Array:
    """The values that are not null, without gaps: concatenation, even with empty arrays, gives this layout."""
    nothing = pa.array([], part.type)
    return pa.concat_arrays([*part.drop_null().chunks, nothing, nothing])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return _PLAIN.get(kind, kind)


class _Hashing(io.RawIOBase):
    """A file that hashes what is written, and keeps none of it."""

    def __init__(self) -> None:
        self.content, self._written = hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, content: ReadableBuffer) -> int:
        self.content.update(content)
        size = memoryview(content).nbytes
        self._written += size
        return size


@crosses
class _ReadDoFn(beam.DoFn):
    def __init__(self, digest: str, columns: Columns) -> None:
        self._digest, self._columns = digest, columns
        self._dropped = DroppedRowsByReason()

    def process(self, _: bytes) -> Iterator[pa.RecordBatch]:
        yield from with_receipt(self._blocks(), 0)

    def _blocks(self) -> Iterator[pa.RecordBatch]:
        table = _TABLES[self._digest]
        for rows in _parts(table, self._columns):
            block, missing = block_of(rows, self._columns)
            self._dropped.add(missing)
            yield block
        if _digest(table) != self._digest:  # memory that it shares with pandas or NumPy can be written to
            raise InvalidArgument(
                "",
                "the table was changed after the call, and a ranking is drawn only from one that stays "
                "as it is until then",
            )


_SAY_HOW = "give a polars or pandas frame, an Arrow table or a DuckDB relation"
_OTHER_TYPE, _NO_UTF_8, _TOO_FAR = b"\xff", b"\xfe", b"\xfd"
"""An object of another type, a text or bytes, and an object of no text. Not UTF-8, so that the row is dropped as
unreadable, and counted.
"""
_AS_TEXTS = [getattr(pl, name) for name in ("Categorical", "Enum", "Int128", "UInt128") if hasattr(pl, name)]
"""Types of polars that Arrow does not know, or reads otherwise."""
_MANY = 100
"""Rows from which on it is told what their objects are, as counters of dropped rows tell it: fewer are private."""
_FINER = ("ns", "ps", "fs", "as")
"""The units of numpy's times that are below a microsecond."""
_T = TypeVar("_T")


def table_of(rows: Any, columns: Columns, period: Period | None = None) -> pa.Table:  # noqa: ANN401 - holds a table
    """The named columns of a table of any kind, checked: each is there once and has a type that can be read.

    Raises:
        InvalidArgument: a column is missing or doubled, has a wrong type, or has times of no zone where the windows of
            the period have one. No value is shown.
    """
    if isinstance(rows, str | bytes):
        raise InvalidArgument(
            "rows",
            f"must be a table, got {type(rows).__name__}",
            "read the file before, such as polars.read_csv(PATH), or publish from files with `private-topk run`",
        )
    if isinstance(rows, pl.DataFrame | pl.LazyFrame):
        check_names(_TABLE, columns, _made(lambda: rows.collect_schema().names()))
        arrays = _made(lambda: _of_polars(rows, columns))
    elif hasattr(rows, "columns") and any(kind.__module__.partition(".")[0] == "pandas" for kind in type(rows).__mro__):
        names = list(map(str, rows.columns))  # those that are no texts, such as numbers, as a refusal lists them
        check_names(_TABLE, columns, names, hint="an index of pandas becomes columns by .reset_index()")
        places = {name: (names.index(name), meaning) for name, meaning in _meanings(columns).items()}
        arrays = _made(lambda: {name: _of_pandas(rows.iloc[:, at], of) for name, (at, of) in places.items()})
    else:
        table = _made(lambda: _handed_over(rows))
        check_names(_TABLE, columns, table.column_names)
        arrays = {name: table[name] for name in columns.names()}
    for role, name in columns.each():
        column = arrays[name]
        if not isinstance(column, _Texts):
            columns.check(role, name, column.type)
        elif (misfit := column.misfit()) is not None:
            kind = kind_of_class(misfit)  # all other labels must be written as text, like truths
            like = pa.float64() if kind is not None and kind.counts else pa.bool_()
            several = issubclass(misfit, list | tuple | set | np.ndarray)
            called = f"{misfit.__name__} in {_MANY} rows or more"
            columns.check(role, name, pa.list_(pa.null()) if several else like, called=called)
        if role == "time" and period is not None and period.zone != "UTC" and _lacks_zone(column):
            raise InvalidArgument(
                "time",
                verbatim(f"has no zone in column {name!r} and would be read as UTC, but windows are in {period.zone}"),
                f'say the zone: pandas.to_datetime(COLUMN).dt.tz_localize("{period.zone}"), or in polars '
                f'.cast(pl.Datetime).dt.replace_time_zone("{period.zone}")',
            )
    return pa.table({name: column.texts if isinstance(column, _Texts) else column for name, column in arrays.items()})


def _meanings(columns: Columns) -> dict[str, Meaning]:
    return {name: MEANINGS.get(role, "label") for role, name in columns.each()}


def _lacks_zone(column: Any) -> bool:  # noqa: ANN401 - Arrow's, or `_Texts`
    if isinstance(column, _Texts):
        return column.lacks_zone()
    return pa.types.is_date(column.type) or pa.types.is_timestamp(column.type) and column.type.tz is None


def _made(make: Callable[[], _T]) -> _T:
    """The result of `make`, or a refusal that shows only the kind of error, since texts of errors may hold values."""
    try:
        return make()
    except InvalidArgument:
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        kind = type(error).__name__
    # Raised outside the handler: inside, it would have the other error as its context.
    raise InvalidArgument(
        "rows",
        f"must hand over its columns as Arrow's, and raised {kind}",
        "convert it to a table of Arrow first, or .collect() a lazy frame, to see why",
    )


def _of_polars(rows: pl.DataFrame | pl.LazyFrame, columns: Columns) -> dict[str, Any]:
    chosen = rows.select(columns.names()).with_columns(selectors.by_dtype(_AS_TEXTS).cast(pl.String))
    frame = chosen.collect() if isinstance(chosen, pl.LazyFrame) else chosen
    objects = {column.name: column for column in frame if column.dtype == pl.Object}
    meanings = _meanings(columns)
    arrays: dict[str, Any] = {name: _Texts(each.to_list(), meanings[name]) for name, each in objects.items()}
    if len(objects) < frame.width:
        table = pa.RecordBatchReader.from_stream(frame.drop(list(objects))).read_all()
        arrays |= {name: table[name] for name in table.column_names}
    return {name: arrays[name] for name in columns.names()}


def _of_pandas(column: Any, meaning: Meaning) -> Any:  # noqa: ANN401 - a series or an index
    if hasattr(column, "sparse"):
        return _of_pandas(column.sparse.to_dense(), meaning)
    if column.dtype == object or meaning == "label" and column.dtype == float and column.empty:  # as of empty lists
        return _Texts(column.to_numpy(object), meaning)
    if column.dtype.name == "category":
        words, codes = _of_pandas(column.cat.categories, meaning), column.cat.codes.to_numpy()
        places = pa.array(codes, mask=codes < 0)
        if isinstance(words, _Texts):
            words.texts = words.texts.take(places)
            return words
        return pa.DictionaryArray.from_arrays(places, words)
    try:
        return pa.Array.from_pandas(column)
    except UnicodeEncodeError:  # half of a surrogate pair, in one of the texts
        return _Texts(column.to_numpy(object), meaning)


class _Texts:
    """A column of Python objects as texts, null where a value is missing, and not UTF-8 where it is unreadable."""

    def __init__(self, values: Sequence[Any], meaning: Meaning) -> None:
        self._values, self._meaning = values, meaning
        if set(map(type, values)) <= {str, float, type(None)}:  # as most columns are, NaN for what is missing
            with suppress(pa.ArrowException, UnicodeEncodeError):
                self.texts = pa.array(values, pa.large_string(), from_pandas=True)
                return
        self.texts = pa.array([_text(value, meaning) for value in values], pa.large_binary())

    def misfit(self) -> type | None:
        """The class of the first object that is of another type, where 100 rows or more have such; else None."""
        if _count(self.texts, _OTHER_TYPE) < _MANY:
            return None
        return next(type(value) for value in self._values if _text(value, self._meaning) == _OTHER_TYPE)

    def lacks_zone(self) -> bool:
        """Whether it has 100 rows or more, and all objects that there are are dates or times without a zone."""
        there = [value for value in self._values if not is_missing(value)] if len(self.texts) >= _MANY else []
        return bool(there) and all(
            isinstance(value, date | np.datetime64) and getattr(value, "tzinfo", None) is None for value in there
        )


def _text(value: Any, meaning: Meaning) -> bytes | None:  # noqa: ANN401
    """The text of a value as in a file: labels are texts and integers; times and amounts may have other types."""
    try:
        if is_missing(value):
            return None
        if meaning == "label" or isinstance(value, str | bytes):
            return label_of(value).encode()
        is_time = isinstance(value, date | np.datetime64)
        return _OTHER_TYPE if is_time and meaning == "amount" else _time_or_amount(value)
    except TypeError:
        return _OTHER_TYPE
    except Exception:  # such as an integer of more digits than Python writes, or a time zone of somebody's own
        return _NO_UTF_8 if isinstance(value, str | bytes) else _TOO_FAR


def count_unread(column: pa.Array) -> int:
    """How many objects of a column of `Frame.rows` are not read, and are no texts or bytes."""
    return _count(column, _OTHER_TYPE, _TOO_FAR)


def _count(column: pa.Array, *marks: bytes) -> int:
    if not pa.types.is_large_binary(column.type):
        return 0
    return pc.sum(pc.is_in(column, pa.array(marks, column.type))).as_py() or 0


def _time_or_amount(value: Any) -> bytes:  # noqa: ANN401
    if isinstance(value, bool | np.bool_ | np.timedelta64):
        raise TypeError
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat().encode()
    if isinstance(value, date):
        return value.isoformat().encode()
    if isinstance(value, np.datetime64):
        return _moment(value)
    if isinstance(value, Integral):
        return str(int(value)).encode()
    if isinstance(value, float | np.floating | Decimal):
        text = str(value) if isinstance(value, Decimal) else repr(float(value))
        return text.replace("Infinity", "inf").replace("inf", "1e999").encode()
    raise TypeError


def _moment(value: np.datetime64) -> bytes:
    """The text of a time of numpy, rounded down to a microsecond; one that is too far would wrap into a window."""
    micros = value.astype("datetime64[us]")
    is_exact = np.datetime_data(value.dtype)[0] in _FINER or micros.astype(value.dtype) == value
    return str(micros).encode() if is_exact else _TOO_FAR


def _handed_over(rows: Any) -> pa.Table:  # noqa: ANN401
    if hasattr(rows, "__arrow_c_stream__") and type(rows).__name__ != "Series":  # which hands over one column
        return pa.RecordBatchReader.from_stream(rows).read_all()
    for name in ("to_arrow", "fetch_arrow_table", "to_arrow_table", "arrow"):
        if callable(getattr(rows, name, None)):
            table = getattr(rows, name)()
            table = table.read_all() if isinstance(table, pa.RecordBatchReader) else table
            if isinstance(table, pa.Table):
                return table
    raise InvalidArgument("rows", f"must be a table, got {type(rows).__name__}", _SAY_HOW)
