"""What is published of a run, what is not, and how to go on. Every word of it must be true."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from private_topk.pipelines.gate import GATE
from private_topk.pipelines.report import Report
from private_topk.pipelines.standing import standing_at, whole_windows
from private_topk.pipelines.unfinished import Unfinished
from private_topk.transforms.guard import LostPartError
from private_topk.transforms.refusal import Refusal, verbatim

if TYPE_CHECKING:
    from apache_beam.runners.runner import PipelineResult

    from private_topk.budget.ledger import Receipt
    from private_topk.runners import Launch

__all__ = ["check_all_is_out", "check_repeat", "what_is_out", "windows_before"]


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
        lost = LostPartError("the runner ended the job as if it were whole, and lost windows of it without a word")
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
        raise Refusal("output", f"{place} cannot be asked which windows of {verbatim(report.question.release.id)} it "
                      "has, and a stream that is run again may hold other rows", remedy)  # fmt: skip
    if receipt.outcome == "released" and out < _windows_of(report):
        raise Refusal("output", f"{place} has {out:,} of the {_windows_of(report):,} windows that "
                      f"{verbatim(report.question.release.id)} had published, and a stream that is run again may hold "
                      "other rows", f"bring the others back, or {remedy}")  # fmt: skip


def what_is_out(
    report: Report, launch: Launch, job: PipelineResult | None, again: str, before: int | None = None
) -> str:
    """One or two sentences on a run that has ended early. Nothing more is published by this process afterwards.

    Args:
        again: how the same report is run again, as its door says it.
        before: how many windows of this very release were published before the run.
    """
    if launch.remote:
        return "nothing was started" if job is None else f"the job goes on in {launch.name}: look there, or cancel it"
    GATE.close()
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
    standing, release = standing_at(report.sink, report.question.period), report.question.release.id
    return None if standing is None else whole_windows(its for its in standing if its and its.release == release)


def windows_before(report: Report) -> int | None:
    """How many windows of this very release are published already, before a run; None where nobody can tell."""
    if report.question.release.key.in_memory:
        return 0  # of a release that nobody has asked for before
    with suppress(Refusal):
        return _windows_out(report)
    return None


def _windows_of(report: Report) -> int:
    return 1 if report.question.period is None else len(report.question.period)


def _how_to_go_on(report: Report, again: str) -> str:
    if report.question.release.key.in_memory:
        return "Its random key is gone, so a new run is a new release of all that it publishes"
    return f"To go on with this very release, {again}"
