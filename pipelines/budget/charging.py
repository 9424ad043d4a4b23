"""A job with a ledger: charged before it starts, noted when it ends, recognised when it is repeated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from private_topk.pipelines.budget.account import Budget
    from private_topk.pipelines.budget.ledger import Ledger, Receipt, Request

__all__ = ["Account", "charge", "tell_operator"]

_RESUME = ("the charge stays, since an answer may have been drawn. To resume at no cost, charge the same request again "
           "and draw from the same key and input")  # fmt: skip


@dataclass(frozen=True)
class Account:
    """Whose budget a run is charged to, and where that is kept.

    Args:
        ledger: its database's URL.
        dataset: the name of the budget in it.
    """

    ledger: str
    dataset: str

    def budget(self, unit: str) -> Budget:
        """The budget of one unit. Raises Refusal if there is none."""
        from private_topk.pipelines.budget.ledger import Ledger

        return Ledger(self.ledger).budget(self.dataset, unit)


def tell_operator(text: str) -> None:
    """One line on stderr."""
    print(f"ledger: {text}", file=sys.stderr)


@contextmanager
def charge(
    request: Request,
    ledger: Ledger | str,
    tell: Callable[[str], None] = tell_operator,
    resume: str = _RESUME,
    check: Callable[[Receipt], None] = lambda _: None,
) -> Iterator[Receipt]:
    """Charge a release, run the block that makes it, and note how it ended.

    Goes around any job, of Beam or not. What it promises holds if the block answers from nothing but what the request
    names: its randomness must be drawn from the release's key and id, so that a repeat repeats the answer. A block
    that draws afresh must ask under a new id each time.

    Args:
        request: what is asked of which rows, and what it costs.
        ledger: the ledger, or its database's URL.
        tell: takes one line for the operator.
        resume: what the operator is told if the block fails.
        check: raises a Refusal where the block must not run again, by the receipt of an earlier charge. A new charge
            stays.

    Yields:
        The receipt: whether this is a new charge or the repeat of an earlier one.

    Raises:
        Refusal: before the block runs: the budget does not suffice, or the id was used for other input. A ledger that
            cannot be written to when the block has ended changes nothing of how it ended: the operator is told, and
            the charge stays as one that was started.

    Cost: two transactions of some milliseconds each.
    """
    from private_topk.pipelines.budget.ledger import Ledger

    books = Ledger(ledger) if isinstance(ledger, str) else ledger
    receipt = books.charge(request)
    check(receipt)
    tell(_let_through(request, receipt))
    try:
        yield receipt
    except BaseException:  # an interrupt too: an answer may be out
        _note(books, receipt, "failed", tell)
        tell(resume)
        raise
    _note(books, receipt, "released", tell)


def _note(books: Ledger, receipt: Receipt, outcome: str, tell: Callable[[str], None]) -> None:
    from private_topk.transforms.errors import Refusal

    try:
        books.finish(receipt.entry, outcome)
    except Refusal as error:  # what is out is out, and what went wrong is not this
        again = "the same again costs nothing, and notes it"
        tell(f"that it was {outcome} could not be noted, and it stays as started: {error}; {again}")


def _let_through(request: Request, receipt: Receipt) -> str:
    if receipt.outcome is None:
        used = f"; {float(receipt.used):.1%} of the budget is used" if receipt.used is not None else ""
        return f"charged {request.report} to dataset {request.dataset}{used}"
    if receipt.outcome == "released":
        return f"{request.report} was released before, charged on {receipt.charged}: repeating it costs nothing"
    return f"resuming {request.report}, charged on {receipt.charged} and not finished: costs nothing"
