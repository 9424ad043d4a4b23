"""Decoding in a process of its own, which waits for nobody's lock: Python's is taken by whoever loads Beam.

The process is a fork of this one. It decodes the bundles that it is given one after another, by the function that this
one would use, and hands the blocks over in memory that both see. It may be lost at any moment, or never answer: then
this one decodes the rest by itself, from the block on that did not come.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NoReturn

from private_topk.pipelines.sources.ahead import BESIDE, DECODERS
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.formats import Piece, Read, read_pieces
from private_topk.pipelines.sources.shared import BlockReader, BlockWriter

__all__ = ["Apart", "may_fork"]

_AHEAD = 4
"""Blocks that may be decoded before the first of them is taken."""

_WORTH_SHARING = 1 << 18
"""Bytes from which on a block gets a piece of memory of its own."""

_PATIENCE = 60.0
"""Seconds within which a block comes, or the process is taken for lost."""

_GO_ON, _HURRY, _END = "go on", "hurry", "end"

_NOT_TO_BE_FORKED = ("grpc", "polars")
"""Modules with threads that hold locks, which a fork would wait for in vain."""

_ENDS = (signal.SIGINT, signal.SIGTERM)


def may_fork() -> bool:
    """Whether this process may be forked, and has a core for the fork: it is on Linux, and early in its life."""
    return (
        sys.platform == "linux"
        and hasattr(os, "memfd_create")
        and len(os.sched_getaffinity(0)) > 1
        and threading.active_count() == 1
        and not any(name in sys.modules for name in _NOT_TO_BE_FORKED)
    )


class Apart:
    """A process that decodes for this one until it is closed.

    Memory: what is being decoded, and four blocks, besides those that were taken and are still held.

    Raises OSError where no process is to be had.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns, self._usable, self._closed, self._hurried = columns, True, False, False
        self._ending = threading.Lock()
        self._ours, theirs = Pipe()
        self._reader = BlockReader(self._ours)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # what they raise is this process's alone
        try:
            self._process = _fork()
            if self._process == 0:
                _serve(theirs, columns, self._ours)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def read(self, pieces: Sequence[Piece]) -> Generator[Read, None, None]:
        """What `read_pieces` gives of a bundle, and what it raises. One bundle at a time."""
        came = 0
        if self._usable:
            self._usable = False  # until all of it has come: what is on its way else would be taken for the next one's
            with suppress(Exception):  # whatever happened to the process, this one can do without
                for found in self._received(pieces):
                    came += 1
                    yield found
                self._usable = True
                return
        if self._closed:
            raise RuntimeError("the process was closed")
        with closing(read_pieces(pieces, self._columns)) as reads:
            yield from islice(reads, came, None)

    def hurry(self) -> None:
        """Let it decode on several cores: nobody else needs them from now on."""
        self._hurried = True

    def close(self) -> None:
        """End the process, once. Whoever reads from it meanwhile meets a RuntimeError; blocks that came stay."""
        with self._ending:
            if self._closed:  # its number may be another process's by now
                return
            self._closed = True
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._process, 0)
            self._reader.forget()

    def _received(self, pieces: Sequence[Piece]) -> Iterator[Read]:
        self._ours.send(list(pieces))
        while True:
            if not self._ours.poll(_PATIENCE):
                raise TimeoutError
            found = self._ours.recv()
            if isinstance(found, str):  # the end
                return
            kept, left_out, stored = found
            yield Read(self._reader.read(*kept) if isinstance(kept, tuple) else kept, left_out, stored)
            self._ours.send((_HURRY if self._hurried else _GO_ON, self._reader.returned()))


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns of threads beside the one that forks. The only one here is of Arrow's allocator, which sees to it
        # that its locks are free in the fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _serve(parent: Connection, columns: Columns, parents: Connection) -> NoReturn:
    """The life of the process. It says nothing and ends with whatever it meets: its parent will meet the same."""
    try:
        parents.close()  # so that this end hears of the parent's
        for ends in _ENDS:
            signal.signal(ends, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        BESIDE.set(0)
        writer = BlockWriter(parent)
        while True:
            told = parent.recv()
            if isinstance(told, list):
                _decode(told, columns, parent, writer)
            else:
                writer.take_back(told[1])
    finally:
        os._exit(0)


def _decode(pieces: Sequence[Piece], columns: Columns, parent: Connection, writer: BlockWriter) -> None:
    may_send = _AHEAD
    for found in read_pieces(pieces, columns):
        while may_send == 0 or parent.poll():
            told, returned = parent.recv()
            writer.take_back(returned)
            if told == _HURRY:
                BESIDE.set(DECODERS)
            may_send += 1
        _send(found, parent, writer)
        may_send -= 1
    parent.send(_END)


def _send(found: Read, parent: Connection, writer: BlockWriter) -> None:
    if found.block is None or found.size < _WORTH_SHARING:
        parent.send(tuple(found))
        return
    told = writer.write(found.block)
    parent.send((told, found.left_out, found.stored))  # the block comes by its memory
    if told[1] is not None:
        writer.hand_over(told[1], os.getppid())
