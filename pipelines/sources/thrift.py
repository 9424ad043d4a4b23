"""Thrift's compact protocol, in which Parquet writes its footer and page headers: bytes to nested values, with limits.

Arrow decodes the same bytes, but ends the process over some that are broken, and believes every size that they claim.
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["Broken", "Short", "decode"]

_DEEPEST = 20
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_WHOLE = (4, 5, 6)


class Broken(ValueError):
    """Bytes that are no struct of the protocol."""


class Short(Broken):
    """Bytes that end within a struct."""


def decode(content: bytes, at: int = 0) -> tuple[dict[int, Any], int]:
    """The struct at a place, its fields by number, and the place behind it. Cost: some 2 MB/s.

    Raises:
        Broken: there is none.
        Short: it does not end with the bytes.
    """
    reader = _Reader(content, at)
    try:
        return reader.fields(0), reader.at
    except (IndexError, struct.error):
        raise Short("a struct does not end") from None


class _Reader:
    """Every value takes a byte at least, so nothing larger than the bytes is ever made of them."""

    def __init__(self, content: bytes, at: int) -> None:
        self._content, self.at = content, at

    def fields(self, depth: int) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise Broken("structs are nested too deep")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind = head & 15
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:  # noqa: ANN401 - of any kind
        if kind in _WHOLE:
            return self._whole()
        if kind == _BINARY:
            return self._bytes(self._count())
        if kind == _STRUCT:
            return self.fields(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == _MAP:
            return self._map(depth)
        raise Broken("a value is of no known kind")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._count()
        self._must_hold(count)
        return [self._value(head & 15, depth) for _ in range(count)]

    def _map(self, depth: int) -> list[tuple[Any, Any]]:
        count = self._count()
        self._must_hold(count)
        kinds = self._byte() if count else 0
        return [(self._value(kinds >> 4, depth), self._value(kinds & 15, depth)) for _ in range(count)]

    def _must_hold(self, count: int) -> None:
        if count > len(self._content) - self.at:
            raise Short("a list does not end")

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self._must_hold(count)
        self.at += count
        return self._content[self.at - count : self.at]

    def _count(self) -> int:
        found = shift = 0
        while (part := self._byte()) & 128:
            found |= (part & 127) << shift
            shift += 7
            if shift > 63:
                raise Broken("a number does not end")
        return found | part << shift

    def _whole(self) -> int:
        found = self._count()
        return found >> 1 ^ -(found & 1)
