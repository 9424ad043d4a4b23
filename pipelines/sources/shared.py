"""Blocks in memory that two processes see: one writes them, the other reads them where they are.

A piece of memory that was read is written again. The system need not find and clear new pages for each block then,
which takes longer than writing it.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle

import pyarrow as pa

__all__ = ["BlockReader", "BlockWriter"]

_STEP = 1 << 20  # bytes
_ROUND_IT = 1 << 10
"""Bytes that a stream of one block has besides its schema and its block: marks, and the room that aligns them."""


class BlockWriter:
    """Writes blocks into pieces of memory, and hands each over with the block that comes in it first."""

    def __init__(self, to: Connection) -> None:
        self._to, self._made = to, 0
        self._free: dict[int, mmap.mmap] = {}
        self._lent: dict[int, mmap.mmap] = {}

    def write(self, block: pa.RecordBatch) -> tuple[int, int | None, int | None]:
        """What `BlockReader.read` is to be told; where the middle is no None, `hand_over` is to be called after it."""
        size = block.schema.serialize().size + pa.ipc.get_record_batch_size(block) + _ROUND_IT
        fitting = [number for number, memory in self._free.items() if len(memory) >= size]
        dropped, handle = None, None
        if fitting:
            number = min(fitting, key=lambda number: len(self._free[number]))
            memory = self._free.pop(number)
        else:
            if self._free:  # too small: another one in its place
                dropped = next(iter(self._free))
                del self._free[dropped]
            number, self._made = self._made, self._made + 1
            handle = os.memfd_create("blocks")
            os.ftruncate(handle, -(-size // _STEP) * _STEP)
            memory = mmap.mmap(handle, 0)
        self._lent[number] = memory
        with pa.ipc.new_stream(pa.FixedSizeBufferWriter(pa.py_buffer(memory)), block.schema) as stream:
            stream.write_batch(block)
        return number, handle, dropped

    def hand_over(self, handle: int, process: int) -> None:
        """Send the memory itself to the process at the other end."""
        try:
            send_handle(self._to, handle, process)
        finally:
            os.close(handle)

    def take_back(self, numbers: tuple[int, ...]) -> None:
        """Those that are read may be written again."""
        for number in numbers:
            self._free[number] = self._lent.pop(number)


class BlockReader:
    """Reads blocks where they were written."""

    def __init__(self, source: Connection) -> None:
        self._source = source
        self._known: dict[int, mmap.mmap] = {}
        self._returned: deque[int] = deque()

    def read(self, number: int, handle: int | None, dropped: int | None) -> pa.RecordBatch:
        """The block that was written, as `BlockWriter.write` told of it. It may be held for as long as one likes."""
        if dropped is not None:
            del self._known[dropped]
        if handle is not None:
            ours = recv_handle(self._source)
            try:
                self._known[number] = mmap.mmap(ours, 0, prot=mmap.PROT_READ)
            finally:
                os.close(ours)
        lent = _Lent(number, self._known[number], self._returned)
        memory = pa.foreign_buffer(lent.seen.address, lent.seen.size, lent)
        return pa.ipc.open_stream(memory).read_next_batch()

    def forget(self) -> None:
        """Hold no memory but that of blocks which somebody holds."""
        self._known.clear()

    def returned(self) -> tuple[int, ...]:
        """The pieces of memory whose blocks were dropped, every column of them, since this was asked last."""
        return tuple(self._returned.popleft() for _ in range(len(self._returned)))


class _Lent:
    """A piece of memory as long as anything of its block is held: Arrow's columns hold this."""

    def __init__(self, number: int, memory: mmap.mmap, returned: deque[int]) -> None:
        self._number, self._returned = number, returned
        self.seen = pa.py_buffer(memory)

    def __del__(self) -> None:
        self._returned.append(self._number)
