"""What is published of a run that ended early, what is not, and how to go on. Every word of it must be true."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from private_topk.pipelines.gate import GATE
from private_topk.pipelines.report import Report
from private_topk.pipelines.standing import standing_at

if TYPE_CHECKING:
    from apache_beam.runners.runner import PipelineResult

    from private_topk.runners import Launch

__all__ = ["what_is_out"]


def what_is_out(report: Report, launch: Launch, job: PipelineResult | None, again: str) -> str:
    """One or two sentences on a run that has ended early. Nothing more is published by this process afterwards.

    Args:
        again: how the same report is run again, as its door says it.
    """
    if launch.remote:
        return "nothing was started" if job is None else f"the job goes on in {launch.name}: look there, or cancel it"
    GATE.close()
    if job is not None:
        with suppress(Exception):  # it may be over, or its server gone
            job.cancel()
    return f"{_published(report)}. {_how_to_go_on(report, again)}"


def _published(report: Report) -> str:
    period, place, release = report.question.period, report.sink.place, report.question.release.id
    standing = standing_at(report.sink, period)
    out = None if standing is None else sum(found.windows for found in standing if found and found.release == release)
    windows = len(period) if period else 1
    if out is None:
        return f"what was sent to {place} by then stays there"
    if out == 0:
        return "nothing is published"
    if out == windows:
        return f"all is published in {place}"
    return f"{out:,} of {windows:,} windows are published in {place}, {windows - out:,} are not"


def _how_to_go_on(report: Report, again: str) -> str:
    if report.question.release.key.source == "fresh":
        return "Its random key is gone, so a new run is a new release of all that it publishes"
    return f"To go on with this very release, {again}"
