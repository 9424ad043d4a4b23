"""What is said while a run goes on: how far it has read, and of a stream each window that is published.

Which windows there are and when they close is declared, hence public, and so is that each is published. Of the input
its share of bytes is told. Nothing else is said: no count, no item.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO
from zoneinfo import ZoneInfo

from private_topk.pipelines.live import LiveRun
from private_topk.pipelines.logs import JsonLines
from private_topk.pipelines.published import existing_outputs
from private_topk.pipelines.report import Report
from private_topk.runners import Launch, Line
from private_topk.transforms.completeness import IncompleteDataError
from private_topk.transforms.errors import printable
from private_topk.transforms.windows import Period, from_microseconds

__all__ = ["Announcer", "followed", "progress"]

_PATIENCE = 2.0
"""Seconds before how far a run has come is shown."""
_EVERY = 10.0
"""Seconds between two lines where each is kept."""

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
        self._zone = ZoneInfo(period.zone)
        self._told: dict[str, float] = {}
        self._left_before: dict[str, float] = {}

    def start_after(self, seen: Mapping[str, float], own: Collection[str] = ()) -> None:
        """Say nothing of what an earlier run has left, unless it is published again.

        Args:
            own: the windows that this very release has published: they stand, and are not published again.
        """
        self._told = dict(seen)
        self._left_before = {label: at for label, at in seen.items() if label not in own}

    @property
    def has_told_all(self) -> bool:
        """Whether every window is published by this release: what another one has left does not count."""
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
        for label in new:
            self._say_published(label, seen[label] or time.time())
        self._told |= {label: seen[label] for label in new}
        if new:
            self.say_what_is_next()

    def _say_published(self, label: str, written: float) -> None:
        facts: dict[str, object] = {"event": "published", "window": label, "place": self._place}
        text = f"published {label} to {printable(self._place)}"
        if self._live:
            lag = facts["lag_seconds"] = round(max(written - self._closing[label], 0.0), 1)
            text += f", {lag:.1f} s after it closed"
        self._say(Line(text, **facts))

    def say_what_is_next(self) -> None:
        """How many windows are left, and when the next one closes; of none nothing."""
        left = [label for label in self._closing if label not in self._told]
        if left:
            moment = from_microseconds(round(self._closing[left[0]] * 1e6)).astimezone(self._zone)
            closes, whole = moment.isoformat(timespec="seconds"), len(self._closing)
            clock = "" if self._live else " by the clock of the source"
            self._say(Line(f"{len(left):,} of {whole:,} windows are left; the next closes at {closes}{clock}",
                           event="waiting", next_window=left[0], closes=closes, left=len(left), of=whole))  # fmt: skip


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


def _own_windows(report: Report) -> set[str]:
    """The windows that this very release has published before, as files: whoever writes them again keeps them."""
    period, release = report.spec.period, report.spec.release
    existing = None if period is None or release.key.in_memory else existing_outputs(report.sink, period)
    if period is None or existing is None:
        return set()
    parts = len(existing) // len(period)
    own = [its is not None and its.release == release.id and its.windows > 0 for its in existing]
    return {window.label() for number, window in enumerate(period.windows())
            if all(own[number * parts : (number + 1) * parts])}  # fmt: skip


@contextmanager
def followed(report: Report, launch: Launch, live: LiveRun, say: Say | None) -> Iterator[None]:
    """Look at the place of the rankings while a stream runs, and let the runner know when every window is there.

    Every second, every ten where the place is not on this machine. Places that cannot be read back are followed by
    what workers in this process note; of workers elsewhere nothing is heard.

    Args:
        say: takes one line; None says nothing.

    Raises:
        IncompleteDataError: the job has ended well, and a window is not seen in a place that is no files. (At
            files `check_all_is_out` looks.) Where nobody can read the place and no worker here notes anything, nothing
            is known.
    """
    period, sink = report.spec.period, report.sink
    if period is None or report.source.bounded or launch.deferred:
        yield
        return
    following = sink.following(period, report.spec.release)
    groups = report.spec.top_k.groups
    seen = _WholeWindows(following or live.newly_published, 1 if groups is None else groups.size)
    announcer = Announcer(period, sink.place, getattr(report.source, "clock", "log") != "event", say or _silent)
    launch.answered.clear()  # a launch may be used again
    announcer.start_after(seen(), _own_windows(report))
    announcer.say_what_is_next()

    def look() -> None:
        announcer.look(seen())
        if announcer.has_told_all:
            launch.answered.set()

    with _looking(look, 10.0 if "://" in sink.place and sink.files(period) else 1.0):
        yield
    if sink.files(period) is None and (following or announcer.told):
        _look_on(look, announcer)
        if not announcer.has_told_all:
            raise IncompleteDataError(f"the job ended as if it were whole, and of {len(period):,} windows "
                                      f"{announcer.told:,} were seen to be published to {sink.place}")  # fmt: skip


@contextmanager
def _looking(look: Callable[[], None], every: float) -> Iterator[None]:
    """Look every so many seconds, on a thread of its own, and once more at the end."""
    done = threading.Event()

    def follow() -> None:
        while not done.wait(every):
            look()

    follower = threading.Thread(target=follow, name="announcer", daemon=True)
    follower.start()
    try:
        yield
    finally:
        done.set()
        follower.join()
        look()


def _look_on(look: Callable[[], None], announcer: Announcer) -> None:
    """What was published may be there to be read a little later."""
    deadline = time.monotonic() + _LAST_LOOKS
    while not announcer.has_told_all and time.monotonic() < deadline:
        time.sleep(0.1)
        look()


def _silent(line: str) -> None:
    pass


@contextmanager
def progress(live: LiveRun) -> Iterator[None]:
    """Show how much of the input is read on the terminal, from the third second on, or as JSON every ten. Elsewhere
    nothing.
    """
    terminal = sys.stderr
    as_lines = isinstance(terminal, JsonLines)
    if not (as_lines or terminal.isatty()):
        yield
        return
    done = threading.Event()
    ticker = threading.Thread(target=_tell if as_lines else _draw, args=(live, done, terminal), daemon=True)
    ticker.start()
    try:
        yield
    finally:
        done.set()
        ticker.join()


def _draw(live: LiveRun, done: threading.Event, terminal: TextIO) -> None:
    if done.wait(_PATIENCE):
        return
    while not done.wait(0.2):
        stage, share = _stage(live)
        bar = "#" * round(30 * share)
        print(f"\r{stage:<22}[{bar:<30}] {share:4.0%}", end="", file=terminal, flush=True)
    print("\r" + " " * 62 + "\r", end="", file=terminal, flush=True)


def _tell(live: LiveRun, done: threading.Event, stream: TextIO) -> None:
    while not done.wait(_EVERY):
        stage, share = _stage(live)
        print(f"{stage}: {share:.0%}", file=stream)


def _stage(live: LiveRun) -> tuple[str, float]:
    return ("reading" if live.share_read < 0.999 else "counting and ranking"), live.share_read
