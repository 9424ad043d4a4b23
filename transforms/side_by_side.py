"""Kernels side by side: plain functions of one element in several threads, what comes out in the order of elements."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

__all__ = ["SideBySideDoFn"]


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
