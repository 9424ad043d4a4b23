"""Grouping and parallel work inside one process: elements shuffled by reference, and DoFns that use threads."""

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

from private_topk.transforms.completeness import incomplete
from private_topk.transforms.errors import crosses


class InProcessShuffle:
    """A shuffle by reference: the runner groups numbers, and the elements they stand for stay in memory.

    A runner that groups encodes every element, and copies the bytes some ten times, on one thread. Here elements wait
    under a number, several together, until they are taken; all are dropped with the pipeline that has the shuffle.

    For the global window, and runners that neither repeat a bundle nor run it in another process.
    """

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._numbers, self._elements = count(), dict[int, deque[Any]]()
        _LIVE[self.name] = self

    def __len__(self) -> int:
        return len(self._elements)

    def put(self, elements: deque[Any]) -> int:
        """The number by which the elements are taken. Any thread may put and take."""
        number = next(self._numbers)
        self._elements[number] = elements
        return number

    @staticmethod
    def take(name: str, numbers: Iterable[int]) -> Iterator[Any]:
        """The elements of these numbers, each of which is let go as it is handed on.

        Raises IncompleteDataError where they were taken before.
        """
        elements_by_number = _LIVE[name]._elements
        for number in numbers:
            elements = elements_by_number.pop(number, None)
            if elements is None:
                raise incomplete("the same rows or counts were handed over twice")
            while elements:
                yield elements.popleft()


_LIVE: weakref.WeakValueDictionary[str, InProcessShuffle] = weakref.WeakValueDictionary()
"""Live shuffles by name, by which pickled objects look up theirs."""


def put_in(shuffle: InProcessShuffle) -> beam.ParDo:
    """(key, element) to (key, number of some elements): in a bundle, the elements of one key share a number."""
    return beam.ParDo(_PutInDoFn(shuffle.name)).with_output_types(tuple[int, int])


@crosses
class _PutInDoFn(beam.DoFn):
    def __init__(self, shuffle: str) -> None:
        self._shuffle = shuffle

    def start_bundle(self) -> None:
        self._held: defaultdict[int, deque[Any]] = defaultdict(deque)

    def process(self, element: tuple[int, Any]) -> None:
        self._held[element[0]].append(element[1])

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for key, elements in self._held.items():
            yield GlobalWindows.windowed_value((key, _LIVE[self._shuffle].put(elements)))


@crosses
class ThreadPoolDoFn(beam.DoFn):
    """A DoFn that runs `work` on up to `cores` elements at a time, and `emit` of the results, in order, on the
    thread that Beam calls it on.

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

    def emit(self, result: Any) -> Iterable[Any]:  # noqa: ANN401
        """The output for a result of `work`."""
        raise NotImplementedError

    def setup(self) -> None:
        if self._cores > 1:
            self._pool = ThreadPoolExecutor(self._cores)

    def start_bundle(self) -> None:
        self._ahead: deque[Future] = deque()

    def process(self, element: Any) -> Iterator[Any]:  # noqa: ANN401
        if self._pool is None:
            yield from self.emit(self.work(element))
            return
        self._ahead.append(self._pool.submit(self.work, element))
        # More tasks than cores, so that no core waits while a result is handed on.
        if len(self._ahead) >= 2 * self._cores:
            yield from self.emit(self._ahead.popleft().result())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        while self._ahead:
            for result in self.emit(self._ahead.popleft().result()):
                yield GlobalWindows.windowed_value(result)

    def teardown(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
