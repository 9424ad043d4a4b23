"""A shuffle by reference: where all workers are threads of one process, what is grouped waits in its memory.

A runner that groups encodes every element, and copies the bytes some ten times over, on one thread. What it groups here
is the numbers of pieces; the pieces stay where they are.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import apache_beam as beam

from private_topk.transforms.guard import lost

__all__ = ["PutAside", "Shelf", "taken"]


class Shelf:
    """Pieces by number, each there until it is taken, all gone with the pipeline that has the shelf.

    For runners that neither repeat a bundle nor run it in another process.
    """

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._numbers, self._pieces = count(), dict[int, Any]()
        _SHELVES[self.name] = self

    def __len__(self) -> int:
        return len(self._pieces)

    def put(self, piece: object) -> int:
        """The number by which the piece is taken. Any thread may put and take."""
        number = next(self._numbers)
        self._pieces[number] = piece
        return number

    def take(self, number: int) -> Any:  # noqa: ANN401 - what was put
        """The piece, which is on the shelf no more. Raises LostPartError where it was taken before."""
        piece = self._pieces.pop(number, None)
        if piece is None:
            raise lost("the same rows or counts were handed over twice")
        return piece


_SHELVES: weakref.WeakValueDictionary[str, Shelf] = weakref.WeakValueDictionary()
"""By name. What Beam pickles knows its shelf by this only."""


class PutAside(beam.DoFn):
    """(where to, piece) to (where to, the piece's number on the shelf)."""

    def __init__(self, shelf: str) -> None:
        self._shelf = shelf

    def process(self, placed: tuple[int, Any]) -> Iterator[tuple[int, int]]:
        yield placed[0], _SHELVES[self._shelf].put(placed[1])


def taken(shelf: str, numbers: Iterable[int]) -> Iterator[Any]:
    """The pieces of these numbers, off the shelf."""
    found = _SHELVES[shelf]
    return (found.take(number) for number in numbers)
