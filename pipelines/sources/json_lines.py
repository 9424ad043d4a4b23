"""JSON lines, plain or gzip: one object a line. A line that cannot be read is left out by itself."""

from __future__ import annotations

from collections.abc import Iterator

from private_topk.pipelines.files import FileInfo, open_content
from private_topk.pipelines.sources.columns import Columns, Rows
from private_topk.pipelines.sources.json_rows import rows_of
from private_topk.pipelines.sources.text import chunks, unreadable, whole_file

__all__ = ["check", "pieces", "read"]

_ROWS = 100_000

pieces = whole_file


def check(file: FileInfo, columns: Columns) -> None:
    """Raise Refusal unless the file can be opened and unzipped. No row refuses a file."""
    with open_content(file.path) as source:
        source.read(1)


def read(path: str, start: int, stop: int, columns: Columns) -> Iterator[Rows]:
    """The rows of the whole file, up to about 100,000 at a time."""
    with open_content(path) as source:
        for text, too_long in chunks(source):
            if too_long:
                yield unreadable(too_long, columns)
            lines = [line for line in text.split(b"\n") if line.strip(b" \t\r")]
            for at in range(0, len(lines), _ROWS):
                yield rows_of(lines[at : at + _ROWS], columns)
