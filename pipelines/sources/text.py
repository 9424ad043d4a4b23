"""Text files, plain or gzip: what CSV and JSON lines share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.files import FileInfo, open_content

__all__ = ["chunks", "whole_file"]

_BYTES = 4 << 20
_MOST = 64 << 20

End = Callable[[bytes], int]
"""Where the last whole record of some text ends: the length of the whole records."""


def whole_file(file: FileInfo, size: int) -> Iterator[tuple[int, int]]:
    """One piece a file: neither a gzip stream nor quoted text can be entered in the middle."""
    yield 0, file.size


def chunks(path: str, end: End) -> Iterator[bytes]:
    """The text in chunks of a few MiB that end where a record ends. Raises InputError for a broken gzip stream."""
    with open_content(path) as source:
        rest = b""
        while True:
            more = source.read(_BYTES)
            text = rest + more
            if not more:
                if text.strip():
                    yield text
                return
            cut = end(text)
            if cut:
                yield text[:cut]
            rest = text[cut:]
            if len(rest) > _MOST:
                raise InputError(f"{path} has a line of more than {_MOST >> 20} MiB: write one record a line")
