"""The restricted-domain framework: an additive-noise top k on the top kbar items, cut where it turns unstable."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from private_topk.transforms.errors import InvalidArgument, verbatim
from private_topk.transforms.mechanisms.cost import Cost, rho_of_exponential, rho_of_pure
from private_topk.transforms.mechanisms.exact.accounting import largest_delta_q, per_round_epsilon
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import QUERY_LANE, first_crossing, log_threshold
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours, sensitivity
from private_topk.transforms.mechanisms.noisy_order import (
    CdpPeeling,
    Gamma,
    Gaussian,
    Laplace,
    Oneshot,
    Peeling,
    PnfPeeling,
)
from private_topk.transforms.mechanisms.unknown_domain import APPROXIMATE, UnknownDomainMechanism

_KINDS = (Peeling, CdpPeeling, PnfPeeling, Oneshot, Laplace, Gaussian, Gamma)
ADDITIVE: Mapping[str, type[Mechanism]] = {kind.about.name: kind for kind in _KINDS}
"""Mechanisms that add noise to counts and take the largest, by name."""
_QUARTER, _THIRD, _HALF = Fraction(1, 4), Fraction(1, 3), Fraction(1, 2)  # of epsilon, for the tests


@dataclass(frozen=True)
class RestrictedMechanism(UnknownDomainMechanism):
    """F(M, kbar, epsilon_r, delta_r): k candidates from M, then sparse vector tests in their order.

    The candidate i passes while h_i - h_(kbar+1) - 1 + Laplace(2 / epsilon_r) is above
    2 ln(1/q) / epsilon_r + Laplace(2 / epsilon_r) (one draw of the latter), q = `largest_delta_q(delta_r)`; the first
    that does not ends the answer.

    Guarantee: (epsilon_M + epsilon_r, delta_M + delta_r) for an (epsilon_M, delta_M)-DP M. On the slots of
    `unknown_domain`, M and the tests compose; when a user joins, all levels move the same way by at most 1, so that the
    tests cost epsilon_r (Lyu, Su & Li 2017, for monotonic queries). An unstable item comes out only if the first
    unstable candidate passes, at a level of at most 0: probability at most delta_r. For replace-one neighbours all
    noises and the 1 double. Source: Carvalho & Wang, Algorithm 1 and Theorem 2.
    """

    @abc.abstractmethod
    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        """(epsilon_r, delta_r): what the tests may spend."""

    @abc.abstractmethod
    def inner(self, k: int) -> Mechanism:
        """M, with what the tests leave of the budget."""

    def rest(self, k: int) -> tuple[Fraction, Fraction]:
        """(epsilon_M, delta_M): what the tests leave."""
        epsilon_r, delta_r = self.test_budget(k)
        return Fraction(self.parameter("epsilon")) - epsilon_r, Fraction(self.parameter("delta")) - delta_r

    def cost(self, k: int) -> Cost:
        """On the slots those of M and of the tests add up, but for an unstable item that passes."""
        epsilon_r, delta_r = self.test_budget(k)
        inner = self.inner(k).cost(k)
        rho = inner.rho + rho_of_tests(epsilon_r)
        return Cost(inner.epsilon + epsilon_r, inner.delta + delta_r, rho, zcdp_delta=inner.zcdp_delta + delta_r)

    def choose(self, top: Indices, k: int, draw: Draw) -> Indices:
        ranks = self.inner(k).select(Histogram.of(top[:-1]), k, draw)
        epsilon_r, delta_r = self.test_budget(k)
        threshold = log_threshold(1 / largest_delta_q(delta_r), "laplace", draw)
        gaps, scale = top[ranks] - top[-1] - self.sensitivity, 2 * self.sensitivity / epsilon_r
        places = np.arange(len(ranks))
        return ranks[
            : first_crossing(gaps, scale, threshold, "laplace", draw, addresses=places, lane=QUERY_LANE, up=False)
        ]


def rho_of_tests(epsilon_r: Fraction) -> Fraction:
    """What the framework's tests are: epsilon_r-DP, and of a bounded range of 3 epsilon_r / 2.

    A user joins. Let b be how far the (kbar + 1)-th count moves, so that each gap moves by some d in [-b, 1 - b]. That
    exactly t candidates pass has a probability that is an integral over the threshold. Raise it by 1 - b: the passes
    get no likelier than they were, and its density and the failure after them change by factors of at most
    exp((1 - b) epsilon_r / 2) and exp((1 - b - d) epsilon_r / 2), d being that of the one that fails. Lower it by b:
    the passes get no less likely, and the factors are at least exp(-b epsilon_r / 2) and exp(-(b + d) epsilon_r / 2).
    So the log-ratio is from -(2 b + d) epsilon_r / 2 to (2 - 2 b - d) epsilon_r / 2, and over all d from
    -(1 + b) epsilon_r / 2 to (2 - b) epsilon_r / 2. Under "replace-one" go by way of the lesser of every level before
    and after: two steps, each of half that range.
    """
    return min(rho_of_exponential(Fraction(3, 2) * epsilon_r), rho_of_pure(epsilon_r))


@dataclass(frozen=True)
class Restricted(RestrictedMechanism):
    """The framework over a mechanism given as an object; the named ones split one budget for you.

    Args:
        mechanism: M, one of `ADDITIVE` and none of one's own, with a sequence as its answer. Its neighbours are those
            of the result.
        epsilon_r, delta_r: the tests' budget.
        kbar: how many items compete; None for 10 k, at least 100.

    Guarantee: (mechanism.epsilon + epsilon_r, delta_r), plus mechanism.delta where it has one. The slots of
    `unknown_domain` do not need additive noise; the published proof does, and only what both cover is let in.

    Raises:
        InvalidArgument: M is none of these, or answers with a set.
    """

    about: ClassVar[About] = About(
        name="restricted",
        cost="that of M on kbar items",
        source="Carvalho & Wang, Algorithm 1",
        when="the items are not public and you split the budget between candidates and tests yourself",
    )
    guarantee: ClassVar[Guarantee] = APPROXIMATE

    mechanism: Mechanism
    epsilon_r: float
    delta_r: float
    kbar: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        name, kind = self.mechanism.about.name, type(self.mechanism)
        if ADDITIVE.get(name) is not kind:  # one's own may have such a name, and what it adds cannot be seen
            got = f"{kind.__qualname__} of {kind.__module__}" if name in ADDITIVE else name
            raise InvalidArgument(
                "mechanism",
                f"must be a built-in one that adds noise to counts ({', '.join(ADDITIVE)}), got {verbatim(got)}",
                "Lemma 1 of the framework argues that weaker competitors raise the probability of every answer left, "
                "which is false of joint mechanisms (counts 6, 3, 3, 4 against 5, 3, 3, 3; k = 2, kbar = 3)",
            )
        if self.mechanism.guarantee.answer != "sequence":
            raise InvalidArgument(
                "mechanism", f"must answer with a sequence, since the tests follow its order, got {verbatim(name)}"
            )
        object.__setattr__(self, "mechanism", replace(self.mechanism, cap=self.cap))

    @property
    def neighbours(self) -> str:
        return self.mechanism.parameter("neighbours", "add-remove")

    @property
    def max_items_per_user(self) -> int | None:
        """That of the mechanism inside: whoever counts for this one must enforce it."""
        return self.mechanism.parameter("max_items_per_user")

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "mechanism": f"{self.about.name} {self.mechanism!r}"}

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.mechanism.parameter("epsilon")) + Fraction(self.epsilon_r)

    @property
    def delta(self) -> Fraction:
        return Fraction(self.mechanism.parameter("delta", 0)) + Fraction(self.delta_r)

    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        return Fraction(self.epsilon_r), Fraction(self.delta_r)

    def inner(self, k: int) -> Mechanism:
        return self.mechanism


@dataclass(frozen=True)
class RestrictedGumbel(RestrictedMechanism):
    """Peeling exponential mechanisms on the top kbar items, then the framework's tests.

    The tests spend epsilon_r = 4 s, s the share of one of k draws at (epsilon, delta / 2), but at most epsilon / 2: as
    published, 4 s reaches the whole of epsilon at k = 4 and passes it below. The k draws spend the rest,
    (epsilon - epsilon_r, delta / 2), and the tests delta / 2.

    Source: Carvalho & Wang, Algorithm 3, Theorem 6 and section 8.2.
    """

    about: ClassVar[About] = About(
        name="restricted-gumbel",
        cost="O(kbar)",
        source="Carvalho & Wang, Algorithm 3",
        when="the items are not public and users hold any number of them",
    )
    guarantee: ClassVar[Guarantee] = APPROXIMATE

    epsilon: float
    delta: float
    kbar: int | None = None
    neighbours: Neighbours = "add-remove"

    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        epsilon, half = Fraction(self.epsilon), Fraction(self.delta) / 2
        return min(4 * per_round_epsilon(epsilon, half, k), _HALF * epsilon), half

    def share(self, k: int) -> Fraction:
        """The epsilon of each of the k draws."""
        return self.inner(k).share(k)

    def inner(self, k: int) -> CdpPeeling:
        return CdpPeeling(*self.rest(k), self.neighbours, cap=self.cap)  # type: ignore[arg-type]  # exact


@dataclass(frozen=True)
class RestrictedLaplace(RestrictedMechanism):
    """Laplace noise of scale b once on the top kbar counts, the k largest, then the framework's tests.

    The tests spend a quarter of epsilon and all of delta, the noise the other three quarters:
    b = min(k, max_items_per_user) / (3 epsilon / 4).

    Guarantee: on counts that all move the same way, the k largest in their order cost k / b (Ding et al. 2019,
    Qiao et al. 2021); the noisy counts as a whole cost max_items_per_user / b. The framework does the rest.
    """

    about: ClassVar[About] = About(
        name="restricted-laplace",
        cost="O(kbar)",
        source="Carvalho & Wang, section 7; Qiao, Su & Zhang 2021",
        when="the items are not public, and k is small or a user holds few items",
    )
    guarantee: ClassVar[Guarantee] = APPROXIMATE

    epsilon: float
    delta: float
    max_items_per_user: int | None = None
    kbar: int | None = None
    neighbours: Neighbours = "add-remove"

    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        return _QUARTER * Fraction(self.epsilon), Fraction(self.delta)

    def inner(self, k: int) -> Laplace:
        return Laplace(self.rest(k)[0], self.max_items_per_user, self.neighbours, cap=self.cap)  # type: ignore[arg-type]  # exact


@dataclass(frozen=True)
class RestrictedNormal(RestrictedMechanism):
    """Gaussian noise on the top kbar counts, the k largest, then the framework's tests.

    The tests spend epsilon_r = 4 epsilon / max_items_per_user, but at least a third and at most half of epsilon: as
    published it passes epsilon for fewer than 4 items per user and starves the tests for many. The noise spends the
    rest; delta is halved between the two. Under "replace-one" at most twice as many counts move, so that the Gaussian's
    scale grows by sqrt(2).

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
    guarantee: ClassVar[Guarantee] = APPROXIMATE

    epsilon: float
    delta: float
    max_items_per_user: int
    kbar: int | None = None
    neighbours: Neighbours = "add-remove"

    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        portion = min(max(Fraction(4, self.max_items_per_user), _THIRD), _HALF)
        return portion * Fraction(self.epsilon), Fraction(self.delta) / 2

    def inner(self, k: int) -> Gaussian:
        return _OfSlots(*self.rest(k), self.max_items_per_user, self.neighbours, cap=self.cap)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _OfSlots(Gaussian):
    """`Gaussian` calibrated to the slots that move: to them as they are, and not to their order alone."""

    guarantee: ClassVar[Guarantee] = Gaussian.guarantee

    def squared_sensitivity(self, d: int) -> Fraction:
        assert self.max_items_per_user is not None
        return Fraction(min(sensitivity(self.neighbours) * self.max_items_per_user, d))


@dataclass(frozen=True)
class RestrictedPnf(RestrictedMechanism):
    """k rounds of permute-and-flip on the top kbar counts, then the framework's tests.

    The tests spend a quarter of epsilon and all of delta, each round (3 epsilon / 4) / k.
    """

    about: ClassVar[About] = About(
        name="restricted-pnf",
        cost="O(kbar + k log kbar)",
        source="Carvalho & Wang, section 7; McKenna & Sheldon 2020",
        when="the items are not public and k is below about 10",
    )
    guarantee: ClassVar[Guarantee] = APPROXIMATE

    epsilon: float
    delta: float
    kbar: int | None = None
    neighbours: Neighbours = "add-remove"

    def test_budget(self, k: int) -> tuple[Fraction, Fraction]:
        return _QUARTER * Fraction(self.epsilon), Fraction(self.delta)

    def inner(self, k: int) -> PnfPeeling:
        return PnfPeeling(self.rest(k)[0], self.neighbours, cap=self.cap)  # type: ignore[arg-type]  # an exact rational, no float
