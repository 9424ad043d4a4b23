"""LimitDomain with Laplace noise, for a known bound on the items per user."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import largest_delta_q
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import above_bottom
from private_topk.transforms.mechanisms.laplace import Laplace
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Neighbours
from private_topk.transforms.mechanisms.unknown_domain import UnknownDomainMechanism


@dataclass(frozen=True)
class LaplaceLimitDomain(UnknownDomainMechanism):
    """Noisy counts h_j + Laplace(b) of the top kbar items, above a noisy bar, in decreasing order, at most k.

    b = min(k, max_items_per_user) / epsilon, and the bar is h_(kbar+1) + 1 + b ln(1/q) + Laplace(b) with q the largest
    for which q (3 + ln(1/q)) / 4 <= delta / M, M = `unstable(kbar)`.

    Args:
        epsilon, delta: of one release.
        max_items_per_user: the bound that the counts were made under.
        kbar: how many items compete; None for 10 k, at least 100.
        neighbours: "add-remove", or "replace-one": b, the 1 and M double.

    Guarantee: the published proof gives ((max_items_per_user + 1) / b, (exp(epsilon) + 1) delta). Both extras go. The
    kbar + 1 largest counts together grow by at most max_items_per_user when a user joins (a sum of largest counts is
    1-Lipschitz in the sum of counts), so the slots of `unknown_domain` *and the bar* have that l_1 sensitivity; and the
    slots make the stable answers comparable outright, so that delta is paid once. For k < max_items_per_user: at most
    k of the kbar + 1 levels are in the answer, and moving these by 1 each suffices (Ding et al. 2019).
    Source: Durfee & Rogers 2019, section 6.1 and Appendix D.
    """

    about: ClassVar[About] = About(
        name="laplace-limit-domain",
        cost="O(kbar)",
        source="Durfee & Rogers 2019, section 6.1",
        when="the items are not public and a user holds few of them",
    )
    guarantee: ClassVar[Guarantee] = Guarantee("approximate", "unknown", "sequence", metric="amounts")

    epsilon: float
    delta: float
    max_items_per_user: int
    kbar: int | None = None
    neighbours: Neighbours = "add-remove"

    def cost(self, k: int) -> Cost:
        """The rho of `laplace` over slots and bar, but for an unstable item above the bar."""
        rho = Laplace(self.epsilon, self.max_items_per_user, self.neighbours).cost(k).rho
        return Cost(Fraction(self.epsilon), Fraction(self.delta), rho, zcdp_delta=Fraction(self.delta))

    def choose(self, top: Indices, k: int, draw: Draw) -> Indices:
        scale = self.sensitivity * min(k, self.max_items_per_user) / Fraction(self.epsilon)
        odds = 1 / largest_delta_q(Fraction(self.delta) / self.unstable(len(top) - 1))
        return above_bottom(top, self.sensitivity, scale, "laplace", odds, k, draw)
