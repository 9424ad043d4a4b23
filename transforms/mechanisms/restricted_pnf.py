"""RestrictedPnf: the restricted-domain framework over permute-and-flip peeling."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Neighbours
from private_topk.transforms.mechanisms.pnf_peeling import PnfPeeling
from private_topk.transforms.mechanisms.restricted import RestrictedMechanism

_FOR_TESTS = Fraction(1, 4)


@dataclass(frozen=True)
class RestrictedPnf(RestrictedMechanism):
    """k rounds of permute-and-flip on the top kbar counts, then the framework's tests.

    The tests spend a quarter of epsilon and all of delta, each round (3 epsilon / 4) / k.

    Args:
        epsilon, delta: of one release.
        kbar: how many items compete; None for 10 k, at least 100.
        neighbours: "add-remove" or "replace-one", where all noises and the framework's 1 double.

    Source: Carvalho & Wang, section 7; McKenna & Sheldon 2020.
    """

    about: ClassVar[About] = About(
        name="restricted-pnf",
        cost="O(kbar + k log kbar)",
        source="Carvalho & Wang, section 7; McKenna & Sheldon 2020",
        when="the items are not public and k is below about 10",
    )
    guarantee: ClassVar[Guarantee] = Guarantee("approximate", "unknown", "sequence", metric="amounts")

    epsilon: float
    delta: float
    kbar: int | None = None
    neighbours: Neighbours = "add-remove"

    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        return _FOR_TESTS * Fraction(self.epsilon), Fraction(self.delta)

    def inner(self, k: int) -> PnfPeeling:
        rest = Fraction(self.epsilon) - self.test_budget(k)[0]
        return PnfPeeling(rest, self.neighbours, cap=self.cap)  # type: ignore[arg-type]  # an exact rational, no float
