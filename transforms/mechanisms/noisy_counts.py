"""Publishing the counts of the items that a mechanism has chosen, with noise whose size is public."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from math import isqrt
from numbers import Real as AnyReal
from typing import Any, ClassVar, cast

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from private_topk.transforms.errors import InvalidArgument, plain
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import at_most, gaussian_scale
from private_topk.transforms.mechanisms.exact.bits import Draw, RandomBits
from private_topk.transforms.mechanisms.exact.noise import gamma_real, noise_real
from private_topk.transforms.mechanisms.exact.reals import Real, ball, floor, precision, relative_float, uniform
from private_topk.transforms.mechanisms.mechanism import Indices, Neighbours, sensitivity
from private_topk.transforms.mechanisms.parameters import check_parameter

_ROOT_BITS = 32
_OWN, _SHARED, _RADIUS = 0, 1, 2  # lanes
_SUMMED = 64  # variances from here on grow by 1/12 when rounded, to within one part in a million
_DIGITS = 6
_PRECISION = 128


@dataclass(frozen=True)
class CountBudget:
    """What publishing noisy counts of the released items costs, on top of the mechanism's own budget.

    Args:
        delta: 0 for a pure release, above 0 for Gaussian noise.
        round_to: counts are published as multiples of this, the nearest ones: rounding what is public anyway.
    """

    identity_tag: ClassVar[str] = "count-budget"

    epsilon: float | Fraction
    delta: float | Fraction = 0.0
    round_to: int = field(
        default=1, metadata={"not_in_fingerprint": "rounding comes after the draw: the same noise either way"}
    )

    @classmethod
    def of(cls, given: object) -> CountBudget:
        """A budget; a number is its epsilon. Raises InvalidArgument for anything else."""
        if isinstance(given, CountBudget):
            return given
        if isinstance(given, bool) or not isinstance(given, AnyReal):
            raise InvalidArgument(
                "publish_counts", f"must be an epsilon such as 0.5, or a CountBudget, got {type(given).__name__}"
            )
        try:
            return CountBudget(cast(float, given))
        except InvalidArgument as refusal:
            raise InvalidArgument("publish_counts", refusal.rule) from None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_parameter("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_parameter("delta", self.delta) if self.delta else 0.0)
        if isinstance(self.round_to, bool) or not isinstance(self.round_to, int) or self.round_to < 1:
            raise InvalidArgument("round_counts", f"must be a whole number of at least 1, got {self.round_to!r}")

    def parameters(self) -> dict[str, Any]:
        """What the noise depends on, by name, as JSON."""
        return {"epsilon": plain(self.epsilon), "delta": plain(self.delta)}

    def cost(self) -> Cost:
        """What publishing counts costs: Gaussian noise is (1 / 2 s**2)-zCDP, whatever the number of counts."""
        epsilon, delta = Fraction(self.epsilon), Fraction(self.delta)
        return Cost.gaussian(epsilon, delta) if delta else Cost(epsilon)

    def rounded(self, counts: np.ndarray) -> np.ndarray:
        """The nearest multiples of `round_to`, int64; halves go up."""
        if self.round_to == 1:
            return counts
        steps = (counts.astype(object) + self.round_to // 2) // self.round_to * self.round_to
        return np.clip(steps, -(2**63), 2**63 - 1).astype(np.int64)


def publish_counts(
    counts: ArrayLike,
    chosen: ArrayLike,
    bits: RandomBits,
    epsilon: float | Fraction,
    delta: float | Fraction | None = None,
    max_items_per_user: int | None = None,
    neighbours: Neighbours = "add-remove",
    cap: int = 1,
    moving: bool = False,
) -> Indices:
    """Noisy counts of the chosen items, for a budget of their own on top of the selection's.

    Args:
        counts: users per item, or units, shape (d,).
        chosen: what the selection released, indices into counts, shape (n,).
        bits: its next draw is taken.
        epsilon, delta, max_items_per_user, neighbours, cap, moving: of `noise_of_counts`, which says what noise and
            why.

    Returns:
        int64, shape (n,), in the order of `chosen`; a noisy count may be negative. What does not fit in int64, for
        epsilon below about 1e-18, becomes the nearest number that does.

    Raises:
        InvalidArgument: epsilon, delta or max_items_per_user breaks its rule.
    """
    exact = np.asarray(counts)[np.asarray(chosen, np.int64)].astype(np.int64)
    noise = noise_of_counts(max(len(exact), 1), epsilon, delta, max_items_per_user, neighbours, cap, moving)
    draw = bits.draw()
    if not len(exact):
        return exact
    noisy = exact.astype(object) + noise.sample(len(exact), draw)  # Python's integers
    return np.clip(noisy, -(2**63), 2**63 - 1).astype(np.int64)


def noise_of_counts(
    size: int,
    epsilon: float | Fraction,
    delta: float | Fraction | None = None,
    max_items_per_user: int | None = None,
    neighbours: Neighbours = "add-remove",
    cap: int = 1,
    moving: bool = False,
) -> CountNoise:
    """The noise of `size` published counts: of what is proved below, the one of least variance.

    One user moves at most j of the n = `size` counts, each by 1: j is the smaller of n and m = `max_items_per_user`
    (2m under "replace-one"). A user who is added or removed moves all of these the same way.

    Without delta the counts are epsilon-DP by one of
    - discrete Laplace noise of scale j / epsilon for each: j is the l_1 sensitivity;
    - a vector of density proportional to exp(-epsilon N(z)), N a norm that is at most 1 for every move of one user
      (Hardt & Talwar 2010). Under add-remove N(z) = max(0, z_1, ...) - min(0, z_1, ...), 1 for the moves in {0, 1}**n
      and in {-1, 0}**n: variance (n + 2) (n + 3) / 6 epsilon**2, against 2 n**2 of Laplace noise. Under
      "replace-one" N is the largest |z_i|: (n + 1) (n + 2) / 3 epsilon**2. A rounded vector has 1/12 more.

    With delta they are (epsilon, delta)-DP by Gaussian noise, of which part is shared. Let s be the standard deviation
    for a sensitivity of 1 (Balle & Wang 2018, exact). With covariance s**2 (a I + b J), J all ones, and c = b / (a + n
    b), a move of r counts has the squared length (r - c r**2) / a in the noise's metric, since the inverse of a I + b J
    is (I - c J) / a. So a = max over r <= j of r - c r**2 is enough, and every c in [0, 1/n) is private. The variance
    a + b is least, up to r being whole, at c = (1 - t) / n, t = sqrt((n - l) / (l (n - 1))), with l the lesser of j and
    (n + sqrt(n)) / 2; whole r are searched beside it. Without a bound that is (sqrt(n) + 1) / 2 times s for each count
    in place of sqrt(n) (Lebeda 2024), and with one never more than sqrt(j). Under "replace-one" counts move both ways,
    r - c r**2 becomes r - c (sum of the moves)**2, largest where they cancel, and c = 0 is best.

    With `moving`, a user who is replaced may also leave the counts of one ranking and enter those of another, and both
    together must cost no more: one who comes or goes costs half. Pure noise is then that of "add-remove" at half of
    epsilon, which covers a replacement as one step after another. Of Gaussian noise squared lengths add up, so that a
    is as under "replace-one" and c the least for which 2 (r - c r**2) <= a at every r <= min(n, m): (m - a / 2) / m**2,
    0 where 2m <= n, and never more than 1 / 2n, which adds 1 to a variance of n.

    Where a user moves a count by anything in [0, cap], all of this grows in proportion to cap: N is at most cap, and
    the squared length, convex, is largest at a corner of the cube.

    Raises:
        InvalidArgument: epsilon, delta or max_items_per_user breaks its rule.

    Cost: about 5 ms, once.
    """
    budget = Fraction(check_parameter("epsilon", epsilon))
    slack = None if delta is None else Fraction(check_parameter("delta", delta))
    limit = check_parameter("max_items_per_user", max_items_per_user)
    swapped, held = neighbours == "replace-one", min(size, limit or size)
    moved = min(size, sensitivity(neighbours) * held)
    if slack is None:
        if swapped and moving:
            return _pure(size, held, budget / (2 * cap), swapped=False)
        return _pure(size, moved, budget / cap, swapped)
    unit = cap**2 * gaussian_scale(budget, slack, Fraction(1)) ** 2
    if swapped and moving:
        c = max((held - Fraction(moved, 2)) / held**2, Fraction(0))
        return CorrelatedGaussian(unit * moved, unit * moved * c / (1 - size * c))
    return _gaussian(size, moved, unit, swapped)


def _pure(size: int, moved: int, rate: Fraction, swapped: bool) -> CountNoise:
    laplace = IndependentLaplace(moved / rate)
    ball = Cube(size, rate) if swapped else Spread(size, rate)
    # Rounding adds 1/12 to the one; the other is whole-numbered from the start.
    return ball if ball.variance() + Fraction(1, 12) < laplace.variance() else laplace


@lru_cache(maxsize=1024)
def _gaussian(size: int, moved: int, unit: Fraction, swapped: bool) -> CountNoise:
    own, shared = _parts(size, moved, Fraction(0)) if swapped else min(_choices(size, moved), key=sum)
    return CorrelatedGaussian(unit * own, unit * shared)


def _choices(size: int, moved: int) -> Iterator[tuple[Fraction, Fraction]]:
    """a and b for the c that may be best, up to their last bits: any other is as private.

    For a given r that decides a, the best c is that with r for l, unless r + 1 decides from an earlier c on, 1 / (2r +
    1). Only those r matter that are next to l.
    """
    most = min(Fraction(moved), (size + _root(Fraction(size))) / 2)
    near = range(max(int(most) - 1, 1), min(int(most) + 2, moved) + 1)
    for r in sorted({most, *map(Fraction, near)}):
        best = (1 - _root((size - r) / (r * (size - 1)))) / size if size > 1 else Fraction(0)
        yield from (_parts(size, moved, c) for c in (best, 1 / (2 * r + 1)) if c * size < 1)


def _parts(size: int, moved: int, c: Fraction) -> tuple[Fraction, Fraction]:
    own = _longest(c, moved)
    return own, own * c / (1 - size * c)


def _longest(c: Fraction, moved: int) -> Fraction:
    """The largest r - c r**2 over whole r from 1 to `moved`."""
    turn = min(int(1 / (2 * c)), moved) if c else moved
    return max(r - c * r**2 for r in {max(turn, 1), min(turn + 1, moved)})


def _root(value: Fraction) -> Fraction:
    """The square root in exact arithmetic, up to 2**-32 of its unit: the same on every machine."""
    return Fraction(isqrt((value.numerator << 2 * _ROOT_BITS) // value.denominator), 1 << _ROOT_BITS)


@dataclass(frozen=True)
class CountNoise(abc.ABC):
    """The noise of a number of counts, all of one law."""

    @abc.abstractmethod
    def sample(self, size: int, draw: Draw) -> list[int]:
        """The noises of `size` counts, in whole numbers."""

    @abc.abstractmethod
    def beyond(self, whole: int) -> Real:
        """P(|noise| > whole), whole >= 0, for the noise of any one count."""

    @abc.abstractmethod
    def variance(self) -> Fraction:
        """Of one count's noise before it is rounded; of whole-numbered noise a bound on it."""

    def stddev(self) -> float:
        """The standard deviation of one count's noise as it is published, to six digits."""
        return _stddev(self)

    def half_width(self, confidence: Fraction) -> int:
        """The least w for which |noise| <= w has at least that probability, for any one count."""
        return _half_width(self, confidence)


@lru_cache(maxsize=1024)
def _stddev(noise: CountNoise) -> float:
    variance = noise.variance()
    if variance >= _SUMMED:
        squared = lambda: ball(variance + Fraction(1, 12))  # noqa: E731
    else:
        with precision(_PRECISION):
            rest, whole, total = noise.beyond(0)(), 0, arb(0)
            while rest > 2.0**-60:
                total, whole = total + (2 * whole + 1) * rest, whole + 1
                rest = noise.beyond(whole)()
        squared = lambda: total + 0  # noqa: E731
        if total == 0:
            return 0.0
    return float(f"{relative_float(lambda: squared().sqrt()):.{_DIGITS}g}")


@lru_cache(maxsize=1024)
def _half_width(noise: CountNoise, confidence: Fraction) -> int:
    def within(whole: int) -> bool:
        return at_most(noise.beyond(whole), 1 - confidence)

    least, most = -1, 1
    while not within(most):
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if within(middle) else (middle, most)
    return most


@dataclass(frozen=True)
class IndependentLaplace(CountNoise):
    """Discrete Laplace noise, P(x) in proportion to exp(-|x| / scale), of its own for every count."""

    scale: Fraction

    def sample(self, size: int, draw: Draw) -> list[int]:
        return [discrete_laplace(draw, self.scale) for _ in range(size)]

    def beyond(self, whole: int) -> Real:
        rate = 1 / self.scale
        return lambda: 2 * (-ball(rate) * (whole + 1)).exp() / (1 + (-ball(rate)).exp())

    def variance(self) -> Fraction:
        # 2 q / (1 - q)**2 with q = exp(-1 / s) is 1 / (2 sinh(1 / 2s)**2): 2 s**2 - 1/6 for large s, and less always.
        return max(2 * self.scale**2 - Fraction(1, 6), Fraction(0))


class _Rounded(CountNoise):
    """Real noises, rounded."""

    @abc.abstractmethod
    def reals(self, size: int, draw: Draw) -> list[Real]:
        """The noises before they are rounded."""

    @abc.abstractmethod
    def tail(self, distance: Fraction) -> Real:
        """P(|noise| > distance) before it is rounded."""

    def sample(self, size: int, draw: Draw) -> list[int]:
        def rounded(noise: Real) -> int:
            return floor(lambda: noise() + arb(0.5))

        return [rounded(noise) for noise in self.reals(size, draw)]

    def beyond(self, whole: int) -> Real:
        return self.tail(whole + Fraction(1, 2))


@dataclass(frozen=True)
class CorrelatedGaussian(_Rounded):
    """Gaussian noise of variance `own` for each count, and one of variance `shared` added to all of them."""

    own: Fraction
    shared: Fraction

    def reals(self, size: int, draw: Draw) -> list[Real]:
        shared = noise_real(draw, _SHARED, 0, "gaussian")

        def noise(i: int) -> Real:
            own = noise_real(draw, _OWN, i, "gaussian")
            if not self.shared:
                return lambda: ball(self.own).sqrt() * own()
            return lambda: ball(self.own).sqrt() * own() + ball(self.shared).sqrt() * shared()

        return [noise(i) for i in range(size)]

    def tail(self, distance: Fraction) -> Real:
        return lambda: (ball(distance**2 / (2 * self.variance())).sqrt()).erfc()

    def variance(self) -> Fraction:
        return self.own + self.shared


@dataclass(frozen=True)
class Cube(_Rounded):
    """Density in proportion to exp(-rate |z|_inf): a radius of law Gamma(size + 1), times uniforms on [-1, 1]."""

    size: int
    rate: Fraction

    def reals(self, size: int, draw: Draw) -> list[Real]:
        radius, points = gamma_real(size + 1, draw, _RADIUS), [uniform(draw, _OWN, i) for i in range(size)]

        def noise(point: Real) -> Real:
            return lambda: radius() / ball(self.rate) * (2 * point() - 1)

        return [noise(point) for point in points]

    def tail(self, distance: Fraction) -> Real:
        x = distance * self.rate
        return lambda: _upper(self.size + 1, x) - ball(x / self.size) * _upper(self.size, x)

    def variance(self) -> Fraction:
        return Fraction((self.size + 1) * (self.size + 2), 3) / self.rate**2


@dataclass(frozen=True)
class Spread(_Rounded):
    """Density in proportion to exp(-rate N(z)), N(z) = max(0, z_1, ..., z_n) - min(0, z_1, ..., z_n), n = `size`.

    N is a norm: the spread of n + 1 points of which the first is 0. Its unit ball has the volume n + 1: one of n + 1
    points is the least, and the others lie anywhere up to 1 above. So z is a radius of law Gamma(n + 1) times the
    places, seen from the first, of n + 1 points of which a uniform one is at 0 and the others are uniform on [0, 1].
    Of one z_i: with chance 2 / (n + 1) it or the first point is the least, and it is uniform on [-1, 1] times the
    radius; otherwise it is the difference of two uniforms. That gives variance and tail.
    """

    size: int
    rate: Fraction

    def reals(self, size: int, draw: Draw) -> list[Real]:
        radius, least = gamma_real(size + 1, draw, _RADIUS), draw.below(size + 1)
        first, *points = (partial(arb, 0) if i == least else uniform(draw, _OWN, i) for i in range(size + 1))

        def noise(point: Real) -> Real:
            return lambda: radius() / ball(self.rate) * (point() - first())

        return [noise(point) for point in points]

    def tail(self, distance: Fraction) -> Real:
        n, x = self.size, distance * self.rate

        def value() -> arb:
            last = _upper(n - 1, x) * ball(x**2 / (n * (n + 1))) if n > 1 else arb(0)
            return _upper(n + 1, x) - ball(2 * x / (n + 1)) * _upper(n, x) + last

        return value

    def variance(self) -> Fraction:
        return Fraction((self.size + 2) * (self.size + 3), 6) / self.rate**2


def _upper(shape: int, x: Fraction) -> arb:
    """P(a gamma number of that shape is above x)."""
    return ball(x).gamma_upper(arb(shape), regularized=1)


def discrete_laplace(draw: Draw, scale: Fraction) -> int:
    """An integer x with probability in proportion to exp(-|x| / scale)."""
    t, s = scale.numerator, scale.denominator
    while True:
        fine = draw.below(t)
        if not _heads(draw, Fraction(fine, t)):
            continue
        whole = 0
        while _heads(draw, Fraction(1)):
            whole += 1
        size, negative = (fine + t * whole) // s, draw.below(2)
        if size or not negative:
            return -size if negative else size


def _heads(draw: Draw, exponent: Fraction) -> bool:
    """True with probability exp(-exponent)."""
    while exponent > 1:
        if not _heads(draw, Fraction(1)):
            return False
        exponent -= 1
    # 1 - x + x**2/2! - ...: the run of successes with chances x, x/2, x/3, ... has even length.
    run = 0
    while draw.below(exponent.denominator * (run + 1)) < exponent.numerator:
        run += 1
    return run % 2 == 0
