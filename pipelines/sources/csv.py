"""CSV files with a header line, plain or gzip. Every value is read as text; an empty one is missing."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pyarrow as pa

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo
from private_topk.pipelines.sources.columns import Columns, check_types
from private_topk.pipelines.sources.text import chunks, whole_file

__all__ = ["check", "pieces", "read"]

_ROWS = 100_000

pieces = whole_file


def check(file: FileInfo, columns: Columns) -> None:
    """Raise InputError unless the header line names the columns."""
    for chunk in chunks(file.path, _end_of_records):
        names = _header(chunk, file.path)
        check_types(file.path, dict.fromkeys(names, pa.string()), columns)
        return
    raise InputError(f"{file.path} is empty: a CSV file must start with a line of column names")


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[dict[str, pa.Array]]:
    """The columns of the whole file, up to about 100,000 rows at a time."""
    names: list[str] | None = None
    for chunk in chunks(path, _end_of_records):
        has_header = names is None
        names = names or _header(chunk, path)
        wanted = [names.index(name) for name in columns.names()]
        frame = _parse(chunk, path, has_header, names, wanted)
        for part in frame.iter_slices(_ROWS):
            yield {name: part[name].to_arrow(compat_level=pl.CompatLevel.oldest()) for name in columns.names()}


def _parse(chunk: bytes, path: str, has_header: bool, names: list[str], wanted: list[int]) -> pl.DataFrame:
    try:
        # Names by a schema: the ones that polars makes up count from 1 in some versions and from 0 in others.
        schema = dict.fromkeys(names, pl.String)
        return pl.read_csv(chunk, has_header=False, skip_rows=int(has_header), columns=wanted, schema=schema)
    except pl.exceptions.NoDataError:
        return pl.DataFrame(schema={names[n]: pl.String for n in wanted})
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a CSV file that can be read ({type(error).__name__}): check that every line "
                         "has the columns of the header, in UTF-8") from None  # fmt: skip


def _header(chunk: bytes, path: str) -> list[str]:
    try:
        names = pl.read_csv(chunk, n_rows=0, infer_schema=False).columns
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        raise InputError(f"{path} is not a CSV file: it must start with a line of column names, in UTF-8") from None
    if names and names[0].startswith("\ufeff"):
        names[0] = names[0][1:]
    return names


def _end_of_records(text: bytes) -> int:
    """Behind the last line end that is outside quotes: where the number of quotes so far is even."""
    end = len(text)
    while (end := text.rfind(b"\n", 0, end)) >= 0:
        if text.count(b'"', 0, end) % 2 == 0:
            return end + 1
    return 0
