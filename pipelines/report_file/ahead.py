"""What a charge leaves of a ledger's budget for the periods of a report that are still to come."""

from __future__ import annotations

from collections.abc import Iterator

from private_topk.pipelines.budget.account import Spent, heaviest
from private_topk.pipelines.budget.counted import counted
from private_topk.pipelines.budget.ledger import Ledger, Receipt
from private_topk.pipelines.budget.records import RELEASES
from private_topk.pipelines.budget.sharing import cost_of
from private_topk.pipelines.report import Report
from private_topk.pipelines.report_file.periods import CORRECTION, Periods
from private_topk.pipelines.requests import request_of
from private_topk.transforms.stated import number

__all__ = ["ahead"]


def ahead(periods: Periods, report: Report, period: int) -> Iterator[tuple[str, str, bool]]:
    """Whether a period that was charged before would be charged again, and whether the periods left still fit.

    Reads the input, for its identity, only if the release was charged before. Raises Refusal as the charge would.

    Yields:
        The name of a fact, its text, and whether it is a warning.
    """
    account, spec, horizon = report.account, report.spec, periods.schedule.horizon
    if account is None:
        return
    books, cost = Ledger(account.ledger), cost_of(spec.top_k)
    earlier = books.find(spec.release.id, spec.release.key.key_id())
    costs = not (earlier and isinstance(books.quote(request_of(report, account.dataset)), Receipt))
    if earlier and costs:
        yield ("again", f"{spec.release.id} was charged on {earlier[0].charged} for another question: this one "
                    f"costs epsilon {number(cost.epsilon)} too, and makes a second ranking of that period",
                    True)  # fmt: skip
    entries = books.read(account.dataset)[1]
    names = {entry.request.report.partition(CORRECTION)[0] for entry in entries if entry.outcome in RELEASES}
    known = {name for name in names if name.startswith(f"{periods.name}/")} | {periods.release_id(period, None)}
    if spec.privacy.unit != "user" or horizon is None or len(known) >= horizon:
        return
    budget = books.budget(account.dataset, "user")
    counts = counted(budget, entries)
    reserved = [charge for series, charge in counts.reserved.items() if series != account.series]
    spent, left = heaviest(budget, [*counts.charges, *reserved]), horizon - len(known)
    now, then = (min(budget.used(Spent.of([*spent, (windows, each)])) for each in cost.readings())
                 for windows in (costs, costs + left))  # fmt: skip
    yield ("horizon", f"after this run the periods left ({left:,} of {horizon:,}) need {float(then - now):.1%} of "
                f"the budget, and {max(1 - float(now), 0):.1%} will be left"
                f"{', so the last of them will be refused' if then > 1 else ''}", then > 1)  # fmt: skip
