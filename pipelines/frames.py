"""Tables that are in memory, whoever made them, as Arrow's: known by what they offer, and nothing has to be installed.

Polars, pandas, Arrow and DuckDB hand their columns over as Arrow's; only the columns that are asked for are taken.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
from polars import selectors

from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.times import to_microseconds
from private_topk.transforms.amounts import as_numbers
from private_topk.transforms.columnar import as_labels
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["table_of"]

_FIELDS = ("user", "item", "time", "value", "group")
_SAY_HOW = "give a polars or pandas frame, an Arrow table or a DuckDB relation"


def table_of(rows: Any, columns: Columns) -> pa.Table:  # noqa: ANN401 - whatever holds a table
    """The columns that are asked for: there, once, and of types that can be read.

    Raises:
        Refusal: the table has no such columns, or they hold neither labels nor times. No value is shown.
    """
    if isinstance(rows, str | bytes):
        raise Refusal("rows", f"must be a table, got {type(rows).__name__}", "read the file before, such as "
                      "polars.read_csv(PATH), or publish from files with `private-topk run`")  # fmt: skip
    names = columns.names()
    try:
        table = _arrow(_only(rows, names), names)
    except (pa.ArrowException, OverflowError):  # the text of Arrow's error holds a value
        rule = f"must have one kind of value in each of the columns {', '.join(names)}"
        raise Refusal("rows", verbatim(rule), "cast them to text or to whole numbers first") from None
    _check(table, columns)
    return table.select(names)


def _only(rows: Any, names: list[str]) -> Any:  # noqa: ANN401
    """Of a frame with a great many columns those that are asked for, before anything is converted."""
    maker = type(rows).__module__.partition(".")[0]
    lazy = maker == "polars" and hasattr(rows, "collect_schema") and hasattr(rows, "collect")
    known = rows.collect_schema().names() if lazy else list(getattr(rows, "columns", ()))
    twice = [name for name in names if maker in ("polars", "pandas") and known.count(name) > 1]
    if twice:
        raise Refusal("rows", verbatim(f"must have one column {twice[0]!r}, and has {known.count(twice[0])}"))
    if maker == "pandas" and set(names) <= set(known):
        return rows[names]
    if maker == "polars" and set(names) <= set(known):
        # Arrow does not read what categories of polars are handed over as.
        rows = rows.select(names).with_columns(selectors.by_dtype(pl.Categorical, pl.Enum).cast(pl.String))
    return _collected(rows) if lazy else rows


def _collected(rows: pl.LazyFrame) -> pl.DataFrame:
    try:
        return rows.collect()
    except pl.exceptions.PolarsError as error:  # its text holds values
        rule = f"must be a lazy frame that can be collected: polars raised {type(error).__name__}"
        raise Refusal("rows", rule, "collect it first, to see why") from None


def _arrow(rows: Any, names: list[str]) -> pa.Table:  # noqa: ANN401
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns"):
        try:
            return pa.Table.from_pandas(rows, preserve_index=False)
        except pa.ArrowException:
            raise
        except (TypeError, ValueError) as error:  # its text may hold a value
            rule = f"must have columns that Arrow can hold: pandas raised {type(error).__name__}"
            raise Refusal("rows", rule, "make them plain columns first, such as by .sparse.to_dense()") from None
    if hasattr(rows, "__arrow_c_stream__") and hasattr(pa.RecordBatchReader, "from_stream"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    for name in ("to_arrow", "fetch_arrow_table", "to_arrow_table", "arrow"):
        if callable(getattr(rows, name, None)):
            found = getattr(rows, name)()
            return found.read_all() if isinstance(found, pa.RecordBatchReader) else found
    raise Refusal("rows", f"must be a table, got {type(rows).__name__}", _SAY_HOW)


def _check(table: pa.Table, columns: Columns) -> None:
    """Raise Refusal unless the columns are there, once, users and items as labels and the time as a time."""
    for field in _FIELDS:
        name = getattr(columns, field)
        if name is None:
            continue
        there = table.column_names.count(name)
        if there != 1:
            found = f"has {there} columns of that name" if there else f"has {', '.join(map(str, table.column_names))}"
            raise Refusal(field, verbatim(f"must name a column of the table, got {name!r}: it {found}"), _hint(field))
        kind = table.schema.field(name).type
        try:
            _read(field, pa.nulls(0, kind), columns)
        except (TypeError, pa.ArrowNotImplementedError) as error:
            remedy = "cast it first, such as .astype('Int64') in pandas" if pa.types.is_floating(kind) else ""
            raise Refusal(field, verbatim(f"cannot be the column {name!r}: {error}"), remedy) from None


def _read(field: str, values: pa.Array, columns: Columns) -> None:
    if field == "time":
        to_microseconds(values, columns.time_unit)
    elif field == "value":
        as_numbers(values)
    else:
        as_labels(values)


def _hint(field: str) -> str:
    return f"name it, as in rank(..., {field}='...'); an index of pandas becomes columns by .reset_index()"
