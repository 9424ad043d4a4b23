"""Elements grouped by reference, and worked on side by side: the same answers as otherwise, and nothing left behind."""

from __future__ import annotations

import gc
import threading
from collections import deque
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows

from private_topk.transforms import shuffle
from private_topk.transforms.completeness import IncompleteDataError
from private_topk.transforms.counters import exact_counters, read_dropped_rows
from private_topk.transforms.domain import Domain, PublicDomain, UnknownDomain
from private_topk.transforms.mechanisms import Joint, LimitDomain
from private_topk.transforms.plan import Execution
from private_topk.transforms.rows import MakeBlocks
from private_topk.transforms.shuffle import InProcessShuffle, ThreadPoolDoFn, _PutInDoFn
from private_topk.transforms.spec import TopK
from private_topk.transforms.top_k import RankBlocks
from tests.nightly import nightly
from tests.transforms.pipelines import through
from tests.transforms.streams import DOMAIN, RELEASE, Collect, period_of, some_rows, stamped


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


def released(
    domain: Domain, cut: str | None, execution: Execution, windowed: bool = False
) -> tuple[list[Any], dict[str, str]]:
    """Rankings, and what was left out."""
    mechanism = LimitDomain(epsilon=5.0, delta=1e-2) if isinstance(domain, UnknownDomain) else Joint(epsilon=1.0)
    period = period_of(cut) if cut else None
    pipeline = beam.Pipeline(runner=FnApiRunner())
    rows = pipeline | beam.Create(stamped(some_rows(3, 72, 3_000)))
    if windowed:
        rows = rows | beam.WindowInto(FixedWindows(24 * 3600))
    with exact_counters():
        blocks = rows | MakeBlocks(with_times=period is not None)
        rankings = blocks | RankBlocks(TopK(5, mechanism, domain, 3), RELEASE, period, execution, windowed)
    _ = rankings | beam.ParDo(Collect("executed"))
    result = pipeline.run()
    result.wait_until_finish()
    return sorted((r.window.label(), r.items) for r in Collect.found["executed"]), read_dropped_rows(result.metrics())


@pytest.mark.parametrize(
    ("domain", "cut", "windowed"),
    [
        nightly(PublicDomain.of(DOMAIN[:9]), "sliding", False),
        (PublicDomain.of(DOMAIN[:9]), None, True),
        (UnknownDomain(), "sliding", False),
    ],
)
def test_no_answer_and_no_counter_depends_on_the_execution(domain: Domain, cut: str | None, windowed: bool) -> None:
    plain = released(domain, cut, Execution(8), windowed)
    gc.collect()
    before = len(shuffle._LIVE)
    assert plain[0] and plain == released(domain, cut, Execution(16, by_reference=True, cores=3), windowed)
    gc.collect()
    assert len(shuffle._LIVE) == before, "nothing is left of what was grouped by reference"
    assert isinstance(domain, UnknownDomain) or int(plain[1]["not_in_domain"].replace(",", "")) > 50
