"""A picture of how the budgets of a ledger were spent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec

from private_topk.pipelines.budget.accounting import Books, Budget, budget_usage, heaviest
from private_topk.pipelines.budget.rows import moment
from private_topk.transforms.errors import InvalidArgument, install_extra, verbatim
from private_topk.transforms.mechanisms.cost import Cost

_KINDS = (".png", ".svg", ".pdf")


def check_plot(path: str) -> None:
    """Raise InvalidArgument for a file of no kind of picture, or where nothing is there to draw with."""
    if not path.lower().endswith(_KINDS):
        raise InvalidArgument("plot", f"{verbatim(path)} must end with one of {', '.join(_KINDS)}")
    if find_spec("matplotlib") is None:
        raise InvalidArgument("plot", "needs matplotlib", install_extra("plot"))


def plot(books: Books, path: str) -> None:
    """Draw the used part of every budget after each charge. Raises InvalidArgument if it cannot be written."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
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
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    try:
        figure.savefig(path, metadata={"Date": None} if path.lower().endswith(".svg") else None)
    except (OSError, ValueError) as error:
        raise InvalidArgument("plot", verbatim(f"{path} cannot be written: {error}")) from None


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
