"""What is published of a report: the outputs that exist, what a run has added, and what is said of it.

Every word that is said must be true.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from apache_beam.runners.runner import PipelineResult

from private_topk.pipelines.files import exists, open_file, refuse_special
from private_topk.pipelines.live import LiveRun
from private_topk.pipelines.publishing import manifest_path, refuse_changed
from private_topk.pipelines.report import Report
from private_topk.pipelines.sinks.sink import Sink, about_the_output
from private_topk.pipelines.unfinished import Unfinished, heard
from private_topk.runners import Launch
from private_topk.transforms.completeness import IncompleteDataError
from private_topk.transforms.errors import Refusal, refused, verbatim
from private_topk.transforms.windows import Period

if TYPE_CHECKING:  # it loads a database, which a run without a ledger does without
    from private_topk.pipelines.budget.ledger import Receipt

__all__ = [
    "ExistingOutput",
    "check_all_is_out",
    "check_repeat",
    "existing_outputs",
    "interruption_in",
    "loss_in",
    "refusal_in",
    "what_is_out",
    "whole_windows",
    "windows_before",
]

_LOSS = re.compile(r"(?:^|\n)(?:[\w.]*\.)?IncompleteDataError: (.+?)(?: \[while running [^\n]*)?(?:\n|$)")
_IN_TRACEBACK = re.compile(r"(?:^|\n)(?:[\w.]*\.)?Refusal: (.+?)(?: \[while running [^\n]*)?(?:\n|$)")


class ExistingOutput(NamedTuple):
    """An output that exists: what stands at a path.

    Args:
        release: its id; empty where no manifest says so.
        windows: how many windows it publishes, of all groups where these are ranked; 0 where the ranking or its
            manifest is missing.
        parts: how many such files a window has: more than one where every group has a folder of its own.
    """

    path: str
    release: str
    windows: int
    parts: int = 1


def existing_outputs(sink: Sink, period: Period | None) -> list[ExistingOutput | None] | None:
    """What stands at each of a sink's files for a period, None for nothing. None for a sink that is no files.

    Raises Refusal where nobody can tell.
    """
    paths = sink.files(period)
    with about_the_output(sink.place):
        return None if paths is None else list(_look(paths))


def whole_windows(existing: Iterable[ExistingOutput]) -> int:
    """How many windows are published, with all of their parts."""
    found = list(existing)
    parts = Counter(its.path.rpartition("/")[2] for its in found if its.parts > 1 and its.windows)
    together = max((its.parts for its in found), default=1)
    return sum(its.windows for its in found if its.parts == 1) + sum(some >= together for some in parts.values())


def _look(paths: list[str]) -> Iterator[ExistingOutput | None]:
    for path in paths:
        manifest = manifest_path(path)
        described, written = exists(manifest), exists(path)
        if not described:
            yield ExistingOutput(path, "", 0) if written else None
            continue
        for place in (path, manifest):
            refuse_special(place, "output")
        if written:
            refuse_changed(path)
        with open_file(manifest) as source:
            try:
                found = json.load(source)
                parts = found["groups"]["size"] if "partition" in found else 1
                windows = len(found["windows"]) if parts > 1 else _whole_windows(found)
                yield ExistingOutput(path, str(found["report"]), windows if written else 0, parts)
            except (ValueError, KeyError, TypeError):
                yield ExistingOutput(path, "", 0)


def _whole_windows(manifest: dict[str, Any]) -> int:
    """How many windows have a ranking, of every group where groups are ranked."""
    rankings = Counter((window["start"], window["end"]) for window in manifest["windows"])
    groups = (manifest.get("groups") or {}).get("size", 1)
    return sum(found >= groups for found in rankings.values())


def check_all_is_out(report: Report, again: str, before: int | None = None) -> None:
    """Raise Unfinished if a job has ended well and yet a window is not published: the last word against silent loss.

    Counts that come short are refused where they are drawn from. But a runner that drops a window whole, or a ranking
    on its way to the sink, leaves nobody there who could refuse. Places that cannot be looked at are taken at the
    runner's word.
    """
    try:
        out, windows = _windows_out(report), _windows_of(report)
    except Refusal:
        return
    if out is not None and out < windows:
        lost = IncompleteDataError("the job ended as if it were whole, and windows were lost without a word")
        raise Unfinished(f"{_published(report, before)}. {_how_to_go_on(report, again)}") from lost


def check_repeat(report: Report, receipt: Receipt) -> None:
    """Raise Refusal where to run a charged stream again could be a second answer for the charge of the first.

    Rows that are all there are named by what they hold, and give the same ranking again, anywhere. Those of a stream
    may have become others: running it again is the same release only while it finishes what stands in its output,
    where the windows that are published are kept.
    """
    if receipt.outcome is None or report.source.bounded:
        return
    place, out = verbatim(report.sink.place), _windows_out(report)
    remedy = "publish it under another release id, which costs"
    if out is None:
        raise Refusal("output", f"{place} cannot be asked which windows of {verbatim(report.spec.release.id)} it "
                      "has, and a stream that is run again may hold other rows", remedy)  # fmt: skip
    if receipt.outcome == "released" and out < _windows_of(report):
        raise Refusal("output", f"{place} has {out:,} of the {_windows_of(report):,} windows that "
                      f"{verbatim(report.spec.release.id)} had published, and a stream that is run again may hold "
                      "other rows", f"bring the others back, or {remedy}")  # fmt: skip


def what_is_out(
    report: Report, launch: Launch, live: LiveRun, job: PipelineResult | None, again: str, before: int | None = None
) -> str:
    """One or two sentences on a run that has ended early. Nothing more is published by it afterwards.

    Args:
        again: how the same report is run again, as its door says it.
        before: how many windows of this very release were published before the run.
    """
    if launch.remote:
        return "nothing was started" if job is None else f"the job goes on in {launch.name}: look there, or cancel it"
    live.close()
    if job is not None:
        with suppress(Exception):  # it may be over, or its server gone
            job.cancel()
    return f"{_published(report, before)}. {_how_to_go_on(report, again)}"


def _published(report: Report, before: int | None = None) -> str:
    place, out, windows = report.sink.place, _windows_out(report), _windows_of(report)
    if out is None:
        return f"what was sent to {place} by then stays there"
    if out == 0:
        return "nothing is published"
    stood = ""
    if before:
        stood = ", as before this run" if before >= out else f", {before:,} of these windows as before this run"
    if out == windows:
        return f"all is published in {place}{stood}"
    return f"{out:,} of {windows:,} windows are published in {place}{stood}, {windows - out:,} are not"


def _windows_out(report: Report) -> int | None:
    """How many windows of this release stand at its place; None for a place that is no files."""
    existing, release = existing_outputs(report.sink, report.spec.period), report.spec.release.id
    return None if existing is None else whole_windows(its for its in existing if its and its.release == release)


def windows_before(report: Report) -> int | None:
    """How many windows of this very release are published already, before a run; None where nobody can tell."""
    if report.spec.release.key.in_memory:
        return 0  # of a release that nobody has asked for before
    with suppress(Refusal):
        return _windows_out(report)
    return None


def _windows_of(report: Report) -> int:
    return 1 if report.spec.period is None else len(report.spec.period)


def _how_to_go_on(report: Report, again: str) -> str:
    if report.spec.release.key.in_memory:
        return "Its random key is gone, so a new run is a new release of all that it publishes"
    return f"To go on with this very release, {again}"


def interruption_in(error: BaseException) -> KeyboardInterrupt | None:
    """The signal that an error comes from, or None.

    A signal is raised wherever the main thread just is. Inside a DoFn, Beam makes an error of its own of it, as of
    everything that is raised there, and so do libraries while they are being loaded.
    """
    chain: BaseException | None = error
    while chain is not None and not isinstance(chain, KeyboardInterrupt):
        chain = chain.__cause__ or chain.__context__
    return heard() if chain is None else chain


def refusal_in(error: BaseException) -> Refusal | None:
    """The refusal that a runner has wrapped into an error of its own, or None. Runners pass on text only."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, Refusal):
            said, wrapped, _ = str(chain).partition(" [while running ")
            return refused(said) if wrapped else chain
        chain = chain.__cause__ or chain.__context__
    found = _IN_TRACEBACK.search(str(error))
    return refused(found.group(1)) if found else None


def loss_in(error: BaseException) -> IncompleteDataError | None:
    """The loss of counts that a runner has wrapped into an error of its own, or None."""
    found = _LOSS.search(f"{type(error).__name__}: {error}")
    return IncompleteDataError(found.group(1)) if found else None
