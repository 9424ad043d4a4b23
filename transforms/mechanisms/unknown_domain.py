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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.mechanism import Indices, Mechanism, sensitivity

_KBAR_PER_ITEM, _KBAR_FLOOR = 10, 100
_MAX_KBAR = 10_000_000


@dataclass(frozen=True)
class UnknownDomainMechanism(Mechanism):
    """A top-k selection over the items seen, of which nothing else is known.

    The answer may hold fewer than k items, even none: that is part of the guarantee. An item with count 0 is an item
    not seen and never comes out. Ties at the cut are broken by position, so positions must follow a fixed public order
    of the items (their labels), never that of arrival. A set comes in the order of positions: where counts were handed
    over by size that is the order of ranks, so sort the items by label before anybody sees them.
    """

    def kbar_for(self, k: int) -> int:
        """How many of the largest counts compete for k places: `kbar`, or `default_kbar(k)` where it is None.

        Public, known before the data: `select` needs the kbar_for(k) + 1 largest counts, in decreasing order and ties
        in the public order of the items, and answers the same when given more.

        Raises:
            InvalidArgument: kbar is less than k, or above 10,000,000.
        """
        kbar = self.parameter("kbar") or self.default_kbar(k)
        if kbar < k:
            rule = f"must be at least k, got kbar = {kbar} and k = {k}"
            raise InvalidArgument("kbar", rule, "leave it out for a default")
        if kbar > _MAX_KBAR:
            chosen = f"kbar = {kbar}" if self.parameter("kbar") else f"k = {k}, for which it is {kbar}"
            raise InvalidArgument("kbar", f"must be at most {_MAX_KBAR}, got {chosen}", "choose a smaller one")
        return kbar

    def head(self, k: int) -> int:
        return self.kbar_for(k) + 1

    def default_kbar(self, k: int) -> int:
        """10 k, and at least 100. A larger kbar lowers the bar and adds competitors; this one suits most data."""
        return max(_KBAR_PER_ITEM * k, _KBAR_FLOOR)

    def sampler(self, histogram: Histogram, k: int) -> Callable[[Draw], Indices]:
        self.kbar_for(k)  # refused before anything is drawn
        return super().sampler(histogram, k)

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
