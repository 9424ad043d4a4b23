"""Elements handled side by side: the same as one after the other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows

from private_topk.transforms.columnar import make_table
from private_topk.transforms.contributions import _CountDoFn
from private_topk.transforms.counters import exact_counters, read_left_out
from private_topk.transforms.domain import Domain, PublicDomain, UnknownDomain
from private_topk.transforms.mechanisms import Joint, LimitDomain
from private_topk.transforms.plan import Layout
from private_topk.transforms.rows import MakeBlocks
from private_topk.transforms.shuffle import SideBySideDoFn
from private_topk.transforms.spec import TopK
from private_topk.transforms.top_k import RankBlocks
from private_topk.transforms.user_shards import UserShard
from private_topk.transforms.windows.assign import AssignWindows
from tests.transforms.streams import DOMAIN, RELEASE, Collect, period_of, some_rows, stamped


class Together(SideBySideDoFn):
    """Each `work` waits for another one to be at work; `hand_on` says on which thread it is."""

    def __init__(self, cores: int) -> None:
        super().__init__(cores)
        self.barrier = threading.Barrier(cores)

    def work(self, element: int) -> int:
        if element < 0:
            raise ValueError(f"element {element}")
        self.barrier.wait(timeout=300)
        return element

    def hand_on(self, result: int) -> list[tuple[int, bool]]:
        return [(result, threading.current_thread() is threading.main_thread())]


def through(fn: SideBySideDoFn, elements: Sequence[Any]) -> list[Any]:
    fn.setup()
    fn.start_bundle()
    found = [result for element in elements for result in fn.process(element)]
    found += [windowed.value for windowed in fn.finish_bundle()]
    fn.teardown()
    return found


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_work_is_done_side_by_side_and_handed_on_in_order(cores: int) -> None:
    assert through(Together(cores), range(6)) == [(n, True) for n in range(6)]


def test_what_goes_wrong_is_raised() -> None:
    fn = Together(2)
    with pytest.raises(ValueError, match="element -1"):
        through(fn, [-1, -1, -1])
    fn.teardown()


def released(cores: int, domain: Domain, cut: str | None, windowed: bool = False) -> tuple[list[Any], dict[str, str]]:
    mechanism = LimitDomain(epsilon=5.0, delta=1e-2) if isinstance(domain, UnknownDomain) else Joint(epsilon=1.0)
    spec = TopK(5, mechanism, domain, 3)
    period = period_of(cut) if cut else None
    pipeline = beam.Pipeline(runner=FnApiRunner())
    rows = pipeline | beam.Create(stamped(some_rows(3, 72, 4_000)))
    if windowed:
        rows = rows | beam.WindowInto(FixedWindows(24 * 3600))
    with exact_counters():
        blocks = rows | MakeBlocks(with_times=period is not None)
        if period is not None:
            blocks = blocks | AssignWindows(period)
        rankings = blocks | RankBlocks(spec, RELEASE, period, 16, reveal_active_windows=windowed, cores=cores)
    _ = rankings | beam.ParDo(Collect(f"cores {cores}"))
    result = pipeline.run()
    result.wait_until_finish()
    found = sorted((r.window.label(), r.items) for r in Collect.found[f"cores {cores}"])
    return found, read_left_out(result.metrics())


@pytest.mark.parametrize(
    ("domain", "cut", "windowed"),
    [
        (PublicDomain.of(DOMAIN[:9]), "sliding", False),
        (PublicDomain.of(DOMAIN[:9]), None, True),
        (UnknownDomain(), "fixed", False),
    ],
)
def test_cores_change_no_answer_and_no_counter(domain: Domain, cut: str | None, windowed: bool) -> None:
    alone, counted = released(1, domain, cut, windowed)
    assert alone and (alone, counted) == released(3, domain, cut, windowed)
    assert isinstance(domain, UnknownDomain) or int(counted["not_in_domain"].replace(",", "")) > 50


def test_shards_are_counted_by_themselves() -> None:
    layout = Layout.of(PublicDomain.of(DOMAIN))
    counter = UserShard(layout, RELEASE.key, None)
    shards = [
        (shard, [make_table(user=np.arange(shard + 1, dtype=np.uint64), item=np.zeros(shard + 1, layout.code_type))])
        for shard in range(9)
    ]
    found = through(_CountDoFn(counter, 4), shards)
    assert found[::2] and [part.sources.tolist() for _, part in found[::2]] == [[shard] for shard in range(9)]
    assert [part.table["count"].to_pylist() for _, part in found[::2]] == [[shard + 1] for shard in range(9)]
    assert all(isinstance(part.table, pa.RecordBatch) for _, part in found)
