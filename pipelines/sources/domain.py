"""The public domain from a file: one item per line, or a column of CSV, JSON lines, Parquet or Avro."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from private_topk.pipelines.files import FileInfo, match, match_any, open_content, why
from private_topk.pipelines.sources.columns import Columns, read_rows
from private_topk.pipelines.sources.formats import FORMATS, reader_of
from private_topk.transforms.domain import PublicDomain, check_items, digest_of
from private_topk.transforms.refusal import Refusal, verbatim

__all__ = ["DomainFile", "has_columns", "read_domain"]


@dataclass(frozen=True)
class DomainFile:
    """Reads the items of a domain file, at the launch and again on every worker, so that no job carries them."""

    path: str
    column: str

    def __call__(self) -> pa.Array:
        if not has_columns(self.path):
            return _lines(self.path)
        file = match(self.path)[0]
        # The list is public, and whoever wrote it vouches for all of it: titles may hold line ends.
        columns = Columns(self.column, self.column, quoted_line_ends=True)
        module = reader_of(self.path)
        module.check(file, columns)
        parts = []
        for start, stop in module.pieces(file, max(file.size, 1)):
            for rows in module.read(file.path, start, stop, columns):
                found, unreadable = read_rows(rows, columns)
                if unreadable is not None and pc.any(unreadable).as_py():
                    raise Refusal(
                        "domain", f"{verbatim(self.path)} has rows that cannot be read", "every one must hold an item"
                    )
                parts.append(found["item"])
        return pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())


def has_columns(path: str) -> bool:
    """Whether a domain file is a table; any other has an item on every line."""
    return path.lower().endswith(tuple(FORMATS))


def read_domain(path: str, column: str) -> PublicDomain:
    """The public domain of a file. Raises Refusal, naming the file, unless it is a list of distinct items."""
    files = _found(path)
    source = DomainFile(files[0].path, column)
    try:
        labels = check_items(source())
    except Refusal as error:
        rule = error.rule if error.field == "domain" else f"cannot be used: {error.rule}"
        raise Refusal("domain", f"{verbatim(path)} {rule}", error.remedy) from None
    return PublicDomain(source, digest_of(labels), len(labels))


def _found(path: str) -> list[FileInfo]:
    remedy = "give a file with one public item per line"
    try:
        files = match_any(path)
    except Exception as error:  # every file system raises its own kind
        raise Refusal("domain", f"{verbatim(path)} cannot be read: {verbatim(why(error))}", remedy) from None
    if not files:
        raise Refusal("domain", f"{verbatim(path)} does not exist", remedy)
    if len(files) > 1:
        raise Refusal("domain", f"must be one file, got {len(files)} by {verbatim(path)}")
    return files


def _lines(path: str) -> pa.Array:
    with open_content(path) as source:
        content = source.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refusal("domain", "is not UTF-8 text", "give one item per line, or a CSV, Parquet or "
                      "Avro file with its ending") from None  # fmt: skip
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return pa.array([line if line.strip() else None for line in lines], pa.large_string())
