"""Reading ahead: the next blocks are decoded while the worker handles this one."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["in_order", "read_ahead"]

T = TypeVar("T")
R = TypeVar("R")

_DECODERS = 2

_END = object()


def read_ahead(source: Iterator[T], depth: int = 2) -> Iterator[T]:
    """The elements of `source`, made by a thread that runs at most `depth` ahead. What it raises is raised here.

    The decoders release Python's lock, so this fills a second core. If the reader stops early, so does the thread.
    """
    elements: queue.Queue = queue.Queue(depth)
    stop = threading.Event()

    def put(element: object) -> None:
        while not stop.is_set():
            try:
                return elements.put(element, timeout=0.1)
            except queue.Full:
                continue

    def make() -> None:
        try:
            for element in source:
                put((element, None))
                if stop.is_set():
                    return
            put((_END, None))
        except BaseException as error:
            put((_END, error))

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        while True:
            element, error = elements.get()
            if error is not None:
                raise error
            if element is _END:
                return
            yield element
    finally:
        stop.set()
        thread.join()


def in_order(parts: Iterator[T], decode: Callable[[T], R]) -> Iterator[R]:
    """Every part decoded, by two threads that work side by side: decoding is the largest cost of a report."""
    with ThreadPoolExecutor(_DECODERS) as pool:
        ahead: deque[Future[R]] = deque()
        for part in parts:
            ahead.append(pool.submit(decode, part))
            if len(ahead) > _DECODERS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
