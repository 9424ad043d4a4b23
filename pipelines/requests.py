"""The request of a report to a ledger: derived from all of its spec and source, so that no field can be forgotten."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from private_topk.pipelines.budget.sharing import cost_of
from private_topk.pipelines.budget.windows import Windows
from private_topk.pipelines.files import is_local
from private_topk.pipelines.identity import identity_of, named
from private_topk.pipelines.report import Report
from private_topk.pipelines.report_spec import reach_of
from private_topk.transforms.errors import Refusal
from private_topk.transforms.release import DRAWS

if TYPE_CHECKING:
    from private_topk.pipelines.budget.ledger import Request

__all__ = ["how_to_resume", "request_of"]


def request_of(report: Report, dataset: str) -> Request:
    """The request of a report. Reads files once, for their identity; needs the release key here. Raises Refusal."""
    from private_topk.pipelines.budget.ledger import Request

    spec = report.spec
    reads = spec.reads
    windows = Windows.of(reads) if reads is spec.period or reads is None else Windows.pairs(reads)
    reach = None if spec.top_k.max_windows_per_user is None else reach_of(spec.top_k, spec.period)
    try:
        key_id, fingerprint = spec.release.key.key_id(), _fingerprint(report)
    except Refusal as error:
        if error.field != "release_key":
            raise
        raise Refusal(
            "ledger", "needs the release key where the run is launched: {release_key} " + error.rule
        ) from None
    return Request(
        dataset=dataset,
        unit=spec.privacy.unit,
        release_id=spec.release.id,
        key_id=key_id,
        fingerprint=fingerprint,
        parameters={**spec.top_k.parameters(), "asked": identity_of(spec), "draws": DRAWS},
        windows=windows,
        cost=cost_of(spec.top_k),
        windows_of_a_user=reach,
        rows=_rows(report),
        report_name=report.account.report_name if report.account else None,
    )


def _fingerprint(report: Report) -> str:
    """The identity of the input; for a stream, whose contents are not known beforehand, also of its output's place."""
    key = report.spec.release.key
    source = report.source.identity(key, report.spec.reads)
    if report.source.bounded:
        return source
    place = (report.sink.files(report.spec.period) or [report.sink.place])[0]
    return named({"stream": source, "output": os.path.realpath(place) if is_local(place) else place}, key)


def _rows(report: Report) -> dict[str, str]:
    """The columns that define users, and times where there are windows."""
    columns = report.source.columns
    if report.spec.period is None or columns.time is None:
        return {"user_column": columns.user}
    return {"user_column": columns.user, "time_column": columns.time, "time_unit": columns.unit}


def how_to_resume(report: Report, again: str) -> str:
    """The message about the charge when a run has failed.

    Args:
        again: how to run the same report again, in the words of the caller's interface.
    """
    stays = "the charge stays, since an answer may have been drawn. "
    if report.spec.release.key.in_memory:
        return f"{stays}Its key was random and is gone: give a key and an id, so that a failed run can be resumed"
    return f"{stays}To resume at no cost, {again}, with the same key and input"
