"""Elements grouped by reference, and worked on side by side."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from private_topk.transforms.errors import IncompleteDataError
from private_topk.transforms.shuffle import InProcessShuffle, ThreadPoolDoFn, _PutInDoFn
from tests.transforms.pipelines import through


def test_every_element_is_taken_once_whoever_puts_and_takes() -> None:
    here, found = InProcessShuffle(), list[int]()

    def put_and_take(first: int) -> None:
        numbers = [here.put(deque([n, n + 1])) for n in range(first, first + 200, 2)]
        found.extend(InProcessShuffle.take(here.name, numbers))

    threads = [threading.Thread(target=put_and_take, args=(200 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1600)) and len(here) == 0


def test_an_element_is_not_counted_twice() -> None:
    here = InProcessShuffle()
    number = here.put(deque([1]))
    with pytest.raises(IncompleteDataError, match="rows or counts were handed over twice"):
        list(InProcessShuffle.take(here.name, [number, number]))


def test_one_number_is_grouped_for_each_key_and_bundle() -> None:
    here = InProcessShuffle()
    fn = _PutInDoFn(here.name)
    fn.start_bundle()
    for number in range(30):
        fn.process((number % 3, number))
    numbers = dict(windowed.value for windowed in fn.finish_bundle())
    assert len(numbers) == len(here) == 3
    assert [list(InProcessShuffle.take(here.name, [numbers[key]])) for key in range(3)] == [
        list(range(key, 30, 3)) for key in range(3)
    ]


class Together(ThreadPoolDoFn):
    """Each `work` waits for another one to be at work; `emit` says on which thread it is."""

    def __init__(self, cores: int) -> None:
        super().__init__(cores)
        self.barrier = threading.Barrier(cores)

    def work(self, element: int) -> int:
        if element < 0:
            raise ValueError(f"element {element}")
        self.barrier.wait(timeout=300)
        return element

    def emit(self, result: int) -> list[tuple[int, bool]]:
        return [(result, threading.current_thread() is threading.main_thread())]


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_work_is_done_side_by_side_and_handed_on_in_order(cores: int) -> None:
    assert through(Together(cores), range(6)) == [(n, True) for n in range(6)]


def test_what_goes_wrong_is_raised() -> None:
    fn = Together(2)
    with pytest.raises(ValueError, match="element -1"):
        through(fn, [-1, -1, -1])
    fn.teardown()
