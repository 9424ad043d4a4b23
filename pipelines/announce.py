"""Follows a stream while it runs: says of each window when it is published, and when the next one closes.

Which windows there are and when they close is declared, hence public, and so is that each is published. Nothing else is
said: no count, no item.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from private_topk.pipelines.notes import NOTES
from private_topk.pipelines.report import Report
from private_topk.runners import Launch
from private_topk.transforms.guard import LostPartError
from private_topk.transforms.windows import Period, from_microseconds

__all__ = ["Announcer", "followed"]

_ONE_BY_ONE = 5
"""So many windows that are found together are told each by itself; more of them in one line."""

_LAST_LOOKS = 10.0
"""In seconds: how long a job that has ended is given until what it published can be read back."""

Say = Callable[[str], None]


class Announcer:
    """Tells of each window once.

    Args:
        place: where rankings go, as the operator named it.
        live: the source's clock is the present, so that a lag has a meaning.
        say: takes one line.
    """

    def __init__(self, period: Period, place: str, live: bool, say: Say) -> None:
        self._closing = {
            window.label(): closing / 1e6
            for window, closing in zip(period.windows(), period.closing.tolist(), strict=True)
        }
        self._place, self._live, self._say = place, live, say
        self._told: dict[str, float] = {}
        self._left_before: dict[str, float] = {}

    def start_after(self, seen: Mapping[str, float]) -> None:
        """Say nothing of what an earlier run has left, unless it is published again."""
        self._told, self._left_before = dict(seen), dict(seen)

    @property
    def has_told_all(self) -> bool:
        """Whether this run has published every window: what an earlier one has left does not count."""
        return all(self._told.get(label, -1.0) > self._left_before.get(label, -1.0) for label in self._closing)

    @property
    def told(self) -> int:
        """How many windows were told."""
        return len(self._told)

    def look(self, seen: Mapping[str, float]) -> None:
        """Say what is new.

        Args:
            seen: when each window was published, in seconds since 1970, by its label; 0 where nobody knows when.
        """
        new = [label for label in self._closing if seen.get(label, -1.0) > self._told.get(label, -1.0)]
        if not new:
            return
        self._told |= {label: seen[label] for label in new}
        if len(new) <= _ONE_BY_ONE:
            for label in new:
                self._say(f"published {label} to {self._place}{self._lag(label, seen[label] or time.time())}")
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


class _WholeWindows:
    """Tells of a window when the rankings of all of its groups are there, at a place that tells of each by itself."""

    def __init__(self, look: Callable[[], Mapping[str, float]], groups: int) -> None:
        self._look, self._groups = look, groups
        self._there: dict[str, set[str]] = {}

    def __call__(self) -> dict[str, float]:
        found = {}
        for label, at in self._look().items():
            window, bar, group = label.partition("|")
            there = self._there.setdefault(window, set())
            if bar and (group in there or len(there) == self._groups):
                continue
            there.add(group)
            if not bar or len(there) == self._groups:
                found[window] = at
        return found


@contextmanager
def followed(report: Report, launch: Launch, say: Say | None) -> Iterator[None]:
    """Look at the place of the rankings while a stream runs, and let the runner know when every window is there.

    Every second, every ten where the place is not on this machine. Places that cannot be read back are followed by
    what workers in this process note; of workers elsewhere nothing is heard.

    Args:
        say: takes one line; None says nothing.

    Raises:
        LostPartError: the job has ended well, and a window is not seen in a place that is no files. (Files are looked
            at in `outcome`.) Where nobody can read the place and no worker here notes anything, nothing is known.
    """
    period, sink = report.question.period, report.sink
    if period is None or report.source.bounded or launch.deferred:
        yield
        return
    following = sink.following(period, report.question.release)
    groups = report.question.selection.groups
    seen = _WholeWindows(following or NOTES.taken, 1 if groups is None else groups.size)
    announcer = Announcer(period, sink.place, getattr(report.source, "clock", "log") != "event", say or _silent)
    NOTES.taken()
    launch.answered.clear()  # a launch may be used again
    announcer.start_after(seen())
    done = threading.Event()

    def look() -> None:
        announcer.look(seen())
        if announcer.has_told_all:
            launch.answered.set()

    def follow() -> None:
        while not done.wait(10.0 if "://" in sink.place and sink.files(period) else 1.0):
            look()

    follower = threading.Thread(target=follow, name="announcer", daemon=True)
    follower.start()
    try:
        yield
    finally:
        done.set()
        follower.join()
        look()
    if sink.files(period) is None and (following or announcer.told):
        _look_on(look, announcer)
        if not announcer.has_told_all:
            raise LostPartError(f"the job ended as if it were whole, and of {len(period):,} windows {announcer.told:,} "
                                f"were seen to be published to {sink.place}")  # fmt: skip


def _look_on(look: Callable[[], None], announcer: Announcer) -> None:
    """What was published may be there to be read a little later."""
    deadline = time.monotonic() + _LAST_LOOKS
    while not announcer.has_told_all and time.monotonic() < deadline:
        time.sleep(0.1)
        look()


def _silent(line: str) -> None:
    pass
