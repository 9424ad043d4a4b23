"""One noise vector for all counts from the l_inf ball: the Gamma mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from private_topk.transforms.mechanisms.exact.argmax import Levels, largest_ranks
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Blocks, Histogram, rising_cuts
from private_topk.transforms.mechanisms.exact.noise import float_rate, gamma_real
from private_topk.transforms.mechanisms.exact.reals import Real, ball, relative_float
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Mechanism, Neighbours

_DIRECTION, _RADIUS = 0, 64  # lanes


@dataclass(frozen=True)
class Gamma(Mechanism):
    """The k largest of count + noise, in order; the noise vector has density in proportion to exp(-2 epsilon |x|_inf).

    Such a vector is R * U with R the sum of d + 1 exponentials of scale 1 / (2 epsilon) and U uniform in [-1, 1]**d
    (Steinke & Ullman 2016, Theorem 4.1). An order is the same when all counts move by 1/2, so a user who is added or
    removed moves them as if by at most 1/2 either way: all noisy counts that are moved so are epsilon-DP together, and
    their order is post-processing. Under "replace-one" a user moves counts by up to 1 either way, and the scale is 1 /
    epsilon, that of the theorem.
    Cost: a pass over the counts, then a few times k noises, whatever the counts are.
    """

    about: ClassVar[About] = About(
        name="gamma",
        cost="one pass, then O(k)",
        source="Steinke & Ullman 2016, Theorem 4.1; half the radius ours",
        when="k close to d: noise grows with d, but not with k",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "pure", "public", "sequence", metric="amounts", replacement_costs_one_draw=True
    )

    epsilon: float
    neighbours: Neighbours = "add-remove"

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        epsilon, d = 2 * Fraction(self.epsilon) / self.sensitivity, histogram.items
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
        return largest_ranks(histogram, Blocks.of(histogram, k, cuts, rounded=True), levels, k, draw, _DIRECTION)
