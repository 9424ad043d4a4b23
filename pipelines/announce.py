"""Says what a stream does while it runs: a line per published window, and when the next one closes.

Which windows there are and when they close is declared, hence public, and so is that each is published. Nothing else is
said: no count, no item.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from apache_beam.io.filesystems import FileSystems

from private_topk.runners.console import say as say_on_stderr
from private_topk.transforms.windows import Period, from_microseconds

__all__ = ["Announcer", "announced"]

_ONE_BY_ONE = 5
"""So many windows that are found together are told each by itself; more of them in one line."""


class Announcer:
    """Tells of each window once.

    Args:
        place: where rankings go, as the operator named it.
        live: the source's clock is the present, so that a lag has a meaning.
        say: takes one line.
    """

    def __init__(self, period: Period, place: str, live: bool, say: Callable[[str], None] = say_on_stderr) -> None:
        self._closing = {
            window.label(): closing / 1e6
            for window, closing in zip(period.windows(), period.closing.tolist(), strict=True)
        }
        self._place, self._live, self._say = place, live, say
        self._told: dict[str, float] = {}

    def start_after(self, files: Mapping[str, float]) -> None:
        """Say nothing of what an earlier run has left, unless it is published again."""
        self._told = dict(files)

    def look(self, files: Mapping[str, float]) -> None:
        """Say what is new.

        Args:
            files: when each was written, in seconds since 1970, by its window's label.
        """
        new = [label for label in self._closing if files.get(label, 0.0) > self._told.get(label, 0.0)]
        if not new:
            return
        self._told |= {label: files[label] for label in new}
        if len(new) <= _ONE_BY_ONE:
            for label in new:
                self._say(f"published {label} to {self._place}{self._lag(label, files[label])}")
        else:
            self._say(f"published {len(new):,} windows, {new[0]} to {new[-1]}, to {self._place}")
        self._say_what_is_next()

    def _lag(self, label: str, written: float) -> str:
        return f", {max(written - self._closing[label], 0.0):.1f} s after it closed" if self._live else ""

    def _say_what_is_next(self) -> None:
        left = [label for label in self._closing if label not in self._told]
        if left:
            closes = from_microseconds(round(self._closing[left[0]] * 1e6)).isoformat(timespec="seconds")
            clock = "" if self._live else " by the clock of the source"
            self._say(f"{len(left):,} of {len(self._closing):,} windows are left; the next closes at {closes}{clock}")


@contextmanager
def announced(period: Period, folder: str, ending: str, live: bool) -> Iterator[None]:
    """Look into the folder of a report while it runs: every second, every ten where the folder is not on this machine.

    Args:
        ending: of the files, such as .avro.
        live: see `Announcer`.
    """
    announcer = Announcer(period, folder, live)
    announcer.start_after(_files(folder, ending))
    done = threading.Event()

    def follow() -> None:
        while not done.wait(10.0 if "://" in folder else 1.0):
            announcer.look(_files(folder, ending))

    follower = threading.Thread(target=follow, name="announcer", daemon=True)
    follower.start()
    try:
        yield
    finally:
        done.set()
        follower.join()
        announcer.look(_files(folder, ending))


def _files(folder: str, ending: str) -> dict[str, float]:
    """The labels of the windows that are published, and when; nothing while the folder cannot be reached."""
    try:
        found = FileSystems.match([f"{folder.rstrip('/')}/*{ending}"])[0].metadata_list
    except Exception:  # the report itself says what is wrong with its folder
        return {}
    return {file.path.rpartition("/")[2].removesuffix(ending): file.last_updated_in_seconds or time.time()
            for file in found}  # fmt: skip
