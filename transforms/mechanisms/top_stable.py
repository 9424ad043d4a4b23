"""TopStable: release the largest counts where the gap below them is wide."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from private_topk.transforms.mechanisms.cost import Cost, rho_of_exponential, rho_of_pure
from private_topk.transforms.mechanisms.exact.accounting import largest_delta_q, per_round_epsilon
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import QUERY_LANE, first_crossing, log_threshold, noisy_top
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Neighbours
from private_topk.transforms.mechanisms.unknown_domain import UnknownDomainMechanism


@dataclass(frozen=True)
class TopStable(UnknownDomainMechanism):
    """The set of the i largest counts, for the first i whose noisy gap h_i - h_(i+1) - 1 passes a noisy threshold.

    Sizes are tried in the order k, k + 1, ..., kbar, k - 1, ..., 1. Beyond k, peeling draws k of the i items. Where no
    gap passes, the answer is empty.

    Args:
        epsilon, delta: of one release. With kbar = k all of both goes to the search; else half of each pays for the
            peeling.
        kbar: the largest size tried; None for k, which leaves the whole budget to the search.
        neighbours: "add-remove", or "replace-one": noises and the 1 double.

    Guarantee: the search spends epsilon_s as sparse vector, a third on the threshold, Laplace(3 / epsilon_s), and two
    thirds on the gaps, Laplace(3 / epsilon_s) each, since gaps move both ways. If a neighbour's i largest are other
    items, then h_i <= h_(i+1) + 1: its gap counts as 0, and each of the kbar tests passes a 0 with probability at most
    delta_s / kbar. The gap tested is the one directly below the released items; one position off would release unstable
    items for sure. The peeling from a stable set is an ordinary one.
    Source: Carvalho, Wang, Gondara & Miao 2020.
    """

    about: ClassVar[About] = About(
        name="top-stable",
        cost="O(kbar)",
        source="Carvalho, Wang, Gondara & Miao 2020",
        when="the items are not public, their order does not matter and the counts have wide gaps; k may be large",
    )
    guarantee: ClassVar[Guarantee] = Guarantee("approximate", "unknown", "set", metric="amounts")

    epsilon: float
    delta: float
    kbar: int | None = None
    neighbours: Neighbours = "add-remove"

    def default_kbar(self, k: int) -> int:
        """k: more sizes to try would take half the budget and a higher threshold."""
        return k

    def search_budget(self, k: int) -> tuple[Fraction, Fraction]:
        """(epsilon_s, delta_s): what the search may spend. The peeling has as much where there is one."""
        parts = 2 if self._peels(k) else 1
        return Fraction(self.epsilon) / parts, Fraction(self.delta) / parts

    def share(self, k: int) -> Fraction:
        """The epsilon of each of the k draws from more than k items."""
        return per_round_epsilon(*self.search_budget(k), k)

    def cost(self, k: int) -> Cost:
        """The rho of a pure search and of k exponential mechanisms after it, but for a gap of 0 that passes."""
        epsilon, delta = self.search_budget(k)
        rho = rho_of_pure(epsilon)
        if self._peels(k):
            rho += k * rho_of_exponential(self.share(k))
        return Cost(Fraction(self.epsilon), Fraction(self.delta), rho, zcdp_delta=delta)

    def _peels(self, k: int) -> bool:
        """Whether more than k items may be found, of which k are drawn."""
        return self.kbar is not None and self.kbar > k

    def choose(self, top: Indices, k: int, draw: Draw) -> Indices:
        kbar = len(top) - 1
        epsilon, delta = self.search_budget(k)
        sizes = np.r_[k : kbar + 1, k - 1 : 0 : -1]
        gaps = np.maximum(top[sizes - 1] - top[sizes] - self.sensitivity, 0)
        threshold = log_threshold(1 / largest_delta_q(delta / kbar), "laplace", draw)
        scale = 3 * self.sensitivity / epsilon
        passed = first_crossing(gaps, scale, threshold, "laplace", draw, addresses=sizes - 1, lane=QUERY_LANE, up=True)
        if passed == len(sizes):
            return np.arange(0)
        size = int(sizes[passed])
        if size <= k:
            return np.arange(size)
        return noisy_top(top[:size], self.sensitivity / self.share(k), "gumbel", k, draw)
