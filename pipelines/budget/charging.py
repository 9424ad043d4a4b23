"""A run with a ledger: charged before it starts, noted when it ends, recognised when it is repeated."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from private_topk.pipelines.budget.account import Budget, Windows
from private_topk.pipelines.budget.units import cost_of
from private_topk.pipelines.errors import InputError

if TYPE_CHECKING:
    from private_topk.pipelines.budget.ledger import Receipt, Request
    from private_topk.pipelines.report import Report
    from private_topk.pipelines.stream import StreamReport

__all__ = ["Account", "charged", "read_account", "request_of"]


@dataclass(frozen=True)
class Account:
    """Whose budget a run is charged to, and where that is kept."""

    ledger: str
    dataset: str

    def budget(self, unit: str) -> Budget:
        """The budget of one unit. Raises InputError if there is none."""
        from private_topk.pipelines.budget.ledger import Ledger

        return Ledger(self.ledger).budget(self.dataset, unit)


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
        InputError: before the block runs: the budget does not suffice, or the id was used for other input.
    """
    account = report.account
    if account is None:
        yield
        return
    from private_topk.pipelines.budget.ledger import Ledger

    ledger = Ledger(account.ledger)
    receipt = ledger.charge(request_of(report, account.dataset))
    _tell(_let_through(report.release.id, account.dataset, receipt))
    try:
        yield
    except BaseException:
        ledger.finish(receipt.entry, "failed")
        _tell(_how_to_resume(report))
        raise
    ledger.finish(receipt.entry, "released")


def request_of(report: Report | StreamReport, dataset: str) -> Request:
    """What a report asks of its ledger. Reads files once, for their fingerprint."""
    from private_topk.pipelines.budget.ledger import Request

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
    )


def _let_through(name: str, dataset: str, receipt: Receipt) -> str:
    if receipt.outcome is None:
        used = f"; {float(receipt.used):.1%} of the budget is used" if receipt.used is not None else ""
        return f"charged {name} to dataset {dataset}{used}"
    if receipt.outcome == "released":
        return f"{name} was released before, charged on {receipt.charged}: repeating it costs nothing"
    return f"resuming {name}, charged on {receipt.charged} and not finished: costs nothing"


def _how_to_resume(report: Report | StreamReport) -> str:
    if report.release.key.source == "fresh":
        return ("the charge stays, since an answer may have been drawn. Its key was random and is gone: give "
                "--release-key and --release-id, so that a failed run can be resumed")  # fmt: skip
    return (f"the charge stays, since an answer may have been drawn. To resume at no cost, run again with the same "
            f"arguments, --release-id {report.release.id} and the same key and input")  # fmt: skip


def _tell(text: str) -> None:
    print(f"ledger: {text}", file=sys.stderr)
