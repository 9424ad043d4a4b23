"""What is decoded before anybody asks is what a reader would have decoded."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from polars.exceptions import PanicException

from private_topk.pipelines.files import FileInfo, match
from private_topk.pipelines.sources import early as module
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.early import Early, early, read
from private_topk.pipelines.sources.formats import FORMATS, Piece, Read, cut_into_pieces, read_pieces
from private_topk.transforms.refusal import Refusal
from tests.pipelines.support import WRITERS, damage, write

COLUMNS = Columns()
NOTHING = "early reading"


def rows_of(number: int, rows: int = 500) -> list[dict[str, str | None]]:
    return [{"user": None if row % 7 == 3 else f"u{number}-{row % 50}", "item": f"i{row % 9}"} for row in range(rows)]


def some_files(folder: Path, ending: str, count: int = 4) -> list[FileInfo]:
    for number in range(count):
        write(folder / f"rows-{number}{ending}", rows_of(number))
    return match(str(folder / f"rows-*{ending}"))


def apart(files: list[FileInfo]) -> list[list[Piece]]:
    """Every piece a bundle of its own."""
    return [[piece] for piece in cut_into_pieces(files)]


def plain(reads: Iterator[Read]) -> list[tuple[object, ...]]:
    return [(found.block and found.block.to_pydict(), found.left_out, found.stored) for found in reads]


@pytest.fixture
def each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "bundled", lambda pieces: list(enumerate(pieces)))


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert NOTHING not in {thread.name for thread in threading.enumerate()}


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.usefixtures("each_alone")
@pytest.mark.parametrize("ending", sorted(name for name in FORMATS if name.removesuffix(".gz") in WRITERS))
def test_the_same_blocks_come_in_every_format(tmp_path: Path, ending: str) -> None:
    files = some_files(tmp_path, ending)
    wanted = [plain(read_pieces(pieces, COLUMNS)) for pieces in apart(files)]
    assert sum(len(reads) for reads in wanted) > len(files) and any(left for reads in wanted for _, left, _ in reads)
    with early(lambda: files, COLUMNS):
        until(lambda: module._EARLY is not None and not module._EARLY._thread.is_alive())  # all of it
        assert [plain(read(pieces, COLUMNS)) for pieces in apart(files)] == wanted
        assert module._EARLY is not None and (module._EARLY._held, module._EARLY._begun) == (0, {})
    with early(lambda: files, COLUMNS):  # as it comes
        assert [plain(read(pieces, COLUMNS)) for pieces in apart(files)] == wanted
    assert [plain(read(pieces, COLUMNS)) for pieces in apart(files)] == wanted  # nobody reads early


@pytest.mark.usefixtures("each_alone")
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1)])
def test_any_order_is_served_with_no_room_at_all(tmp_path: Path, order: tuple[int, ...]) -> None:
    """A reader that waits for one bundle while another one fills all room would wait for good."""
    files = some_files(tmp_path, ".csv")
    reading = Early(lambda: files, COLUMNS, most=1)
    until(lambda: reading._held > 0)
    for number in order:
        pieces = apart(files)[number]
        taken = reading.take(pieces, COLUMNS)
        assert plain(read_pieces(pieces, COLUMNS) if taken is None else taken) == plain(read_pieces(pieces, COLUMNS))
    reading.close()


@pytest.mark.usefixtures("each_alone")
def test_no_more_is_held_than_there_is_room_for(tmp_path: Path) -> None:
    files = some_files(tmp_path, ".csv", 12)
    sizes = [found.size for pieces in apart(files) for found in read_pieces(pieces, COLUMNS)]
    reading = Early(lambda: files, COLUMNS, most=3 * max(sizes))
    until(lambda: reading._held >= 3 * max(sizes))
    time.sleep(0.05)  # time to go too far
    assert reading._held <= 4 * max(sizes)
    for pieces in apart(files):
        for _ in reading.take(pieces, COLUMNS) or ():
            assert reading._held <= 4 * max(sizes)
    reading.close()


@pytest.mark.usefixtures("each_alone")
def test_what_another_bundle_is_about_is_decoded_by_its_reader(tmp_path: Path) -> None:
    files = some_files(tmp_path, ".csv")
    reading = Early(lambda: files, COLUMNS, most=1)
    until(lambda: reading._held > 0)
    last = apart(files)[-1]
    assert reading.take(last, COLUMNS) is None and tuple(last) not in reading._waiting
    assert reading.take([last[0]._replace(start=1)], COLUMNS) is None
    reading.close()


@pytest.mark.parametrize("change", ["rewritten", "gone", "columns"])
def test_nothing_counts_of_what_has_changed(tmp_path: Path, change: str) -> None:
    files, columns = some_files(tmp_path, ".csv"), COLUMNS
    (pieces,) = [cut_into_pieces(files)]
    reading = Early(lambda: files, COLUMNS)
    until(lambda: not reading._thread.is_alive())
    path = Path(files[2].path)
    if change == "rewritten":  # as long as before
        path.write_bytes(path.read_bytes().replace(b"i1", b"j1"))
        os.utime(path, ns=(1, files[2].written * 1000 + 1000))
    elif change == "gone":
        path.unlink()
    else:
        columns = Columns(user="item", item="user")
    assert reading.take(pieces, columns) is None
    assert reading.take(pieces, COLUMNS) is None, "nothing is left"
    reading.close()


def test_what_is_wrong_is_raised_by_the_reader(tmp_path: Path) -> None:
    damage(write(tmp_path / "rows.avro", rows_of(0)))
    files = match(str(tmp_path / "rows.avro"))
    with pytest.raises(Refusal) as plainly:
        list(read(cut_into_pieces(files), COLUMNS))
    with early(lambda: files, COLUMNS), pytest.raises(Refusal) as before:
        list(read(cut_into_pieces(files), COLUMNS))
    assert str(before.value) == str(plainly.value)


@pytest.mark.parametrize("raised", [PermissionError("no list"), PanicException("in Rust"), SystemExit()])
def test_files_that_cannot_be_listed_are_left_to_others(tmp_path: Path, raised: BaseException) -> None:
    """A panic of a Rust library is no Exception: a reader would wait for good for a thread that has ended of it."""
    files = some_files(tmp_path, ".csv")

    def broken() -> list[FileInfo]:
        raise raised

    with early(broken, COLUMNS):
        assert plain(read(cut_into_pieces(files), COLUMNS)) == plain(read_pieces(cut_into_pieces(files), COLUMNS))


@pytest.mark.usefixtures("each_alone")
def test_closing_ends_it_and_nobody_takes_a_part_for_the_whole(tmp_path: Path) -> None:
    files = some_files(tmp_path, ".csv")
    reading = Early(lambda: files, COLUMNS, most=1)
    until(lambda: reading._held > 0)
    taken = reading.take(apart(files)[0], COLUMNS)
    assert taken is not None
    reading.close()
    assert reading.take(apart(files)[1], COLUMNS) is None
    assert len(next(taken).block or ()) > 0
    with pytest.raises(RuntimeError, match="closed"):
        next(taken)


def test_a_thread_that_waits_for_good_holds_nobody_up() -> None:
    """As where the main thread was interrupted while it had Python's lock of what is being loaded."""
    released = threading.Event()

    def waits() -> list[FileInfo]:
        released.wait(120)
        return []

    reading, begun = Early(waits, COLUMNS), time.monotonic()
    reading.close()
    assert time.monotonic() - begun < 60
    assert reading.take([Piece("rows.csv", 0, 1, 1)], COLUMNS) is None
    released.set()
    reading._thread.join()


def test_whatever_is_raised_inside_ends_it(tmp_path: Path) -> None:
    files = some_files(tmp_path, ".csv")
    with pytest.raises(KeyboardInterrupt), early(lambda: files, COLUMNS):
        raise KeyboardInterrupt
    assert module._EARLY is None


def test_one_thread_decodes_until_somebody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[int] = []
    files = some_files(tmp_path, ".csv")

    def noted(pieces: list[Piece], columns: Columns) -> Iterator[Read]:
        for found in read_pieces(pieces, columns):
            beside.append(module.BESIDE.get())
            yield found

    monkeypatch.setattr(module, "read_pieces", noted)
    monkeypatch.setattr(module, "bundled", lambda pieces: list(enumerate(pieces)))
    reading = Early(lambda: files, COLUMNS, most=1)
    until(lambda: reading._held > 0)
    assert set(beside) == {0}
    for pieces in apart(files):
        for _ in reading.take(pieces, COLUMNS) or ():
            pass
    reading.close()
    assert beside[-1] == module.DECODERS
