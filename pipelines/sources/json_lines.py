"""JSON lines, plain or gzip: one object a line. A line without the user or the item is left out like a null."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo
from private_topk.pipelines.sources.columns import SAY_WHICH, Columns
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
        names = set().union(*rows)
        for name in columns.names():
            if rows and name not in names:  # the keys it has may be data, so they are not shown
                raise InputError(f"{file.path}: none of the first lines has {name!r}: {SAY_WHICH}")
            for row in rows:
                _check_value(row.get(name), name, file.path, int | float if name == columns.time else int)
        return


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    """The columns of the whole file, up to about 100,000 rows at a time."""
    schema = dict.fromkeys(columns.names(), pl.String)
    for chunk in chunks(path, _end_of_line):
        try:
            frame = pl.read_ndjson(chunk.removeprefix(codecs.BOM_UTF8), schema=schema)
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{path} is not a JSON lines file that can be read ({type(error).__name__}): every line "
                             "must be one JSON object") from None  # fmt: skip
        for part in frame.iter_slices(_ROWS):
            yield {name: part[name].to_arrow(compat_level=pl.CompatLevel.oldest()) for name in columns.names()}


def _object(line: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON lines file: every line must be one JSON object")
    return value


def _check_value(value: object, name: str, path: str, numbers: Any) -> None:  # noqa: ANN401 - a type or union
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | numbers)):
        raise InputError(f"{path}: column {name!r} must hold strings or integers, got {type(value).__name__}")


def _end_of_line(text: bytes) -> int:
    return text.rfind(b"\n") + 1
