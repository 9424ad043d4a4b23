"""Tables that are in memory, whoever made them, as Arrow's: known by what they offer, and nothing has to be installed.

Polars, pandas, Arrow and DuckDB hand their columns over as Arrow's; only the columns that are asked for are taken.

The type of a column is public, and a column of a type that cannot be read is refused. A column of Python objects has no
type: it is read as a column of texts, each value by itself, and what cannot be read is left out with its row. Arrow
would find one type for all, after which one user's value changes what those of others are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from polars import selectors

from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.times import to_microseconds
from private_topk.transforms.columnar import as_labels, type_name
from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.metric import as_numbers

__all__ = ["table_of"]

_FIELDS = ("user", "item", "time", "value", "group")
_SAY_HOW = "give a polars or pandas frame, an Arrow table or a DuckDB relation"
_UNREADABLE = b"\xff"
"""No UTF-8, as which it is left out and counted."""
_AS_TEXTS = [getattr(pl, name) for name in ("Categorical", "Enum", "Int128", "UInt128") if hasattr(pl, name)]
"""What of polars Arrow does not know, or reads otherwise."""
_T = TypeVar("_T")


def table_of(rows: Any, columns: Columns) -> pa.Table:  # noqa: ANN401 - whatever holds a table
    """The columns that are asked for: there, once, and of types that can be read.

    Raises:
        Refusal: the table has no such columns, or they hold neither labels nor times. No value is shown.
    """
    if isinstance(rows, str | bytes):
        raise Refusal("rows", f"must be a table, got {type(rows).__name__}", "read the file before, such as "
                      "polars.read_csv(PATH), or publish from files with `private-topk run`")  # fmt: skip
    if isinstance(rows, pl.DataFrame | pl.LazyFrame):
        _check_names(_made(lambda: rows.collect_schema().names()), columns)
        found = _made(lambda: _of_polars(rows, columns))
    elif hasattr(rows, "columns") and any(kind.__module__.partition(".")[0] == "pandas" for kind in type(rows).__mro__):
        _check_names(list(rows.columns), columns)
        found = _made(lambda: {name: _of_pandas(rows[name], name in columns.labels()) for name in columns.names()})
    else:
        table = _made(lambda: _handed_over(rows))
        _check_names(table.column_names, columns)
        found = {name: table[name] for name in columns.names()}
    _check_types({name: column.type for name, column in found.items() if not isinstance(column, _Texts)}, columns)
    return pa.table({name: column.texts if isinstance(column, _Texts) else column for name, column in found.items()})


def _made(make: Callable[[], _T]) -> _T:
    """What is made, or a refusal that says nothing of the error but its kind: the texts of errors hold values."""
    try:
        return make()
    except Refusal:
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        kind = type(error).__name__
    # Out here: an error that is raised inside would carry the other along as its context.
    raise Refusal("rows", f"must hand over its columns as Arrow's, and raised {kind}", "convert it to a table of Arrow "
                  "first, to see why")  # fmt: skip


def _of_polars(rows: pl.DataFrame | pl.LazyFrame, columns: Columns) -> dict[str, Any]:
    chosen = rows.select(columns.names()).with_columns(selectors.by_dtype(_AS_TEXTS).cast(pl.String))
    frame = chosen.collect() if isinstance(chosen, pl.LazyFrame) else chosen
    objects = {column.name: column for column in frame if column.dtype == pl.Object}
    found: dict[str, Any] = {name: _Texts(its.to_list(), name in columns.labels()) for name, its in objects.items()}
    if len(objects) < frame.width:
        table = pa.RecordBatchReader.from_stream(frame.drop(list(objects))).read_all()
        found |= {name: table[name] for name in table.column_names}
    return {name: found[name] for name in columns.names()}


def _of_pandas(column: Any, is_label: bool) -> Any:  # noqa: ANN401 - a series or an index
    if column.dtype == object:
        return _Texts(column.to_numpy(), is_label)
    if column.dtype.name == "category":
        words, codes = _of_pandas(column.cat.categories, is_label), column.cat.codes.to_numpy()
        places = pa.array(codes, mask=codes < 0)
        if isinstance(words, _Texts):
            words.texts = words.texts.take(places)
            return words
        return pa.DictionaryArray.from_arrays(places, words)
    try:
        return pa.Array.from_pandas(column)
    except UnicodeEncodeError:  # half of a surrogate pair, in one of the texts
        return _Texts(column.to_numpy(object), is_label)


class _Texts:
    """A column of Python objects as texts, null where nothing is there, and no UTF-8 where something cannot be read."""

    def __init__(self, values: Sequence[Any], is_label: bool) -> None:
        if set(map(type, values)) <= {str, float, type(None)}:  # as most columns are, NaN for what is missing
            with suppress(pa.ArrowException, UnicodeEncodeError):
                self.texts = pa.array(values, pa.large_string(), from_pandas=True)
                return
        self.texts = pa.array([_text(value, is_label) for value in values], pa.large_binary())


def _text(value: Any, is_label: bool) -> bytes | None:  # noqa: ANN401
    """The text that a value stands for in a file: labels are texts and integers, and times and amounts others too."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return str.encode(value, "utf-8", "surrogatepass")
    try:
        if _is_missing(value):
            return None
        if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
            return str(int(value)).encode()
        return _UNREADABLE if is_label else _time_or_amount(value)
    except Exception:  # such as an integer of more digits than Python writes, or a time zone of somebody's own
        return _UNREADABLE


def _time_or_amount(value: Any) -> bytes:  # noqa: ANN401
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(timezone.utc)).isoformat().encode()
    if isinstance(value, date):
        return value.isoformat().encode()
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[us]")).encode()
    if isinstance(value, float | np.floating | Decimal):
        text = str(value) if isinstance(value, Decimal) else repr(float(value))
        return text.replace("Infinity", "inf").replace("inf", "1e999").encode()
    return _UNREADABLE


def _is_missing(value: Any) -> bool:  # noqa: ANN401
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating | np.datetime64) and bool(value != value)  # noqa: PLR0124


def _handed_over(rows: Any) -> pa.Table:  # noqa: ANN401
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if hasattr(rows, "__arrow_c_stream__") and hasattr(pa.RecordBatchReader, "from_stream"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    for name in ("to_arrow", "fetch_arrow_table", "to_arrow_table", "arrow"):
        if callable(getattr(rows, name, None)):
            found = getattr(rows, name)()
            found = found.read_all() if isinstance(found, pa.RecordBatchReader) else found
            if isinstance(found, pa.Table):
                return found
    raise Refusal("rows", f"must be a table, got {type(rows).__name__}", _SAY_HOW)


def _check_names(known: list[Any], columns: Columns) -> None:
    """Raise Refusal unless the columns are there, once."""
    for field in _FIELDS:
        name = getattr(columns, field)
        if name is not None and known.count(name) != 1:
            there = known.count(name)
            found = f"has {there} columns of that name" if there else f"has {', '.join(map(str, known))}"
            raise Refusal(field, verbatim(f"must name a column of the table, got {name!r}: it {found}"), _hint(field))


def _check_types(kinds: dict[str, pa.DataType], columns: Columns) -> None:
    """Raise Refusal unless users and items are labels, the time is a time, and the amount a number."""
    for field in _FIELDS:
        name = getattr(columns, field)
        if name not in kinds:
            continue
        try:
            _read(field, pa.nulls(0, kinds[name]), columns)
            continue
        except TypeError as error:
            rule = str(error)
        except pa.ArrowException:
            rule = f"Arrow cannot convert {type_name(kinds[name])}"
        remedy = "cast it first, such as .astype('Int64') in pandas" if pa.types.is_floating(kinds[name]) else ""
        raise Refusal(field, verbatim(f"cannot be the column {name!r}: {rule}"), remedy)


def _read(field: str, values: pa.Array, columns: Columns) -> None:
    if field == "time":
        to_microseconds(values, columns.time_unit)
    elif field == "value":
        as_numbers(values)
    else:
        as_labels(values)


def _hint(field: str) -> str:
    return f"name it, as in rank(..., {field}='...'); an index of pandas becomes columns by .reset_index()"
