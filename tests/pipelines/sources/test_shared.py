"""Blocks in memory that two processes see; both ends are in this one here, to see what becomes of the memory."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from multiprocessing import Pipe
from typing import NamedTuple

import pyarrow as pa
import pytest

from private_topk.pipelines.sources.shared import BlockReader, BlockWriter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared so on Linux alone")


class Ends(NamedTuple):
    writer: BlockWriter
    reader: BlockReader

    def through(self, block: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """The block at the other end, and the number of the memory that it is in."""
        told = self.writer.write(block)
        if told[1] is not None:
            self.writer.hand_over(told[1], os.getpid())
        return self.reader.read(*told), told[0]

    def settle(self) -> None:
        gc.collect()
        self.writer.take_back(self.reader.returned())


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = Pipe()
    yield Ends(BlockWriter(theirs), BlockReader(ours))
    ours.close()
    theirs.close()


def block_of(rows: int, letter: str = "u") -> pa.RecordBatch:
    users = pa.array([None if row % 5 == 3 else f"{letter}{row}" for row in range(rows)], pa.large_string())
    return pa.record_batch({"user": users, "item": pa.array(range(rows), pa.uint32())})


def test_memory_is_written_again_once_nobody_holds_its_block(ends: Ends) -> None:
    numbers = set()
    for letter in "abcdefgh":
        came, number = ends.through(block_of(1000, letter))
        assert came.equals(block_of(1000, letter))
        numbers.add(number)
        del came
        ends.settle()
    assert numbers == {0}


@pytest.mark.parametrize("held", ["block", "column", "slice", "part of a table"])
def test_memory_that_anything_is_held_of_is_left_alone(ends: Ends, held: str) -> None:
    came, number = ends.through(block_of(1000))
    kept = {"block": came, "column": came["user"], "slice": came["user"].slice(990),
            "part of a table": pa.Table.from_batches([came])}[held]  # fmt: skip
    before = kept.to_pylist()
    del came
    for letter in "abcd":
        other, elsewhere = ends.through(block_of(1000, letter))
        assert elsewhere != number
        del other
        ends.settle()
    assert kept.to_pylist() == before
    del kept
    ends.settle()
    assert number in {ends.through(block_of(1000))[1] for _ in range(2)}


def test_a_block_that_fits_nowhere_takes_the_place_of_a_smaller_one(ends: Ends) -> None:
    handles, numbers = len(os.listdir("/proc/self/fd")), []
    for rows in (10, 200_000, 10, 400_000):
        came, number = ends.through(block_of(rows))
        assert came.equals(block_of(rows))
        numbers.append(number)
        del came
        ends.settle()
    assert numbers == [0, 1, 1, 2]
    assert len(os.listdir("/proc/self/fd")) == handles + 2, "more is held than one piece of memory, at both ends"


def test_what_is_held_outlives_the_reader(ends: Ends) -> None:
    came, _ = ends.through(block_of(1000))
    ends.reader.forget()
    gc.collect()
    assert came.equals(block_of(1000)) and not ends.reader.returned()
