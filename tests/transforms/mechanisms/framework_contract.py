"""What every mechanism of the restricted-domain framework inherits."""

from __future__ import annotations

from fractions import Fraction

from private_topk.testing import Law
from private_topk.transforms.mechanisms import Mechanism
from private_topk.transforms.mechanisms.exact.accounting import (
    largest_delta_q,
)
from tests.transforms.mechanisms.unknown_contract import UnknownContract
from tests.transforms.mechanisms.unknown_laws import (
    Counts,
    Ranked,
    named,
    restricted,
    top,
)

SETTINGS = [(2.0, 1, 1), (0.5, 1, 2), (2.0, 2, 3), (3.0, 2, 2)]  # epsilon, k, kbar


RELATIONS = ["add-remove", "swap"]


class FrameworkContract(UnknownContract):
    def order(self, mechanism: Mechanism, largest: Counts, k: int, drift: int) -> Ranked:
        """The law of the candidates."""
        raise NotImplementedError

    def budget(self, mechanism: Mechanism, k: int) -> tuple[Fraction, Fraction]:
        """(epsilon_r, delta_r), written from the documentation."""
        raise NotImplementedError

    def law(self, mechanism: Mechanism, counts: Counts, k: int) -> Law:
        drift = 2 if mechanism.neighbours == "swap" else 1
        items, largest = top(counts, mechanism.kbar)
        epsilon_r, delta_r = self.budget(mechanism, k)
        order = self.order(mechanism, largest[:-1], k, drift)
        return named(items, restricted(order, largest, drift, epsilon_r, largest_delta_q(delta_r)))
