"""Pieces that stay where they are while a runner groups their numbers: the same answers, nothing left behind."""

from __future__ import annotations

import gc
import threading
from collections import deque
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from private_topk.transforms import shuffle as shelves
from private_topk.transforms.columnar import make_table
from private_topk.transforms.completeness import IncompleteDataError
from private_topk.transforms.domain import Domain, PublicDomain, UnknownDomain
from private_topk.transforms.mechanisms import Joint, LimitDomain
from private_topk.transforms.parts import Part
from private_topk.transforms.rows import MakeBlocks
from private_topk.transforms.shuffle import Shelf, _PutAsideDoFn, taken
from private_topk.transforms.spec import TopK
from private_topk.transforms.top_k import RankBlocks
from private_topk.transforms.windows.assign import AssignWindows
from tests.transforms.streams import DOMAIN, RELEASE, Collect, period_of, some_rows, stamped


def piece(number: int) -> pa.RecordBatch:
    return make_table(user=np.array([number], np.uint64))


def test_every_piece_is_taken_once_whoever_puts_and_takes() -> None:
    shelf, found = Shelf(), list[int]()

    def put_and_take(first: int) -> None:
        numbers = [shelf.put(deque([piece(n), piece(n + 1)])) for n in range(first, first + 200, 2)]
        found.extend(part["user"][0].as_py() for part in taken(shelf.name, numbers))

    threads = [threading.Thread(target=put_and_take, args=(200 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1600)) and len(shelf) == 0


def test_a_piece_is_not_counted_twice() -> None:
    shelf = Shelf()
    number = shelf.put(deque([piece(1)]))
    with pytest.raises(IncompleteDataError, match="rows or counts were handed over twice"):
        list(taken(shelf.name, [number, number]))


@pytest.mark.parametrize("together", [True, False])
def test_few_numbers_are_grouped_where_all_rows_are_of_one_window(together: bool) -> None:
    """What a runner groups is one number for each shard and bundle, not one for each piece."""
    shelf = Shelf()
    fn = _PutAsideDoFn(shelf.name, together)
    fn.start_bundle()
    placed = [found for number in range(30) for found in fn.process((number % 3, piece(number)))]
    placed += [windowed.value for windowed in fn.finish_bundle()]
    assert len(placed) == len(shelf) == (3 if together else 30)
    for place in range(3):
        found = taken(shelf.name, [number for where, number in placed if where == place])
        assert [part["user"][0].as_py() for part in found] == list(range(place, 30, 3))


def released(domain: Domain, cut: str | None, by_reference: bool) -> list[Any]:
    mechanism = LimitDomain(epsilon=5.0, delta=1e-2) if isinstance(domain, UnknownDomain) else Joint(epsilon=1.0)
    period = period_of(cut) if cut else None
    pipeline = beam.Pipeline(runner=FnApiRunner())
    blocks = pipeline | beam.Create(stamped(some_rows(3, 72, 2_000))) | MakeBlocks(with_times=period is not None)
    if period is not None:
        blocks = blocks | AssignWindows(period)
    spec = TopK(5, mechanism, domain, 3)
    rankings = blocks | RankBlocks(spec, RELEASE, period, 8, cores=2, by_reference=by_reference)
    _ = rankings | beam.ParDo(Collect(f"by reference {by_reference}"))
    pipeline.run().wait_until_finish()
    return sorted((r.window.label(), r.items) for r in Collect.found[f"by reference {by_reference}"])


@pytest.mark.parametrize(("domain", "cut"), [(PublicDomain.of(DOMAIN[:9]), None), (UnknownDomain(), "sliding")])
def test_the_answer_is_the_same_and_nothing_is_left_behind(
    domain: Domain, cut: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, put_on_a_shelf = list[type](), Shelf.put
    monkeypatch.setattr(Shelf, "put", lambda shelf, some: put.append(type(some[0])) or put_on_a_shelf(shelf, some))
    plain = released(domain, cut, False)
    assert plain and not put
    gc.collect()
    before = len(shelves._SHELVES)
    assert released(domain, cut, True) == plain
    assert set(put) == {pa.RecordBatch, Part}, "rows for user shards, and counts for where they are added up"
    gc.collect()
    assert len(shelves._SHELVES) == before
