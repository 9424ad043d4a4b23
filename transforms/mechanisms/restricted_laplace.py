"""RestrictedLaplace: the restricted-domain framework over one-shot Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.laplace import Laplace
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Neighbours
from private_topk.transforms.mechanisms.restricted import RestrictedMechanism

_FOR_TESTS = Fraction(1, 4)


@dataclass(frozen=True)
class RestrictedLaplace(RestrictedMechanism):
    """Laplace noise of scale b once on the top kbar counts, the k largest, then the framework's tests.

    The tests spend a quarter of epsilon and all of delta, the noise the other three quarters:
    b = min(k, max_items_per_user) / (3 epsilon / 4).

    Args:
        epsilon, delta: of one release.
        max_items_per_user: the bound that the counts were made under, or None.
        kbar: how many items compete; None for 10 k, at least 100.
        neighbours: "add-remove" or "replace-one", where all noises and the framework's 1 double.

    Guarantee: on counts that all move the same way, the k largest in their order cost k / b (Ding et al. 2019,
    Qiao et al. 2021); the noisy counts as a whole cost max_items_per_user / b. The framework does the rest.
    Source: Carvalho & Wang, section 7; Qiao, Su & Zhang 2021.
    """

    about: ClassVar[About] = About(
        name="restricted-laplace",
        cost="O(kbar)",
        source="Carvalho & Wang, section 7; Qiao, Su & Zhang 2021",
        when="the items are not public, and k is small or a user holds few items",
    )
    guarantee: ClassVar[Guarantee] = Guarantee("approximate", "unknown", "sequence", metric="amounts")

    epsilon: float
    delta: float
    max_items_per_user: int | None = None
    kbar: int | None = None
    neighbours: Neighbours = "add-remove"

    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        return _FOR_TESTS * Fraction(self.epsilon), Fraction(self.delta)

    def inner(self, k: int) -> Laplace:
        rest = Fraction(self.epsilon) - self.test_budget(k)[0]
        return Laplace(rest, self.max_items_per_user, self.neighbours, cap=self.cap)  # type: ignore[arg-type]  # exact
