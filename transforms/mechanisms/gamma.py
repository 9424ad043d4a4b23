"""One noise vector for all counts from the l_inf ball: the Gamma mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np
from flint import arb, ctx

from private_topk.transforms.mechanisms.cost import Cost, rho_of_exponential, rho_of_pure
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import add_counts, certified_top, exponential_real, to_float
from private_topk.transforms.mechanisms.exact.reals import Real, ball, uniform
from private_topk.transforms.mechanisms.mechanism import About, Indices, Mechanism, Neighbours

__all__ = ["Gamma"]

_DIRECTION, _RADIUS = 0, 1  # lanes
_MOST = 1 - 2.0**-14
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Gamma(Mechanism):
    """The k largest of count + noise, in order; the noise vector has density in proportion to exp(-epsilon |x|_inf).

    Such a vector is R * U with R the sum of d + 1 exponentials of scale 1 / epsilon and U uniform in [-1, 1]**d
    (Steinke & Ullman 2016, Theorem 4.1). One user moves no count by more than 1, whether added, removed or replaced,
    so all noisy counts together are epsilon-DP under both relations, and their order is post-processing. (For
    the order alone, and users added or removed, half the radius would do: shifting all counts by 1/2 changes no order.
    The theorem's radius is kept.)
    Cost: O(d), about 20 ns an item.
    """

    about: ClassVar[About] = About(
        name="gamma",
        answer="sequence",
        guarantee="pure",
        domain="public",
        cost="O(d)",
        source="Steinke & Ullman 2016, Theorem 4.1",
        when="k close to d: noise grows with d, but not with k",
    )

    epsilon: float
    neighbours: Neighbours = "add-remove"

    def select(self, counts: Indices, k: int, draw: Draw) -> Indices:
        d, epsilon = len(counts), Fraction(self.epsilon)
        directions = draw.words(_DIRECTION, 0, d).astype(np.float64) * 2.0**-63
        radius, error = _radius_floats(d + 1, draw)
        scores, errors = add_counts(directions, counts, k, epsilon / Fraction(radius), 2.0**-50, error)
        # In units of the radius, and moved by 1: epsilon c / R + 1 + U, where 1 + U is twice a uniform in [0, 1].
        exact_radius = _radius_real(d + 1, draw)

        def score(i: int) -> Real:
            v = uniform(draw, _DIRECTION, i)
            return lambda: ball(int(counts[i]) * epsilon) / exact_radius() + 2 * v()

        return certified_top(scores, errors, k, score)

    def cost(self, k: int) -> Cost:
        """Under add-remove half of epsilon would do, and so the range is epsilon and rho at most epsilon**2 / 8.

        Shift all counts by 1/2: the order is the same, and each count moves by at most 1/2 either way. So the order is
        epsilon/2-DP, and its log-ratios lie in [-epsilon / 2, epsilon / 2].
        """
        epsilon = Fraction(self.epsilon)
        if self.neighbours == "swap":
            return super().cost(k)
        return Cost(epsilon, rho=min(rho_of_pure(epsilon / 2), rho_of_exponential(epsilon)), bounded_range=epsilon)


def _radius_floats(size: int, draw: Draw) -> tuple[float, float]:
    """The sum of `size` standard exponentials in floats, and a bound on its relative error."""
    parts = []
    for start in range(0, size, _CHUNK):
        v = draw.words(_RADIUS, start, min(_CHUNK, size - start)) * 2.0**-64
        late = np.flatnonzero(v > _MOST)
        parts += [to_float(exponential_real(draw, _RADIUS, start + int(i))) for i in late]
        parts.append(float(-np.log1p(-np.where(v > _MOST, 0, v)).sum()))
    radius = math.fsum(parts)
    # Below _MOST a rounding of V moves its logarithm by less than 2**-38. Sums in any order: 2**-37; log1p: 2**-40.
    return radius, 2.0**-36 + size * 2.0**-38 / radius


def _radius_real(size: int, draw: Draw) -> Real:
    """The same sum as an exact real: minus the logarithm of a product of uniforms."""

    @cache
    def at(bits: int) -> arb:
        levels = (bits >> 6) + 2
        words = [draw.words(_RADIUS, 0, size, level).tolist() for level in range(levels)]
        product, exponent = arb(1), -64 * levels - 1
        for digits in zip(*words, strict=True):
            number = 0
            for word in digits:
                number = number << 64 | word
            product *= 1 - arb((2 * number + 1, exponent), (1, exponent))
        return -product.log()

    return lambda: at(ctx.prec)
