"""What a charge leaves of a ledger's budget for the periods of a report that are still to come."""

from __future__ import annotations

from collections.abc import Iterator

from private_topk.pipelines.budget.accounting import budget_usage, heaviest
from private_topk.pipelines.budget.ledger import ChargeReceipt
from private_topk.pipelines.budget.sharing import cost_of
from private_topk.pipelines.report import Report
from private_topk.pipelines.scheduled.periods import CORRECTION, Periods
from private_topk.transforms.mechanisms.cost import Cost


def future_charges(periods: Periods, report: Report, period: int) -> Iterator[tuple[str, str, bool]]:
    """Whether the periods left still fit into the budget after this one.

    Reads the input, for its identity, only if the release was charged before. Raises InvalidArgument as the charge
    would.

    Yields:
        The name of a fact, its text, and whether it is a warning.
    """
    account, question, horizon = report.account, report.question, periods.schedule.horizon
    if account is None or periods.state is not None:  # all of a series is charged at its start
        return
    ledger, cost = account.books, cost_of(question.top_k)
    earlier = ledger.find(question.release.id, question.release.key.key_id())
    costs = not (earlier and isinstance(ledger.quote(report.request()), ChargeReceipt))
    books = ledger.read(account.dataset)
    names = {entry.release_id.partition(CORRECTION)[0] for entry in books.charges}
    known = {name for name in names if name.startswith(f"{periods.name}/")} | {periods.release_id(period, None)}
    if question.privacy_unit != "user" or horizon is None or len(known) >= horizon:
        return
    budget = ledger.budget(account.dataset, "user")
    spent, left = heaviest(budget, budget_usage(budget, books).charges), horizon - len(known)
    now, then = (
        min(budget.used(Cost.sum([*spent, (windows, each)])) for each in cost.readings())
        for windows in (costs, costs + left)
    )
    yield (
        "horizon",
        f"{left:,} of {horizon:,} periods remain after this run and need {float(then - now):.1%} of the budget; "
        f"{max(1 - float(now), 0):.1%} will be left, so "
        f"{'the last of them will be refused' if then > 1 else 'they fit'}",
        then > 1,
    )
