"""What counts against a budget: what is charged in its current period, and what is reserved and not yet spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from private_topk.pipelines.budget.account import Budget, Charge, Spent
from private_topk.pipelines.budget.composition import Cost
from private_topk.pipelines.budget.records import RELEASES, RENEWED, RESERVED, Entry

__all__ = ["Counted", "counted"]


@dataclass(frozen=True)
class Counted:
    """What counts against a budget.

    Args:
        charges: of the releases of the current period.
        reserved: by report, what is reserved for it and not yet spent.
        period: the number of the current period, from 1.
        since: when it began.
        length: how long each lasts at least; None before the first renewal.
    """

    charges: Sequence[Charge]
    reserved: Mapping[str, Charge]
    period: int
    since: str
    length: timedelta | None

    @property
    def all(self) -> list[Charge]:
        return [*self.reserved.values(), *self.charges]


def counted(budget: Budget, entries: Iterable[Entry]) -> Counted:
    """What counts of a dataset's entries.

    A reservation is the charge of a report's whole horizon, made in advance. Of a report counts, in every sum, the
    larger of what is reserved and what it was charged within that horizon.

    What is charged stays within the budget. Proof: none of its sums is above that of what counts, and it adds up where
    that does. Charges and reservations are written one after the other, each only if what counts then fits. So what is
    charged fits at every moment, and `Budget` asks for no more, whoever chose what and after seeing what. And what is
    reserved can be spent: while the report has been charged no more than is reserved, its charges leave the sums of
    what counts as they are, and these fit.
    """
    entries = list(entries)
    releases = [entry for entry in entries if entry.outcome in RELEASES]
    reserved = [entry for entry in entries if entry.outcome == RESERVED and budget.unit == "user"]
    renewals = [place for place, entry in enumerate(entries)
                if entry.outcome == RENEWED and entry.request.unit == budget.unit]  # fmt: skip
    began = entries[renewals[-1]] if renewals else None
    current = entries[renewals[-1] :] if renewals else entries
    return Counted(
        [entry.charge for entry in current if entry.outcome in RELEASES],
        {entry.request.series: unspent for entry in reserved if (unspent := _unspent(entry, releases)) is not None},
        len(renewals) + 1,
        began.charged if began else budget.created,
        timedelta(seconds=began.request.parameters["seconds"]) if began else None,
    )


def _unspent(reservation: Entry, releases: Iterable[Entry]) -> Charge | None:
    """By how much each of the reserved sums is above that of the report's releases in the horizon; None if by none."""
    horizon, cost = reservation.request.windows, reservation.request.cost
    spent = Spent.of(
        (entry.charge.reached(), entry.request.cost)
        for entry in releases
        if entry.request.series == reservation.request.series
        and horizon.overlapping(*entry.request.windows.bounds()).any()
    )
    sums = ("epsilon", "rho", "rest")
    epsilon, rho, rest = (max(getattr(cost, name) - getattr(spent, name), Fraction(0)) for name in sums)
    if not (epsilon or rho or rest):
        return None
    return Charge(horizon, Cost(epsilon, rest + cost.delta - cost.rest, rho, rest))
