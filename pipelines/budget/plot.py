"""Spending over time, as a picture."""

from __future__ import annotations

from datetime import datetime

from private_topk.pipelines.budget.account import Budget, Spent, heaviest
from private_topk.pipelines.budget.counted import counted
from private_topk.pipelines.budget.records import Entry, moment
from private_topk.pipelines.pictures import figure_in

__all__ = ["plot"]


def plot(budgets: list[Budget], entries: list[Entry], path: str) -> None:
    """Draw the used part of every budget after each charge. Raises Refusal if it cannot be drawn or written."""
    with figure_in(path, 8, 4.5) as figure:
        axes = figure.subplots()
        for budget in budgets:
            times, used = _course(budget, [entry for entry in entries if entry.request.dataset == budget.dataset])
            label = f"{budget.dataset}, {budget.unit}"
            axes.step(times, used, where="post", marker="o", markersize=3, label=label)
        axes.axhline(1, color="black", linewidth=1, linestyle="--")
        axes.set_ylim(0, 1.05)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_ylabel("of the budget used")
        axes.set_xlabel("charged (UTC)")
        figure.legend(loc="outside upper left", frameon=False, ncols=2)
        figure.autofmt_xdate()


def _course(budget: Budget, entries: list[Entry]) -> tuple[list[datetime], list[float]]:
    times, used = [moment(budget.created)], [0.0]
    for place, entry in enumerate(entries, 1):
        times.append(moment(entry.charged))
        used.append(float(budget.used(Spent.of(heaviest(budget, counted(budget, entries[:place]).charges)))))
    return times, used
