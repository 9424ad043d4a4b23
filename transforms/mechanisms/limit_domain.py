"""LimitDomain: Gumbel peeling of the top kbar items against a competitor that stands for all others."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import per_round_epsilon
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import above_bottom
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Neighbours
from private_topk.transforms.mechanisms.unknown_domain import UnknownDomainMechanism


@dataclass(frozen=True)
class LimitDomain(UnknownDomainMechanism):
    """The peeling exponential mechanism over the top kbar items and bottom, stopped where bottom is drawn.

    With e the share of one of k draws at (epsilon, delta / 2), every item has the noisy count h_j + Gumbel(1/e) and
    bottom has h_(kbar+1) + 1 + ln(M / (delta / 2)) / e + Gumbel(1/e), M = `unstable(kbar)`. The answer is the items
    above bottom in decreasing order, at most k.

    Args:
        epsilon, delta: of one release; half of delta pays for the composition of the draws, half for items that a
            neighbour's top kbar does not hold.
        kbar: how many items compete; None for 10 k, at least 100. Always public: it is never chosen by the data.
        max_items_per_user: a bound that the counts were made under, or None. It only lowers M.
        neighbours: "add-remove", or "replace-one": the noise, the 1 and the M double.

    Guarantee: on the slots of `unknown_domain`, k draws of an e-bounded-range exponential mechanism; an unstable item
    beats bottom with probability at most delta / (2 M), so that (epsilon, delta)-DP follows.
    Source: Durfee & Rogers 2019, Algorithms 1 and 2.
    """

    about: ClassVar[About] = About(
        name="limit-domain",
        cost="O(kbar)",
        source="Durfee & Rogers 2019, Algorithms 1 and 2",
        when="the items are not public and users hold any number of them; restricted-gumbel returns more of them",
    )
    guarantee: ClassVar[Guarantee] = Guarantee("approximate", "unknown", "sequence", metric="amounts")

    epsilon: float
    delta: float
    kbar: int | None = None
    max_items_per_user: int | None = None
    neighbours: Neighbours = "add-remove"

    def share(self, k: int) -> Fraction:
        """The epsilon e of one draw."""
        return per_round_epsilon(Fraction(self.epsilon), Fraction(self.delta) / 2, k)

    def cost(self, k: int) -> Cost:
        """The rho of k exponential mechanisms over slots and bottom, but for an unstable item above bottom."""
        rho = Cost.peeled(k, self.share(k)).rho
        return Cost(Fraction(self.epsilon), Fraction(self.delta), rho, zcdp_delta=Fraction(self.delta) / 2)

    def choose(self, top: Indices, k: int, draw: Draw) -> Indices:
        odds = self.unstable(len(top) - 1) / (Fraction(self.delta) / 2)
        return above_bottom(top, self.sensitivity, self.sensitivity / self.share(k), "gumbel", odds, k, draw)
