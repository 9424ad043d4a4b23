"""Reading that begins before there is a pipeline: the files of a report are decoded while Beam is being loaded.

Loading Beam and building the pipeline take a second or more of one core, so another one can be at work by then: that of
a process where there is much to decode, since loading keeps Python's lock, or of a thread. A reader takes what is
decoded already, or being decoded, and decodes the rest by itself; all by the same function, so that the blocks, what is
left out and what is raised are the same.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from private_topk.pipelines.files import FileInfo, as_it_is
from private_topk.pipelines.sources.ahead import BESIDE, DECODERS, read_ahead
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.formats import Piece, Read, cut_into_pieces, read_pieces
from private_topk.pipelines.sources.formats import bundle as bundled

if TYPE_CHECKING:
    from private_topk.pipelines.sources.apart import Apart

__all__ = ["Early", "early", "read"]

_MOST = 256 << 20
"""Bytes of blocks that wait to be taken."""

_PATIENCE = 1.0  # seconds

_END = None


class _Bundle:
    """What is decoded of a bundle and not handed on yet."""

    def __init__(self) -> None:
        self.found: SimpleQueue[Read | BaseException | None] = SimpleQueue()
        self.size, self.taken = 0, False


class Early:
    """The bundles of some files, decoded in their order by a thread, until they are taken or it is closed.

    Memory: `most` bytes of blocks, and one block, besides what the decoders need; twice that where bundles are taken in
    another order.

    Args:
        find: the files, looked for by the thread; what it raises is for the pipeline's own look to say.
        most: so many bytes may wait, and of a bundle that is being taken as many whatever else waits.
        apart: a process that decodes in the thread's place, and is closed with this.
    """

    def __init__(
        self,
        find: Callable[[], Sequence[FileInfo]],
        columns: Columns,
        most: int = _MOST,
        apart: Apart | None = None,
    ) -> None:
        self._find, self._columns, self._most, self._apart = find, columns, most, apart
        self._turn = threading.Condition()
        self._held, self._closed, self._asked = 0, False, False
        self._files: dict[str, FileInfo] | None = None
        self._waiting: deque[tuple[Piece, ...]] = deque()
        self._begun: dict[tuple[Piece, ...], _Bundle] = {}
        self._thread = threading.Thread(target=self._work, name="early reading", daemon=True)
        self._thread.start()

    def take(self, pieces: Sequence[Piece], columns: Columns) -> Iterator[Read] | None:
        """What there is of a bundle, as it comes; None where it is for the reader to decode.

        Nothing that was decoded counts any more once a file has changed since, or other columns are asked for.
        """
        with self._turn:
            self._asked = True
            self._turn.wait_for(lambda: self._closed or self._files is not None)
            if not self._closed and (columns != self._columns or not self._unchanged(pieces)):
                self._close()
            key = tuple(pieces)
            if self._closed or key not in self._begun:
                if key in self._waiting:
                    self._waiting.remove(key)
                return None
            bundle = self._begun.pop(key)
            bundle.taken = True
            self._turn.notify_all()
            return self._rest_of(bundle)

    def close(self) -> None:
        """Decode no more, and hold nothing. Returns when the thread has ended, within a block, or in a second.

        A signal that interrupts the loading of a module may leave Python's lock of it with the interrupted thread: this
        one, if it loads a module by then, never gets it, and is left to the end of the process.
        """
        with self._turn:
            self._close()
        if self._apart is not None:
            self._apart.close()
        self._thread.join(_PATIENCE)

    def _close(self) -> None:
        self._closed = True
        self._waiting.clear()
        self._begun.clear()
        self._turn.notify_all()

    def _unchanged(self, pieces: Sequence[Piece]) -> bool:
        known = self._files or {}
        return all(piece.path in known and as_it_is(known[piece.path]) == known[piece.path] for piece in pieces)

    def _rest_of(self, bundle: _Bundle) -> Iterator[Read]:
        while (found := bundle.found.get()) is not _END:
            if isinstance(found, BaseException):
                raise found
            self._hold(bundle, -found.size)
            yield found

    def _hold(self, bundle: _Bundle, size: int) -> None:
        with self._turn:
            self._held, bundle.size = self._held + size, bundle.size + size
            self._turn.notify_all()

    def _work(self) -> None:
        try:
            self._look()
            while (begun := self._next()) is not None:
                self._decode(*begun)
            if self._apart is not None:  # what comes next has use for its core and its memory
                self._apart.close()
        except BaseException:  # the pipeline's own look will meet the same, and say so; a Rust panic is no Exception
            with self._turn:
                self._close()

    def _look(self) -> None:
        files = self._find()
        bundles: dict[int, list[Piece]] = {}
        for number, piece in bundled(cut_into_pieces(files)):
            bundles.setdefault(number, []).append(piece)
        with self._turn:
            if not self._closed:
                self._waiting.extend(tuple(sorted(pieces)) for pieces in bundles.values())
            self._files = {file.path: file for file in files}
            self._turn.notify_all()

    def _next(self) -> tuple[tuple[Piece, ...], _Bundle] | None:
        with self._turn:
            if not self._waiting:
                return None
            pieces = self._waiting.popleft()
            self._begun[pieces] = _Bundle()
            return pieces, self._begun[pieces]

    def _decode(self, pieces: Sequence[Piece], bundle: _Bundle) -> None:
        try:
            with closing(self._reads(pieces)) as reads:
                self._make_way()
                for each in reads:
                    self._make_way()
                    self._wait_for_room(bundle)
                    self._hold(bundle, each.size)
                    bundle.found.put(each)
            bundle.found.put(_END)
        except BaseException as error:
            bundle.found.put(error)

    def _wait_for_room(self, bundle: _Bundle) -> None:
        def done() -> bool:
            return self._closed or self._held < self._most or (bundle.taken and bundle.size < self._most)

        with self._turn:
            self._turn.wait_for(done)
            if self._closed:  # raised, so that nobody takes what there is of a bundle for all of it
                raise RuntimeError("early reading was closed")

    def _reads(self, pieces: Sequence[Piece]) -> Generator[Read, None, None]:
        return read_pieces(pieces, self._columns) if self._apart is None else self._apart.read(pieces)

    def _make_way(self) -> None:
        """Whoever loads Beam goes first: until somebody takes what is decoded, one thread decodes."""
        BESIDE.set(DECODERS if self._asked else 0)
        if self._apart is not None and self._asked:
            self._apart.hurry()


_EARLY: Early | None = None
"""That of this process: a reader, which Beam pickles, finds it by being in the same one."""


def _process(columns: Columns) -> Apart | None:
    from private_topk.pipelines.sources.apart import Apart, may_fork  # small runs go without

    with suppress(OSError):
        return Apart(columns) if may_fork() else None
    return None


@contextmanager
def early(find: Callable[[], Sequence[FileInfo]], columns: Columns, apart: bool = False) -> Iterator[None]:
    """Decode files from now on, for readers in this process that come inside; one at a time.

    Args:
        apart: in a process of its own, where one can be had.
    """
    global _EARLY
    reading = _EARLY = Early(find, columns, apart=_process(columns) if apart else None)
    try:
        yield
    finally:
        _EARLY = None
        reading.close()


def read(pieces: Sequence[Piece], columns: Columns) -> Iterator[Read]:
    """The blocks of the pieces of a bundle, in their order, decoded ahead of whoever asks for them."""
    taken = None if _EARLY is None else _EARLY.take(pieces, columns)
    return read_ahead(read_pieces(pieces, columns)) if taken is None else taken
