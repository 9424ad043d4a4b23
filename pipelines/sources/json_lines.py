"""JSON lines, plain or gzip: one object a line. A line without the user or the item is left out like a null."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.text import chunks, whole_file

__all__ = ["check", "pieces", "read"]

_ROWS = 100_000
_LOOKED_AT = 1000

pieces = whole_file


def check(file: FileInfo, columns: Columns) -> None:
    """Raise InputError unless the first lines are objects in which the columns occur, of types that can be read."""
    for chunk in chunks(file.path, _end_of_line):
        lines = [line for line in chunk.split(b"\n", _LOOKED_AT)[:_LOOKED_AT] if line.strip()]
        rows = [_object(line, file.path) for line in lines]
        names = sorted(set().union(*rows)) if rows else []
        for name in columns.names():
            if rows and name not in names:
                raise InputError(f"{file.path} has no column {name!r}: its columns are {', '.join(names)}")
            for row in rows:
                _check_value(row.get(name), name, file.path)
        return


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    """The columns of the whole file, up to about 100,000 rows at a time."""
    schema = dict.fromkeys(columns.names(), pl.String)
    for chunk in chunks(path, _end_of_line):
        try:
            frame = pl.read_ndjson(chunk, schema=schema)
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{path} is not a JSON lines file that can be read ({type(error).__name__}): every line "
                             "must be one JSON object") from None  # fmt: skip
        for part in frame.iter_slices(_ROWS):
            yield {name: _times_or_labels(part[name], name == columns.time) for name in columns.names()}


def _times_or_labels(column: pl.Series, is_time: bool) -> pa.Array:
    if is_time:  # numbers arrive as their text
        numbers = column.cast(pl.Int64, strict=False)
        if numbers.null_count() == column.null_count():
            column = numbers
    return column.to_arrow(compat_level=pl.CompatLevel.oldest())


def _object(line: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON lines file: every line must be one JSON object")
    return value


def _check_value(value: object, name: str, path: str) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        raise InputError(f"{path}: column {name!r} must hold strings or integers, got {type(value).__name__}")


def _end_of_line(text: bytes) -> int:
    return text.rfind(b"\n") + 1
