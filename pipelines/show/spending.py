"""A picture of how the budgets of a ledger were spent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from private_topk.pipelines.budget.accounting import Books, Budget, budget_usage, heaviest
from private_topk.pipelines.budget.rows import moment
from private_topk.pipelines.show.picture import figure_in
from private_topk.transforms.mechanisms.cost import Cost


def plot(books: Books, path: str) -> None:
    """Draw the used part of every budget after each charge. Raises InvalidArgument if it cannot be drawn or written."""
    with figure_in(path, 8, 4.5) as figure:
        axes = figure.subplots()
        for budget in books.budgets:
            times, used = zip(*_course(budget, books), strict=True)
            label = f"{budget.dataset}, {budget.unit}"
            axes.step(times, used, where="post", marker="o", markersize=3, label=label)
        axes.axhline(1, color="black", linewidth=1, linestyle="--")
        axes.set_ylim(0, 1.05)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_ylabel("of the budget used")
        axes.set_xlabel("charged (UTC)")
        figure.legend(loc="outside upper left", frameon=False, ncols=2)
        figure.autofmt_xdate()


def _course(budget: Budget, books: Books) -> Iterator[tuple[datetime, float]]:
    """The used part of a budget from each of its charges and renewals on."""
    yield moment(budget.created), 0.0
    charges = [(entry.id, 0, entry.charged) for entry in books.charges if entry.dataset == budget.dataset]
    renewals = [(each.last_charge, 1, each.began) for each in books.renewals if each.dataset == budget.dataset]
    for last, renewed, noted in sorted(charges + renewals):
        so_far = books._replace(
            charges=[entry for entry in books.charges if entry.id <= last],
            renewals=[each for each in books.renewals if each.last_charge < last + renewed],
        )
        spent = heaviest(budget, budget_usage(budget, so_far).charges)
        yield moment(noted), float(budget.used(Cost.sum(spent)))
