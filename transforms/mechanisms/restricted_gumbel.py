"""RestrictedGumbel: the restricted-domain framework over Gumbel peeling."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cdp_peeling import CdpPeeling
from private_topk.transforms.mechanisms.exact.accounting import per_round_epsilon
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Neighbours
from private_topk.transforms.mechanisms.restricted import RestrictedMechanism

_MAX_FOR_TESTS = Fraction(1, 2)


@dataclass(frozen=True)
class RestrictedGumbel(RestrictedMechanism):
    """Peeling exponential mechanisms on the top kbar items, then the framework's tests.

    The tests spend epsilon_r = 4 s, s the share of one of k draws at (epsilon, delta / 2), but at most epsilon / 2: as
    published, 4 s reaches the whole of epsilon at k = 4 and passes it below. The k draws spend the rest,
    (epsilon - epsilon_r, delta / 2), and the tests delta / 2.

    Args:
        epsilon, delta: of one release.
        kbar: how many items compete; None for 10 k, at least 100.
        neighbours: "add-remove" or "replace-one", where all noises and the framework's 1 double.

    Source: Carvalho & Wang, Algorithm 3, Theorem 6 and section 8.2.
    """

    about: ClassVar[About] = About(
        name="restricted-gumbel",
        cost="O(kbar)",
        source="Carvalho & Wang, Algorithm 3",
        when="the items are not public and users hold any number of them",
    )
    guarantee: ClassVar[Guarantee] = Guarantee("approximate", "unknown", "sequence", metric="amounts")

    epsilon: float
    delta: float
    kbar: int | None = None
    neighbours: Neighbours = "add-remove"

    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        epsilon, half = Fraction(self.epsilon), Fraction(self.delta) / 2
        return min(4 * per_round_epsilon(epsilon, half, k), _MAX_FOR_TESTS * epsilon), half

    def share(self, k: int) -> Fraction:
        """The epsilon of each of the k draws."""
        return self.inner(k).share(k)

    def inner(self, k: int) -> CdpPeeling:
        epsilon_r, delta_r = self.test_budget(k)
        epsilon, delta = Fraction(self.epsilon) - epsilon_r, Fraction(self.delta) - delta_r
        return CdpPeeling(epsilon, delta, self.neighbours, cap=self.cap)  # type: ignore[arg-type]  # exact
