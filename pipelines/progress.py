"""The progress of a run: each published window of a stream, and how much of a batch is read.

Which windows there are and when they close is declared, hence public, and so is that each is published. Of the input
only the share of bytes read is told: no count and no item. Every message must be true.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from zoneinfo import ZoneInfo

from private_topk.pipelines.files import replace_file
from private_topk.pipelines.process import JsonLines, status_of
from private_topk.pipelines.report import Report
from private_topk.pipelines.run_state import RunState
from private_topk.runners import Launch, Line
from private_topk.transforms.errors import IncompleteDataError, printable
from private_topk.transforms.windows import Period, from_microseconds, utc_text

_PATIENCE = 2.0
"""Seconds before the progress of a run is shown."""

_EVERY = 10.0
"""Seconds between two lines where each is kept."""

_ALIVE = timedelta(minutes=1)
"""A health file that was written since belongs to a launcher which lives, if it does not say that it ended."""

_NOTHING_BEGAN = {"windows": None, "published": None, "next_window": None, "next_closes": None}

_LAST_LOOKS = 10.0
"""Seconds after the end of a job within which its last rankings must become readable."""

HAVE_CLOSED = (
    "windows have closed: rows count only if they arrived before that. `private-topk run` ranks files that were "
    "written later"
)
"""What follows from it for a stream, behind how many have."""

Say = Callable[[str], None]


class Health:
    """The health file of a stream: its progress as JSON, replaced as a whole every second; and how it ended.

    Whatever ends a launch, its exit status is there then, also if no stream began. Before its stream has begun it does
    not write over a file that is none, nor over that of another launcher which lives, nor make a folder.
    """

    def __init__(self, path: str) -> None:
        self._path, self._facts = path, dict[str, object]()
        self._kept = os.path.exists(path) or not os.path.isdir(os.path.dirname(path) or ".")
        with suppress(OSError, ValueError, TypeError, KeyError), open(path, "rb") as last:
            found = json.load(last)
            silent = datetime.now(UTC) - datetime.fromisoformat(found["time"])
            self._kept = found["ended"] is None and silent < _ALIVE

    def write(self, facts: Mapping[str, object], ended: int | None = None) -> None:
        self._facts, self._kept = {**facts}, False
        told = {"time": utc_text(datetime.now(UTC), "seconds"), **facts, "ended": ended}
        with suppress(OSError):  # a full disk shows as a stale file
            replace_file(self._path, json.dumps(told).encode())

    @contextmanager
    def ending_told(self) -> Iterator[None]:
        """Whatever ends what is inside, the file says with which exit status."""
        status = 0
        try:
            yield
        except BaseException as error:
            status = status_of(error)
            raise
        finally:
            if not self._kept:
                self.write(self._facts or _NOTHING_BEGAN, status)


class Announcer:
    """Announces each published window of a stream, once.

    Args:
        uri: where rankings go, as the operator named it.
        live: the source's clock is the present, so that a lag has a meaning.
        say: takes one line.
        before: what this release had published when the run began: it is not announced, unless it is published again.
    """

    def __init__(
        self,
        period: Period,
        uri: str,
        live: bool,
        say: Say,
        before: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._closing = {
            window.label(): closing / 1e6
            for window, closing in zip(period.windows(), period.closing.tolist(), strict=True)
        }
        self._uri, self._live, self._say = uri, live, say
        self._zone = ZoneInfo(period.zone)
        self._published = dict(before)

    @property
    def has_all(self) -> bool:
        return not self._left()

    @property
    def size(self) -> int:
        return len(self._published)

    def announce(self, published: Mapping[str, float]) -> None:
        """Announce what is new.

        Args:
            published: when each window was published, in seconds since 1970, by its label; 0 if unknown.
        """
        new = [label for label in self._closing if published.get(label, -1.0) > self._published.get(label, -1.0)]
        for label in new:
            facts: dict[str, object] = {"event": "published", "window": label, "output": self._uri}
            text = f"published {label} to {printable(self._uri)}"
            if self._live:
                at = published[label] or time.time()
                lag = facts["lag_seconds"] = round(max(at - self._closing[label], 0.0), 1)
                text += f", {lag:.1f} s after it closed"
            self._say(Line(text, **facts))
        self._published |= {label: published[label] for label in new}
        if new:
            self.say_what_is_next()

    def health(self) -> dict[str, object]:
        left = self._left()
        return {
            "windows": len(self._closing),
            "published": len(self._closing) - len(left),
            "next_window": left[0] if left else None,
            "next_closes": self._closes(left[0]) if left else None,
        }

    def _left(self) -> list[str]:
        return [label for label in self._closing if label not in self._published]

    def _closes(self, label: str) -> str:
        moment = from_microseconds(round(self._closing[label] * 1e6)).astimezone(self._zone)
        return utc_text(moment, "seconds")

    def say_what_is_next(self) -> None:
        """Announce how many windows are left, and when the next one closes; nothing if none is left."""
        left = self._left()
        if left:
            closes, total = self._closes(left[0]), len(self._closing)
            are = "is" if len(left) == 1 else "are"
            comes = "closed" if self._live and self._closing[left[0]] < time.time() else "closes"
            clock = "" if self._live else " by the clock of the source"
            if self._live and max(self._closing.values()) < time.time():
                clock = f". All {HAVE_CLOSED}"
            self._say(
                Line(
                    f"{len(left):,} of {total:,} windows {are} left; the next {comes} at {closes}{clock}",
                    event="waiting",
                    next_window=left[0],
                    closes=closes,
                    left=len(left),
                    of=total,
                )
            )


def _whole(read_back: Callable[[], Mapping[str, float]], groups: int) -> Callable[[], dict[str, float]]:
    """A function that looks for published windows, from one that looks for the rankings of single groups: a window is
    published when the rankings of all of its groups are.
    """
    known: dict[str, set[str]] = {}

    def look_at_windows() -> dict[str, float]:
        published = {}
        for label, at in read_back().items():
            window, bar, group = label.partition("|")
            of_it = known.setdefault(window, set())
            if bar and (group in of_it or len(of_it) == groups):
                continue
            of_it.add(group)
            if not bar or len(of_it) == groups:
                published[window] = at
        return published

    return look_at_windows


@contextmanager
def followed(
    report: Report, launch: Launch, live: RunState, say: Say | None, health: Health | None = None
) -> Iterator[None]:
    """Watch the place of the rankings while a stream runs, and notify the runner when every window is published.

    It looks every second, every ten if the place is not on this machine. For places that cannot be read back, workers
    in this process record what they publish; workers elsewhere do not.

    Args:
        say: takes one line; None prints nothing.
        health: is written after every look; it goes stale if the process that launched the job is gone.

    Raises:
        IncompleteDataError: the job has ended without an error, and a window is missing in a place without files. (For
            files see `check_all_published`.) Nothing is known if the place cannot be read and no worker here records
            anything.
    """
    period, sink = report.question.period, report.sink
    if period is None or report.source.bounded or launch.deferred:
        yield
        return
    following = sink.following(period, report.question.release)
    groups = report.question.top_k.groups
    published = _whole(following or live.newly_published, 1 if groups is None else groups.size)
    launch.answered.clear()  # a launch may be used again
    announcer = Announcer(period, sink.uri, report.source.closes_by_arrivals, say or (lambda line: None), published())
    announcer.say_what_is_next()

    def announce_new() -> None:
        announcer.announce(published())
        if health is not None:
            health.write({**announcer.health(), **launch.job})
        if announcer.has_all:
            launch.answered.set()

    every = 10.0 if "://" in sink.uri and sink.files(period) else 1.0

    def look_on(done: threading.Event) -> None:
        while not done.wait(every):
            announce_new()

    try:
        with _meanwhile(look_on):
            yield
    finally:
        announce_new()
    if sink.files(period) is None and (following or announcer.size):
        deadline = time.monotonic() + _LAST_LOOKS  # what was published may become readable a little later
        while not announcer.has_all and time.monotonic() < deadline:
            time.sleep(0.1)
            announce_new()
        if not announcer.has_all:
            raise IncompleteDataError(
                f"the job ended without an error, but of {len(period):,} windows "
                f"{announcer.size:,} were seen to be published to {sink.uri}"
            )


@contextmanager
def progress(live: RunState) -> Iterator[None]:
    """Show on a terminal how much of the input is read, from the third second on; as JSON, every ten seconds; elsewhere
    not at all.
    """
    terminal = sys.stderr

    def stage() -> tuple[str, float]:
        return ("reading" if live.share_read < 0.999 else "counting and ranking"), live.share_read

    def draw(done: threading.Event) -> None:
        if done.wait(_PATIENCE):
            return
        while not done.wait(0.2):
            name, share = stage()
            bar = "#" * round(30 * share)
            print(f"\r{name:<22}[{bar:<30}] {share:4.0%}", end="", file=terminal, flush=True)
        print("\r" + " " * 62 + "\r", end="", file=terminal, flush=True)

    def say(done: threading.Event) -> None:
        while not done.wait(_EVERY):
            name, share = stage()
            print(f"{name}: {share:.0%}", file=terminal)

    if isinstance(terminal, JsonLines):
        with _meanwhile(say):
            yield
    elif terminal.isatty():
        with _meanwhile(draw):
            yield
    else:
        yield


@contextmanager
def _meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run some work on a thread of its own; its event is set when the block ends."""
    done = threading.Event()
    worker = threading.Thread(target=work, args=(done,), name="announcer", daemon=True)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()
