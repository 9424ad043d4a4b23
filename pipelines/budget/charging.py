"""What a report asks of its ledger, and the run around which it is charged."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from private_topk.budget.charging import Account, charge
from private_topk.budget.sharing import cost_of
from private_topk.pipelines.errors import InputError
from private_topk.pipelines.sources.columns import Columns

if TYPE_CHECKING:
    from private_topk.budget.ledger import Request
    from private_topk.pipelines.report import Report
    from private_topk.pipelines.stream import StreamReport

__all__ = ["charged", "read_account", "request_of"]


def read_account(arguments: argparse.Namespace) -> Account | None:
    """The account that the arguments name, or None. Raises InputError if half of it is missing."""
    if arguments.ledger is None and arguments.dataset is None:
        return None
    if arguments.ledger is None or arguments.dataset is None:
        raise InputError("--ledger and --dataset go together: where spending is kept, and whose budget it is")
    return Account(arguments.ledger, arguments.dataset)


@contextmanager
def charged(report: Report | StreamReport) -> Iterator[None]:
    """Charge a report, run the block, and note how it ended. Does nothing for a report without a ledger.

    Raises:
        Refusal: before the block runs: the budget does not suffice, or the id was used for other input.
    """
    account = report.account
    if account is None:
        yield
        return
    with charge(request_of(report, account.dataset), account.ledger, resume=_how_to_resume(report)):
        yield


def request_of(report: Report | StreamReport, dataset: str) -> Request:
    """What a report asks of its ledger. Reads files once, for their fingerprint."""
    from private_topk.budget.account import Windows
    from private_topk.budget.ledger import Request

    release = report.release
    try:
        key_id, input_name = release.key.key_id(), report.fingerprint()
    except ValueError as error:
        raise InputError(f"--ledger needs the release key where the run is launched: {error}") from None
    return Request(
        dataset=dataset,
        unit=report.privacy.unit,
        report=release.id,
        key_id=key_id,
        fingerprint=input_name,
        parameters=report.selection.parameters(),
        windows=Windows.of(report.period),
        cost=cost_of(report.selection),
        rows=_rows(report.columns),
    )


def _rows(columns: Columns) -> dict[str, str]:
    """How the dataset is read: by which users, and by which times where there are windows."""
    times = {} if columns.time is None else {"time_column": columns.time, "time_unit": columns.time_unit}
    return {"user_column": columns.user, **times}


def _how_to_resume(report: Report | StreamReport) -> str:
    if report.release.key.source == "fresh":
        return ("the charge stays, since an answer may have been drawn. Its key was random and is gone: give "
                "--release-key and --release-id, so that a failed run can be resumed")  # fmt: skip
    return (f"the charge stays, since an answer may have been drawn. To resume at no cost, run again with the same "
            f"arguments, --release-id {report.release.id} and the same key and input")  # fmt: skip
