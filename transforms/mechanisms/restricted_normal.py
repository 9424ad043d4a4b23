"""RestrictedNormal: the restricted-domain framework over Gaussian noise, for a known bound on the items per user."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.gaussian import Gaussian
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Neighbours, sensitivity
from private_topk.transforms.mechanisms.restricted import RestrictedMechanism

_MIN_FOR_TESTS, _MAX_FOR_TESTS = Fraction(1, 3), Fraction(1, 2)


@dataclass(frozen=True)
class RestrictedNormal(RestrictedMechanism):
    """Gaussian noise on the top kbar counts, the k largest, then the framework's tests.

    The tests spend epsilon_r = 4 epsilon / max_items_per_user, but at least a third and at most half of epsilon: as
    published it passes epsilon for fewer than 4 items per user and starves the tests for many. The noise spends the
    rest; delta is halved between the two.

    Args:
        epsilon, delta: of one release.
        max_items_per_user: the bound that the counts were made under.
        kbar: how many items compete; None for 10 k, at least 100.
        neighbours: "add-remove"; or "replace-one": at most twice as many counts move, so the Gaussian's scale grows by
            sqrt(2), while the tests' noises and 1 double.

    Guarantee: at most `unstable(kbar)` slots move, by 1 each, so the l_2 sensitivity is the root of that, and Gaussian
    noise of the analytic scale is (epsilon - epsilon_r, delta / 2)-DP. (Theorem 8 of the source multiplies epsilon by
    the sensitivity once more; the scale already contains it.)
    Source: Carvalho & Wang, Appendix E; Balle & Wang 2018, Theorem 8.
    """

    about: ClassVar[About] = About(
        name="restricted-normal",
        cost="O(kbar)",
        source="Carvalho & Wang, Appendix E",
        when="the items are not public and a user holds fewer of them than about k",
    )
    guarantee: ClassVar[Guarantee] = Guarantee("approximate", "unknown", "sequence", metric="amounts")

    epsilon: float
    delta: float
    max_items_per_user: int
    kbar: int | None = None
    neighbours: Neighbours = "add-remove"

    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        portion = min(max(Fraction(4, self.max_items_per_user), _MIN_FOR_TESTS), _MAX_FOR_TESTS)
        return portion * Fraction(self.epsilon), Fraction(self.delta) / 2

    def inner(self, k: int) -> Gaussian:
        epsilon_r, delta_r = self.test_budget(k)
        epsilon, delta = Fraction(self.epsilon) - epsilon_r, Fraction(self.delta) - delta_r
        return _OfSlots(epsilon, delta, self.max_items_per_user, self.neighbours, cap=self.cap)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _OfSlots(Gaussian):
    """`Gaussian` calibrated to the slots that move: to them as they are, and not to their order alone."""

    guarantee: ClassVar[Guarantee] = Gaussian.guarantee

    def squared_sensitivity(self, d: int) -> Fraction:
        assert self.max_items_per_user is not None
        return Fraction(min(sensitivity(self.neighbours) * self.max_items_per_user, d))
