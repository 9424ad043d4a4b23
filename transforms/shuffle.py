"""A shuffle by reference: where all workers are threads of one process, what is grouped waits in its memory.

A runner that groups encodes every element, and copies the bytes some ten times over, on one thread. What it groups here
is the numbers of pieces; the pieces stay where they are.
"""

from __future__ import annotations

import uuid
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from private_topk.transforms.completeness import lost

__all__ = ["PutAside", "Shelf", "SideBySideDoFn", "taken"]


class Shelf:
    """Pieces by number, some together, each there until it is taken, all gone with the pipeline that has the shelf.

    For runners that neither repeat a bundle nor run it in another process.
    """

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._numbers, self._pieces = count(), dict[int, deque[Any]]()
        _SHELVES[self.name] = self

    def __len__(self) -> int:
        return len(self._pieces)

    def put(self, pieces: deque[Any]) -> int:
        """The number by which the pieces are taken. Any thread may put and take."""
        number = next(self._numbers)
        self._pieces[number] = pieces
        return number

    def take(self, number: int) -> deque[Any]:
        """The pieces, which are on the shelf no more. Raises IncompleteDataError where they were taken before."""
        pieces = self._pieces.pop(number, None)
        if pieces is None:
            raise lost("the same rows or counts were handed over twice")
        return pieces


_SHELVES: weakref.WeakValueDictionary[str, Shelf] = weakref.WeakValueDictionary()
"""By name. What Beam pickles knows its shelf by this only."""


class PutAside(beam.PTransform):
    """(where to, piece) to (where to, the number on the shelf of some pieces).

    In the global window the pieces of a bundle that go one way have one number: so few are grouped, whatever the rows.
    """

    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self._shelf = shelf.name

    def expand(self, placed: beam.PCollection) -> beam.PCollection:
        together = isinstance(placed.windowing.windowfn, GlobalWindows)
        return placed | beam.ParDo(_PutAsideDoFn(self._shelf, together)).with_output_types(tuple[int, int])


class _PutAsideDoFn(beam.DoFn):
    def __init__(self, shelf: str, together: bool) -> None:
        self._shelf, self._together = shelf, together

    def start_bundle(self) -> None:
        self._held: defaultdict[int, deque[Any]] = defaultdict(deque)

    def process(self, placed: tuple[int, Any]) -> Iterable[tuple[int, int]]:
        place, piece = placed
        if not self._together:
            return [(place, _SHELVES[self._shelf].put(deque([piece])))]
        self._held[place].append(piece)
        return ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for place, pieces in self._held.items():
            yield GlobalWindows.windowed_value((place, _SHELVES[self._shelf].put(pieces)))


def taken(shelf: str, numbers: Iterable[int]) -> Iterator[Any]:
    """The pieces of these numbers, off the shelf, which lets each go as it is handed on."""
    found = _SHELVES[shelf]
    for number in numbers:
        pieces = found.take(number)
        while pieces:
            yield pieces.popleft()


class SideBySideDoFn(beam.DoFn):
    """`work` on up to `cores` elements at a time; `hand_on` of the results, on Beam's own thread and in their order.

    numpy and Arrow release Python's lock, so this fills as many cores. What comes out is the same whatever `cores` is.
    A result leaves while a later element is handled, and with its window: more than one core is for collections in the
    global window only. Memory: that of `cores` elements at work, and as many more that wait or are done.
    """

    def __init__(self, cores: int = 1) -> None:
        self._cores = cores
        self._pool: ThreadPoolExecutor | None = None

    def work(self, element: Any) -> Any:  # noqa: ANN401 - a subclass says
        """The costly part: touches nothing but the element, since it runs beside others."""
        raise NotImplementedError

    def hand_on(self, result: Any) -> Iterable[Any]:  # noqa: ANN401
        """What leaves for a result of `work`."""
        raise NotImplementedError

    def setup(self) -> None:
        if self._cores > 1:
            self._pool = ThreadPoolExecutor(self._cores)

    def start_bundle(self) -> None:
        self._ahead: deque[Future] = deque()

    def process(self, element: Any) -> Iterator[Any]:  # noqa: ANN401
        if self._pool is None:
            yield from self.hand_on(self.work(element))
            return
        self._ahead.append(self._pool.submit(self.work, element))
        # More than the cores work on, so that none of them waits while a result is handed on.
        if len(self._ahead) >= 2 * self._cores:
            yield from self.hand_on(self._ahead.popleft().result())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        while self._ahead:
            for found in self.hand_on(self._ahead.popleft().result()):
                yield GlobalWindows.windowed_value(found)

    def teardown(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
