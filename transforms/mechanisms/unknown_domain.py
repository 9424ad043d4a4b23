"""TopK when even the list of items is private: only the kbar + 1 largest counts are ever looked at.

One lemma carries every mechanism of this kind. Take neighbouring data sets with counts h and h', and their top kbar
items T and T' (by count, then by position). Pair each item j of T - T' with an item i of T' - T, any way round:

    h'_i >= h'_j >= h_j  and  h'_i <= h_i + 1 <= h_j + 1    (one user added)

so the pair is one *slot* whose count moves by 0 or 1, like the slots of the items in both. The kbar slots and the
(kbar + 1)-th count are then an ordinary fixed domain, all moving the same way by at most 1, and at most
`max_items_per_user` of them move. Whatever is private there is private here, but for answers naming an item of T - T'
or T' - T; those have counts at most h_(kbar+1) + 1, and the mechanisms let such items pass with probability at most
delta. For replace-one neighbours every 1 reads 2 and the moves go both ways: `sensitivity` below. Positions past the
last item seen are slots of count 0; they take part like any other and never show in an answer.

So releases compose as those of a fixed domain do. Take what is drawn over the slots, an answer that names an item of
T - T' or T' - T being "none": on either data set that is a function of the slots, and the same one, so whatever rho the
draw has over a fixed domain it has here, with no condition on anything. It is the release's own law but for none, whose
probability is at most delta on each side. That is `zcdp_delta` of `Cost`. Over releases of which each is chosen by the
names before it, stop at the first none: P(names in S) <= P(stopped in S) + sum of rests <= exp(epsilon) P'(stopped in
S) + delta(sum of rhos) + sum of rests, and P'(stopped in S) <= P'(names in S). (Rogers 2023, arXiv 2309.09170, has such
mechanisms in approximate zCDP.)

How far all slots move together, for noise that adds up over them. A pair i, j of slots moves by at most the change of
one of the two, since h_j >= h_i and h'_i >= h'_j; an item in both moves by its own change. Where the (kbar + 1)-th
count rises to some h'_j, or falls from some h_i, it and the pair of that item together move by no more than both
changes; else by no more than an item in no slot. So the slots and the (kbar + 1)-th count move no further in l_1 than
the counts do, and no more slots move than counts: `max_items_per_user`, or twice that under "replace-one".
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms.cost import Cost, rho_of_exponential, rho_of_pure
from private_topk.transforms.mechanisms.exact.accounting import largest_delta_q, per_round_epsilon
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import (
    QUERY_LANE,
    above_bottom,
    first_crossing,
    log_threshold,
    noisy_top,
)
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours, sensitivity
from private_topk.transforms.mechanisms.noisy_order import Laplace

APPROXIMATE = Guarantee("approximate", "unknown", "sequence", metric="amounts")
_KBAR_PER_ITEM, _KBAR_FLOOR = 10, 100
_MAX_KBAR = 10_000_000


@dataclass(frozen=True)
class UnknownDomainMechanism(Mechanism):
    """A top-k selection over the items seen, of which nothing else is known.

    The answer may hold fewer than k items, even none: that is part of the guarantee. An item with count 0 is an item
    not seen and never comes out. Ties at the cut are broken by position, so positions must follow a fixed public order
    of the items (their labels), never that of arrival. A set comes in the order of positions: where counts were handed
    over by size that is the order of ranks, so sort the items by label before anybody sees them.

    Args (of subclasses, with more where more is to say):
        epsilon, delta: of one release.
        kbar: how many items compete; None for 10 k, at least 100. Always public: it is never chosen by the data.
        max_items_per_user: the bound that the counts were made under, or None.
        neighbours: "add-remove" or "replace-one".
    """

    def kbar_for(self, k: int) -> int:
        """How many of the largest counts compete for k places: `kbar`, or `default_kbar(k)` where it is None.

        Public, known before the data: `select` needs the kbar_for(k) + 1 largest counts, in decreasing order and ties
        in the public order of the items, and answers the same when given more.

        Raises:
            InvalidArgument: kbar is less than k, or above 10,000,000; where it follows from k, that is too large.
        """
        kbar = self.parameter("kbar") or self.default_kbar(k)
        if kbar < k:
            rule = f"must be at least k, got kbar = {kbar} and k = {k}"
            raise InvalidArgument("kbar", rule, "leave it out for a default")
        if kbar > _MAX_KBAR:
            name, given = ("kbar", kbar) if self.parameter("kbar") else ("k", k)
            rule = f"must be at most {_MAX_KBAR * given // kbar} in an unknown domain, got {given}"
            raise InvalidArgument(name, rule, "choose a smaller one")
        return kbar

    def head(self, k: int) -> int:
        return self.kbar_for(k) + 1

    def default_kbar(self, k: int) -> int:
        """10 k, and at least 100. A larger kbar lowers the bar and adds competitors; this one suits most data."""
        return max(_KBAR_PER_ITEM * k, _KBAR_FLOOR)

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        """Reduce to the largest kbar + 1 counts, draw ranks among them, and leave out the slots that are no item."""
        size = self.kbar_for(k) + 1
        top = np.zeros(size, np.int64)
        seen = histogram.top(min(size, histogram.items))
        top[: len(seen)] = seen
        ranks = self.choose(top, k, draw)
        return ranks[top[ranks] > 0]

    @abc.abstractmethod
    def choose(self, top: Indices, k: int, draw: Draw) -> Indices:
        """Draw an answer among the kbar largest counts.

        Args:
            top: the kbar + 1 largest counts in decreasing order, 0 past the last item seen; shape (kbar + 1,).
            k: how many items to answer with, 1 <= k <= kbar.
            draw: the bits.

        Returns:
            Distinct ranks in [0, kbar), shape (at most k,).
        """

    def unstable(self, kbar: int) -> int:
        """How many of the top kbar items can be missing from a neighbour's."""
        items = self.parameter("max_items_per_user")
        return kbar if items is None else min(sensitivity(self.parameter("neighbours", "add-remove")) * items, kbar)


@dataclass(frozen=True)
class LimitDomain(UnknownDomainMechanism):
    """The peeling exponential mechanism over the top kbar items and bottom, stopped where bottom is drawn.

    With e the share of one of k draws at (epsilon, delta / 2), every item has the noisy count h_j + Gumbel(1/e) and
    bottom has h_(kbar+1) + 1 + ln(M / (delta / 2)) / e + Gumbel(1/e), M = `unstable(kbar)`. The answer is the items
    above bottom in decreasing order, at most k.

    Half of delta pays for the composition of the draws, half for items that a neighbour's top kbar does not hold. A
    bound on the items of a user only lowers M. Under "replace-one" the noise, the 1 and the M double.

    Guarantee: on the slots of `unknown_domain`, k draws of an e-bounded-range exponential mechanism; an unstable item
    beats bottom with probability at most delta / (2 M), so that (epsilon, delta)-DP follows.
    """

    about: ClassVar[About] = About(
        name="limit-domain",
        cost="O(kbar)",
        source="Durfee & Rogers 2019, Algorithms 1 and 2",
        when="the items are not public and users hold any number of them; restricted-gumbel returns more of them",
    )
    guarantee: ClassVar[Guarantee] = APPROXIMATE

    epsilon: float
    delta: float
    kbar: int | None = None
    max_items_per_user: int | None = None
    neighbours: Neighbours = "add-remove"

    def share(self, k: int) -> Fraction:
        """The epsilon e of one draw."""
        return per_round_epsilon(Fraction(self.epsilon), Fraction(self.delta) / 2, k)

    def scale(self, k: int) -> Fraction:
        """The scale of the noise on a count."""
        return self.sensitivity / self.share(k)

    def cost(self, k: int) -> Cost:
        """The rho of k exponential mechanisms over slots and bottom, but for an unstable item above bottom."""
        rho = Cost.peeled(k, self.share(k)).rho
        return Cost(Fraction(self.epsilon), Fraction(self.delta), rho, zcdp_delta=Fraction(self.delta) / 2)

    def choose(self, top: Indices, k: int, draw: Draw) -> Indices:
        odds = self.unstable(len(top) - 1) / (Fraction(self.delta) / 2)
        return above_bottom(top, self.sensitivity, self.scale(k), "gumbel", odds, k, draw)


@dataclass(frozen=True)
class LaplaceLimitDomain(UnknownDomainMechanism):
    """Noisy counts h_j + Laplace(b) of the top kbar items, above a noisy bar, in decreasing order, at most k.

    b = min(k, max_items_per_user) / epsilon, and the bar is h_(kbar+1) + 1 + b ln(1/q) + Laplace(b) with q the largest
    for which q (3 + ln(1/q)) / 4 <= delta / M, M = `unstable(kbar)`.

    Under "replace-one" b, the 1 and M double.

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
    guarantee: ClassVar[Guarantee] = APPROXIMATE

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


@dataclass(frozen=True)
class TopStable(UnknownDomainMechanism):
    """The set of the i largest counts, for the first i whose noisy gap h_i - h_(i+1) - 1 passes a noisy threshold.

    Sizes are tried in the order k, k + 1, ..., kbar, k - 1, ..., 1. Beyond k, peeling draws k of the i items. Where no
    gap passes, the answer is empty.

    Args:
        epsilon, delta: of one release. With kbar = k all of both goes to the search; else half of each pays for the
            peeling.
        kbar: the largest size tried; None for k, which leaves the whole budget to the search.
        neighbours: under "replace-one" noises and the 1 double.

    Guarantee: the search spends epsilon_s as sparse vector, a third on the threshold, Laplace(3 / epsilon_s), and two
    thirds on the gaps, Laplace(3 / epsilon_s) each, since gaps move both ways. If a neighbour's i largest are other
    items, then h_i <= h_(i+1) + 1: its gap counts as 0, and each of the kbar tests passes a 0 with probability at most
    delta_s / kbar. The gap tested is the one directly below the released items; one position off would release unstable
    items for sure. The peeling from a stable set is an ordinary one.
    """

    about: ClassVar[About] = About(
        name="top-stable",
        cost="O(kbar)",
        source="Carvalho, Wang, Gondara & Miao 2020",
        when="the items are not public, their order does not matter and the counts have wide gaps; k may be large",
    )
    guarantee: ClassVar[Guarantee] = replace(APPROXIMATE, answer="set")

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
