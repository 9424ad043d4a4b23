"""Mechanisms that add noise to counts and take the largest: which noise, of which scale, and what that proves."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from private_topk.transforms.mechanisms.cost import Cost, rho_of_pure
from private_topk.transforms.mechanisms.exact.accounting import (
    gaussian_scale,
    per_round_epsilon,
    squared_order_sensitivity,
)
from private_topk.transforms.mechanisms.exact.argmax import Largest, Levels, largest_ranks, noisy_ranks
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.count_noise import (
    CountNoise,
    Cube,
    RoundedLaplace,
    SharedGaussian,
    as_int64,
    rounded,
)
from private_topk.transforms.mechanisms.exact.flips import FlipRounds
from private_topk.transforms.mechanisms.exact.histogram import Blocks, Histogram, rising_cuts
from private_topk.transforms.mechanisms.exact.noise import check_noise, float_rate, gamma_real
from private_topk.transforms.mechanisms.exact.reals import Real, ball, relative_float
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours, sensitivity
from private_topk.transforms.mechanisms.parameters import parameter

_PURE = Guarantee("pure", "public", "sequence", metric="amounts", replacement_costs_one_draw=True)
_APPROXIMATE = replace(_PURE, privacy="approximate")
_RADIUS = 64  # a lane beyond those of `largest_ranks`


@dataclass(frozen=True)
class NoisyOrder(Mechanism):
    """The k largest of count + scale * noise, in order. A subclass says which noise and scale, and what they prove.

    Cost: a pass over the counts, then a few times k noises, whatever the counts are.
    """

    @abc.abstractmethod
    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        """The name of the noise and its scale in units of the counts, for k of d items."""

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        return self._largest(histogram, k, draw).ranks

    def select_counted(self, histogram: Histogram, k: int, draw: Draw) -> tuple[Indices, Indices]:
        largest, scale = self._largest(histogram, k, draw), self.noise_and_scale(histogram.items, k)[1]
        return largest.ranks, as_int64([rounded(_times(scale, score)) for score in largest.scores])

    def _largest(self, histogram: Histogram, k: int, draw: Draw) -> Largest:
        noise, scale = self.noise_and_scale(histogram.items, k)
        return noisy_ranks(histogram, scale, noise, k, draw)


def _times(scale: Fraction, score: Real) -> Real:
    return lambda: ball(scale) * score()


@dataclass(frozen=True)
class Oneshot(NoisyOrder):
    """The k largest of count + (k / epsilon) * noise, in order.

    The set is epsilon-DP for any noise with log(1 - F) 1-Lipschitz (Shekelyan & Loukides 2023, Theorem 4.1, with
    sensitivity 1/2). The *order* is covered too, for each of the five noises: their densities satisfy
    f(x + s) >= exp(-s) f(x) for s >= 0. Hold the noise of the items not chosen. If a user comes, raise the noise of
    each chosen item whose count stayed by one count; if a user leaves, that of each chosen item whose count fell. Then
    all chosen noisy counts rise by 1, or stay, while the others rise by at most 1, or fall: same items, same order, and
    the densities of k noises each fell by a factor of at most exp(epsilon / k).
    Under "replace-one" noises rise by at most 2 counts, so the scale doubles. With Gumbel noise this is `peeling`.

    `noise` is one of gumbel, exponential, laplace, logistic, half-logistic.
    """

    about: ClassVar[About] = About(
        name="oneshot",
        cost="one pass, then O(k)",
        source="Shekelyan & Loukides 2023, Theorem 4.1 (kappa = k)",
        when="pure privacy in one pass over the counts",
    )
    guarantee: ClassVar[Guarantee] = _PURE

    epsilon: float
    noise: str = parameter("exponential", help="gumbel, exponential, laplace, logistic or half-logistic")
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise(self.noise)

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return self.noise, self.sensitivity * k / Fraction(self.epsilon)

    def cost(self, k: int) -> Cost:
        """With Gumbel noise that of `peeling`; else what pure privacy alone gives."""
        return Cost.peeled(k, Fraction(self.epsilon) / k) if self.noise == "gumbel" else super().cost(k)


@dataclass(frozen=True)
class Peeling(NoisyOrder):
    """k exponential mechanisms, each over the items not yet chosen and each with budget epsilon / k.

    Adding Gumbel noise of scale k / epsilon to every count once and taking the k largest in order has the same law
    (Durfee & Rogers 2019, Lemma 4.2): P(s_1, ..., s_k) is the product over rounds of
    exp(epsilon c / k) over its sum over the items left.

    epsilon-DP by basic composition. A user added or removed moves all counts one way by 0 or 1, so a round needs no
    factor 2; under "replace-one" counts move both ways and the scale doubles.
    """

    about: ClassVar[About] = About(
        name="peeling",
        cost="one pass, then O(k)",
        source="Durfee & Rogers 2019, Lemma 4.2",
        when="small k; pure privacy with the exponential mechanism's simple law",
    )
    guarantee: ClassVar[Guarantee] = _PURE

    epsilon: float
    neighbours: Neighbours = "add-remove"

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return "gumbel", self.sensitivity * k / Fraction(self.epsilon)

    def cost(self, k: int) -> Cost:
        """k exponential mechanisms at epsilon / k: rho = epsilon**2 / (8 k), but no bounded range of epsilon."""
        return Cost.peeled(k, Fraction(self.epsilon) / k)


@dataclass(frozen=True)
class CdpPeeling(NoisyOrder):
    """k exponential mechanisms, each over the items not yet chosen, together (epsilon, delta)-DP.

    The share s of a round is the largest that one of two proofs allows (`per_round_epsilon`): basic composition, which
    gives epsilon / k; and the largest Renyi divergence of an s-bounded-range draw, added over rounds. Adding Gumbel
    noise of scale 1 / s once and taking the k largest in order has the same law. Under "replace-one" the scale doubles.
    """

    about: ClassVar[About] = About(
        name="cdp-peeling",
        cost="one pass, then O(k)",
        source="Gillenwater et al. 2022; Dong, Durfee & Rogers 2020; Canonne, Kamath & Steinke 2020",
        when="a delta is acceptable and k is large: noise grows as sqrt(k), not k",
    )
    guarantee: ClassVar[Guarantee] = _APPROXIMATE

    epsilon: float
    delta: float
    neighbours: Neighbours = "add-remove"

    def share(self, k: int) -> Fraction:
        """The budget of one of k rounds: each is this much DP, as an exponential mechanism."""
        return per_round_epsilon(Fraction(self.epsilon), Fraction(self.delta), k)

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return "gumbel", self.sensitivity / self.share(k)

    def cost(self, k: int) -> Cost:
        """k exponential mechanisms at the share, rho = k share**2 / 8: neither rho nor the range needs the delta."""
        peeled = Cost.peeled(k, self.share(k))
        return Cost(Fraction(self.epsilon), Fraction(self.delta), peeled.rho, bounded_range=peeled.bounded_range)


@dataclass(frozen=True)
class Laplace(NoisyOrder):
    """The k largest of count + Laplace noise of scale min(k, m) / epsilon, in order.

    Scale k / epsilon: noisy top-k for monotone counts (Ding et al. 2019; Qiao et al. 2021; the order is covered).
    Scale m / epsilon, where nobody holds more than m = `max_items_per_user` items: one user moves the counts by at most
    m in l_1, so all noisy counts together are epsilon-DP, and their order is post-processing. The caller must have
    enforced m. Under "replace-one" both double: 2k (scores not monotone), 2m (m items given up, m others taken).

    With the noisy counts that decide, it is the second proof whatever k is: scale m / epsilon, and 2m / epsilon under
    "replace-one". Nobody moves more than all d counts, so without m the scale is d / epsilon under either relation.
    """

    about: ClassVar[About] = About(
        name="laplace",
        cost="one pass, then O(k)",
        source="Ding et al. 2019; Qiao, Su & Zhang 2021",
        when="pure privacy and far fewer items per user than k",
    )
    guarantee: ClassVar[Guarantee] = replace(_PURE, publishes_counts=True)

    epsilon: float
    max_items_per_user: int | None = None
    neighbours: Neighbours = "add-remove"

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        items = self.max_items_per_user
        if not self.with_counts:
            moved = self.sensitivity * min(k, items or k)
        else:
            moved = self.cap * d if items is None else self.sensitivity * items
        return "laplace", moved / Fraction(self.epsilon)

    def noise_of_counts(self, d: int, k: int) -> CountNoise:
        return RoundedLaplace(self.noise_and_scale(d, k)[1])

    def cost(self, k: int) -> Cost:
        """Where the noise is calibrated to m items, rho adds up over the counts that one user moves.

        Each of these is published with Laplace noise: `moved` pure releases of epsilon / moved, all others the same.
        """
        moved = sensitivity(self.neighbours) * (self.max_items_per_user or k)
        if self.max_items_per_user is None or (self.max_items_per_user > k and not self.with_counts):
            return super().cost(k)
        epsilon = Fraction(self.epsilon)
        return Cost(epsilon, rho=moved * rho_of_pure(epsilon / moved))


@dataclass(frozen=True)
class Gaussian(NoisyOrder):
    """The k largest of count + Gaussian noise, in order.

    An order is the same when all scores move together, so only the part of the noisy counts that is orthogonal to
    (1, ..., 1) matters. Of independent Gaussian noise of one standard deviation that part is independent Gaussian noise
    in d - 1 dimensions, and a user's move v reaches it as P v, |P v|**2 = |v|**2 - (sum of v)**2 / d. Where nobody
    holds more than m = `max_items_per_user` items (the caller must have enforced it), a user who is added or removed
    moves r <= m counts by 1: |P v|**2 = r (d - r) / d, largest at r = m, or without a bound, or with one above d / 2,
    at r = d / 2: a sensitivity of sqrt(d) / 2 at most. Under "replace-one" up to m counts go up and up to m others
    down: 2m, and where that is above d, d less 1 / d for an odd d, since as many go up as down but for one. The
    standard deviation is the smallest for which that distance is (epsilon, delta)-DP (Balle & Wang 2018, Theorem 8,
    exact), and the answer is post-processing. No calibration to k is proved for Gaussian noise, so none is offered: its
    tail is not Lipschitz, and the arguments for the other noises fail.

    With the noisy counts that decide, all of the noisy counts are covered and not their order alone: the distance is
    |v|**2 itself, m, under "replace-one" 2m, and d without a bound under either relation.
    """

    about: ClassVar[About] = About(
        name="gaussian",
        cost="one pass, then O(k)",
        source="Balle & Wang 2018, Theorem 8; the order's sensitivity ours",
        when="a delta is acceptable and far fewer items per user than k",
    )
    guarantee: ClassVar[Guarantee] = replace(_APPROXIMATE, publishes_counts=True)

    epsilon: float
    delta: float
    max_items_per_user: int | None = None
    neighbours: Neighbours = "add-remove"

    def scale(self, d: int) -> Fraction:
        """The standard deviation of the noise in units of the counts, for d items."""
        return self.cap * gaussian_scale(Fraction(self.epsilon), Fraction(self.delta), self.squared_sensitivity(d))

    def squared_sensitivity(self, d: int) -> Fraction:
        """How far one user can move the order's part of d counts, squared, in units of `cap`; 1 for a single count,
        whose order is one; or all of them, `with_counts`. The distance is convex in the move, so that moves between 0
        and cap reach no further.
        """
        if self.with_counts:
            items = self.max_items_per_user
            return Fraction(d if items is None else sensitivity(self.neighbours) * min(items, d))
        return squared_order_sensitivity(d, self.max_items_per_user or d, self.neighbours)

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return "gaussian", self.scale(d)

    def noise_of_counts(self, d: int, k: int) -> CountNoise:
        return SharedGaussian(self.scale(d) ** 2, Fraction(0))

    def cost(self, k: int) -> Cost:
        """That of Gaussian noise of the least standard deviation that the budget allows."""
        return Cost.gaussian(Fraction(self.epsilon), Fraction(self.delta))


@dataclass(frozen=True)
class PnfPeeling(Mechanism):
    """k rounds of permute-and-flip, each over the items not yet chosen and each with budget epsilon / k.

    A round of permute-and-flip is the largest of count + exponential noise of scale k / epsilon (McKenna & Sheldon
    2020, who prove a round's DP; the noise form is Ding et al. 2021). Every round has fresh noise: epsilon-DP by basic
    composition. Counts are monotone under "add-remove" (Remark 1 of the former), so no factor 2; under "replace-one"
    the scale doubles. Cost: a histogram of the counts, then D + k log D, about 10 microseconds a round.
    """

    about: ClassVar[About] = About(
        name="pnf-peeling",
        cost="one pass, then k log k",
        source="McKenna & Sheldon 2020; Gillenwater et al. 2022, Lemma 4.1",
        when="pure privacy item by item: for a single release never worse than peeling",
    )
    guarantee: ClassVar[Guarantee] = _PURE

    epsilon: float
    neighbours: Neighbours = "add-remove"

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        rounds = FlipRounds(histogram, Fraction(self.epsilon) / (self.sensitivity * k), k, draw)
        return np.fromiter((rounds.next() for _ in range(k)), np.int64, k)

    def cost(self, k: int) -> Cost:
        """k pure draws of epsilon / k: their rhos add up (Bun & Steinke 2016, Lemma 2.3).

        No bounded range: permute-and-flip is no exponential mechanism. From six zero counts, a user who joins three of
        the items makes log-ratios of four draws that lie 1.17 apart at epsilon = 1.
        """
        epsilon = Fraction(self.epsilon)
        return Cost(epsilon, rho=k * rho_of_pure(epsilon / k))


@dataclass(frozen=True)
class Gamma(Mechanism):
    """The k largest of count + noise, in order; the noise vector has density in proportion to exp(-2 epsilon |x|_inf).

    Such a vector is R * U with R the sum of d + 1 exponentials of scale 1 / (2 epsilon) and U uniform in [-1, 1]**d
    (Steinke & Ullman 2016, Theorem 4.1). An order is the same when all counts move by 1/2, so a user who is added or
    removed moves them as if by at most 1/2 either way: all noisy counts that are moved so are epsilon-DP together, and
    their order is post-processing. Under "replace-one" a user moves counts by up to 1 either way, and the scale is 1 /
    epsilon, that of the theorem. With the noisy counts that decide, the move by 1/2 cannot be left out, and the scale
    is 1 / epsilon under either relation.
    Cost: a pass over the counts, then a few times k noises, whatever the counts are.
    """

    about: ClassVar[About] = About(
        name="gamma",
        cost="one pass, then O(k)",
        source="Steinke & Ullman 2016, Theorem 4.1; half the radius ours",
        when="k close to d: noise grows with d, but not with k",
    )
    guarantee: ClassVar[Guarantee] = replace(_PURE, publishes_counts=True)

    epsilon: float
    neighbours: Neighbours = "add-remove"

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        return self._largest(histogram, k, draw)[0].ranks

    def select_counted(self, histogram: Histogram, k: int, draw: Draw) -> tuple[Indices, Indices]:
        largest, unit = self._largest(histogram, k, draw)

        def count(score: Real) -> Real:
            return lambda: unit() * (score() - 1)

        return largest.ranks, as_int64([rounded(count(score)) for score in largest.scores])

    def noise_of_counts(self, d: int, k: int) -> CountNoise:
        return Cube(d, self._rate())

    def _rate(self) -> Fraction:
        return Fraction(self.epsilon) / self.cap if self.with_counts else 2 * Fraction(self.epsilon) / self.sensitivity

    def _largest(self, histogram: Histogram, k: int, draw: Draw) -> tuple[Largest, Real]:
        """The largest scores, and their unit in counts: they are moved by 1 of it."""
        epsilon, d = self._rate(), histogram.items
        radius = gamma_real(d + 1, draw, _RADIUS)

        def level(count: int) -> Real:
            return lambda: ball(count * epsilon) / radius()

        # In units of the radius, and moved by 1: the largest of m numbers uniform in [0, 2] is 2 exp(-A).
        levels = Levels(
            rate=float_rate(epsilon / Fraction(relative_float(radius))),
            rate_error=2.0**-47,
            level=level,
            noise=lambda a: 2 * np.exp(-a),
            noise_error=lambda a: 2.0**-29 * a * np.exp(-a) + 2.0**-50,
            quantile=lambda a: 2 * (-a).exp(),
        )
        # The k-th score is about 2 k / d from the highest there is, or more; beyond two radii nobody matters.
        cuts = rising_cuts(k / epsilon / 8, 2 * (d + 1) / epsilon)
        blocks = Blocks.of(histogram, k, cuts, rounded=True)
        return largest_ranks(histogram, blocks, levels, k, draw), lambda: radius() / ball(epsilon)
