from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from private_topk.pipelines.sources.files import read_ahead


def counting(made: list[int], n: int) -> Iterator[int]:
    for number in range(n):
        made.append(number)
        yield number


def test_same_elements_in_order() -> None:
    assert list(read_ahead(iter(range(1000)))) == list(range(1000))
    assert list(read_ahead(iter([None, None]))) == [None, None] and list(read_ahead(iter([]))) == []


def test_runs_ahead_but_not_far() -> None:
    made: list[int] = []
    elements = read_ahead(counting(made, 100), depth=2)
    assert next(elements) == 0
    until = time.monotonic() + 120
    while len(made) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.1)  # time to run too far
    assert len(made) <= 5
    elements.close()


def test_what_the_source_raises_is_raised_here_after_what_came_before() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise KeyError("broken")

    elements = read_ahead(broken())
    assert next(elements) == 1
    with pytest.raises(KeyError, match="broken"):
        next(elements)


def test_an_early_stop_ends_the_thread() -> None:
    before = threading.active_count()
    elements = read_ahead(counting([], 10**9))
    next(elements)
    assert threading.active_count() == before + 1
    elements.close()
    assert threading.active_count() == before
