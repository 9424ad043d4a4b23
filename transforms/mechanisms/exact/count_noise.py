"""The noise of published counts: what it is drawn from, and how far it reaches."""

from __future__ import annotations

import abc
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from private_topk.transforms.mechanisms.exact.accounting import at_most
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import gamma_real, noise_real
from private_topk.transforms.mechanisms.exact.reals import Real, ball, floor, precision, relative_float, uniform

_OWN, _SHARED, _RADIUS = 0, 1, 2  # lanes
_SUMMED = 64  # variances from here on grow by 1/12 when rounded, to within one part in a million
_DIGITS = 6
_PRECISION = 128


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
    size = min(relative_float(lambda: squared().sqrt()), sys.float_info.max)  # nothing else is a number in JSON
    return float(f"{size:.{_DIGITS}g}")


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


def rounded(value: Real) -> int:
    """The whole number next to a real that does not lie halfway between two."""
    return floor(lambda: value() + arb(0.5))


def as_int64(whole: ArrayLike) -> NDArray[np.int64]:
    """Of numbers of any size the nearest ones that a column of integers can hold."""
    return np.clip(np.asarray(whole, object), -(2**63), 2**63 - 1).astype(np.int64)


class _Rounded(CountNoise):
    """Real noises, rounded."""

    @abc.abstractmethod
    def reals(self, size: int, draw: Draw) -> list[Real]:
        """The noises before they are rounded."""

    @abc.abstractmethod
    def tail(self, distance: Fraction) -> Real:
        """P(|noise| > distance) before it is rounded."""

    def sample(self, size: int, draw: Draw) -> list[int]:
        return [rounded(noise) for noise in self.reals(size, draw)]

    def beyond(self, whole: int) -> Real:
        return self.tail(whole + Fraction(1, 2))


@dataclass(frozen=True)
class RoundedLaplace(_Rounded):
    """Laplace noise on the real line, of its own for every count."""

    scale: Fraction

    def reals(self, size: int, draw: Draw) -> list[Real]:
        def noise(own: Real) -> Real:
            return lambda: ball(self.scale) * own()

        return [noise(noise_real(draw, _OWN, i, "laplace")) for i in range(size)]

    def tail(self, distance: Fraction) -> Real:
        return lambda: (-ball(distance / self.scale)).exp()

    def variance(self) -> Fraction:
        return 2 * self.scale**2


@dataclass(frozen=True)
class SharedGaussian(_Rounded):
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
