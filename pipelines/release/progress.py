"""What is published of a report, and the messages about it: while it runs, and at its end.

Which windows there are and when they close is declared, hence public, and so is that each is published. Of the input
only the share of bytes read is told: no count and no item. Every message must be true.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from private_topk.pipelines.files import exists, refuse_special
from private_topk.pipelines.process import JsonLines, RunFailed
from private_topk.pipelines.release.manifest import Manifest
from private_topk.pipelines.release.store import manifest_path, unchanged_pair_at
from private_topk.pipelines.report import Report
from private_topk.pipelines.run_state import RunState
from private_topk.pipelines.sinks.sink import Sink, about_the_output
from private_topk.runners import Launch, Line
from private_topk.transforms.completeness import IncompleteDataError
from private_topk.transforms.errors import ANOTHER_RELEASE, InvalidArgument, printable, verbatim
from private_topk.transforms.windows import Period, from_microseconds, utc_text

if TYPE_CHECKING:  # it loads a database, which a run without a ledger does without
    from private_topk.pipelines.budget.ledger import ChargeReceipt


_PATIENCE = 2.0
"""Seconds before the progress of a run is shown."""

_EVERY = 10.0
"""Seconds between two lines where each is kept."""

_LAST_LOOKS = 10.0
"""Seconds after the end of a job within which its last rankings must become readable."""

Say = Callable[[str], None]


class ExistingOutput(NamedTuple):
    """An output that exists at a path.

    Args:
        release: its id; empty where no manifest says so.
        windows: how many windows it publishes, of all groups where these are ranked; 0 where the ranking or its
            manifest is missing.
    """

    path: str
    release: str
    windows: int


def existing_outputs(sink: Sink, period: Period | None) -> list[ExistingOutput | None] | None:
    """The existing output at each of a sink's files for a period, None where there is none; None for a sink without
    files. Raises InvalidArgument if that cannot be determined.
    """
    paths = sink.files(period)
    with about_the_output(sink.uri):
        return None if paths is None else list(_look(paths))


def _look(paths: list[str]) -> Iterator[ExistingOutput | None]:
    for path in paths:
        for uri in filter(exists, (manifest_path(path), path)):
            refuse_special(uri, "output")
        ranking, manifest = unchanged_pair_at(path)
        if manifest is None:
            yield ExistingOutput(path, "", 0) if exists(path) or exists(manifest_path(path)) else None
        else:
            yield ExistingOutput(path, str(manifest.report), 0 if ranking is None else _whole_windows(manifest))


def _whole_windows(manifest: Manifest) -> int:
    """How many windows have a ranking, of every group where groups are ranked."""
    rankings = Counter((window.start, window.end) for window in manifest.windows)
    groups = 1 if manifest.groups is None else manifest.groups.number or 1
    return sum(number >= groups for number in rankings.values())


def count_published(report: Report) -> int | None:
    """How many windows of this same release are published at its place; None if unknown."""
    with suppress(InvalidArgument):
        existing, release = existing_outputs(report.sink, report.question.period), report.question.release.id
        return None if existing is None else sum(each.windows for each in existing if each and each.release == release)
    return None


def what_is_published(report: Report, again: str, before: int | None = None) -> str:
    """One or two sentences on a run that has ended early: what is published, and how to go on.

    Args:
        again: how to run the same report again, in the words of the caller's interface; empty where that cannot help.
        before: how many windows of this same release were published before the run.
    """
    go_on = f". To finish this same release, {again}" if again else ""
    if report.question.release.key.in_memory:
        go_on = ". Its random key is gone, so a new run is a new release of all that it publishes"
    uri, out, windows = report.sink.uri, count_published(report), _windows_of(report)
    if out is None:
        return f"what was sent to {uri} by then stays there{go_on}"
    if out == 0:
        return f"nothing is published{go_on}"
    stood = ""
    if before:
        stood = ", as before this run" if before >= out else f", {before:,} of these windows as before this run"
    if out == windows:
        return f"all is published in {uri}{stood}{go_on}"
    return f"{out:,} of {windows:,} windows are published in {uri}{stood}, {windows - out:,} are not{go_on}"


def check_all_published(report: Report, again: str, before: int | None = None) -> None:
    """Raise RunFailed if a job has ended without an error and yet a window is not published: the last check against
    silent loss.

    Incomplete counts are refused before the draw. But if a runner drops a whole window, or a ranking on its way to the
    sink, no code runs that could notice. For places that cannot be read the runner is trusted.
    """
    out = count_published(report)
    if out is not None and out < _windows_of(report):
        lost = IncompleteDataError("the job ended without an error, but the runner lost windows")
        raise RunFailed(what_is_published(report, again, before)) from lost


def check_repeat(report: Report, receipt: ChargeReceipt) -> None:
    """Raise InvalidArgument if running a charged stream again could give a second answer for the charge of the first.

    Bounded inputs are identified by their contents, and give the same ranking again, anywhere. The rows of a stream may
    have changed: running it again is the same release only if it completes its output, where published windows are
    kept.
    """
    if receipt.outcome is None or report.source.bounded:
        return
    uri, out = verbatim(report.sink.uri), count_published(report)
    remedy = ANOTHER_RELEASE
    if out is None:
        raise InvalidArgument(
            "output",
            f"{uri} cannot be asked which windows of {verbatim(report.question.release.id)} it "
            "has, and a stream that is run again may hold other rows",
            remedy,
        )
    if receipt.outcome == "released" and out < _windows_of(report):
        raise InvalidArgument(
            "output",
            f"{uri} has {out:,} of the {_windows_of(report):,} windows that "
            f"{verbatim(report.question.release.id)} had published, and a stream that is run again may hold "
            "other rows",
            f"bring the others back, or {remedy}",
        )


def _windows_of(report: Report) -> int:
    return 1 if report.question.period is None else len(report.question.period)


class Announcer:
    """Announces each published window of a stream, once.

    Args:
        uri: where rankings go, as the operator named it.
        live: the source's clock is the present, so that a lag has a meaning.
        say: takes one line.
    """

    def __init__(self, period: Period, uri: str, live: bool, say: Say) -> None:
        self._closing = {
            window.label(): closing / 1e6
            for window, closing in zip(period.windows(), period.closing.tolist(), strict=True)
        }
        self._uri, self._live, self._say = uri, live, say
        self._zone = ZoneInfo(period.zone)
        self._published: dict[str, float] = {}
        self._of_others: dict[str, float] = {}

    def start_after(self, published: Mapping[str, float], own: Collection[str] = ()) -> None:
        """Do not announce what an earlier run has published, unless it is published again.

        Args:
            own: the windows that this same release has published: they are kept, and not published again.
        """
        self._published = dict(published)
        self._of_others = {label: at for label, at in published.items() if label not in own}

    @property
    def has_all(self) -> bool:
        """Whether every window is published by this release; output of another release does not count."""
        return all(self._published.get(label, -1.0) > self._of_others.get(label, -1.0) for label in self._closing)

    @property
    def size(self) -> int:
        """How many windows are published."""
        return len(self._published)

    def look(self, published: Mapping[str, float]) -> None:
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

    def write_health(self, path: str) -> None:
        """Write the progress of the stream as JSON, replacing the file as a whole."""
        left = self._left()
        facts = {
            "time": utc_text(datetime.now(UTC), "seconds"),
            "windows": len(self._closing),
            "published": len(self._closing) - len(left),
            "next_window": left[0] if left else None,
            "next_closes": self._closes(left[0]) if left else None,
        }
        with suppress(OSError), open(f"{path}.tmp", "w", encoding="utf-8") as sink:  # a full disk shows as a stale file
            json.dump(facts, sink)
        with suppress(OSError):
            os.replace(f"{path}.tmp", path)

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
            clock = "" if self._live else " by the clock of the source"
            self._say(
                Line(
                    f"{len(left):,} of {total:,} windows are left; the next closes at {closes}{clock}",
                    event="waiting",
                    next_window=left[0],
                    closes=closes,
                    left=len(left),
                    of=total,
                )
            )


def _whole(look: Callable[[], Mapping[str, float]], groups: int) -> Callable[[], dict[str, float]]:
    """A function that looks for published windows, from one that looks for the rankings of single groups: a window is
    published when the rankings of all of its groups are.
    """
    known: dict[str, set[str]] = {}

    def look_at_windows() -> dict[str, float]:
        published = {}
        for label, at in look().items():
            window, bar, group = label.partition("|")
            of_it = known.setdefault(window, set())
            if bar and (group in of_it or len(of_it) == groups):
                continue
            of_it.add(group)
            if not bar or len(of_it) == groups:
                published[window] = at
        return published

    return look_at_windows


def _own_windows(report: Report) -> set[str]:
    """The windows that this same release has published before, as files: these are kept when it runs again."""
    period, release = report.question.period, report.question.release
    existing = None if period is None or release.key.in_memory else existing_outputs(report.sink, period)
    if period is None or existing is None:
        return set()
    return {
        window.label()
        for window, each in zip(period.windows(), existing, strict=True)
        if each is not None and each.release == release.id and each.windows
    }


@contextmanager
def followed(
    report: Report, launch: Launch, live: RunState, say: Say | None, health_file: str | None = None
) -> Iterator[None]:
    """Watch the place of the rankings while a stream runs, and notify the runner when every window is published.

    It looks every second, every ten if the place is not on this machine. For places that cannot be read back, workers
    in this process record what they publish; workers elsewhere do not.

    Args:
        say: takes one line; None prints nothing.
        health_file: is written after every look; it goes stale if the process that launched the job is gone.

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
    is_present = getattr(report.source, "clock", "log") != "event"
    announcer = Announcer(period, sink.uri, is_present, say or (lambda line: None))
    launch.answered.clear()  # a launch may be used again
    announcer.start_after(published(), _own_windows(report))
    announcer.say_what_is_next()

    def look() -> None:
        announcer.look(published())
        if health_file is not None:
            announcer.write_health(health_file)
        if announcer.has_all:
            launch.answered.set()

    every = 10.0 if "://" in sink.uri and sink.files(period) else 1.0

    def look_on(done: threading.Event) -> None:
        while not done.wait(every):
            look()

    try:
        with _meanwhile(look_on):
            yield
    finally:
        look()
    if sink.files(period) is None and (following or announcer.size):
        deadline = time.monotonic() + _LAST_LOOKS  # what was published may become readable a little later
        while not announcer.has_all and time.monotonic() < deadline:
            time.sleep(0.1)
            look()
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
