from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact import staircase
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.race import Region
from private_topk.transforms.mechanisms.joint_set import JointSet
from private_topk.transforms.testing import Law
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.set_contract import SetContract


class TestJointSet(SetContract):
    kind = JointSet
    mechanisms: ClassVar = [JointSet(1.0), JointSet(0.5, "exponential", "swap"), JointSet(Fraction(1, 3), "laplace")]
    small: ClassVar = (JointSet(1.0), (5, 3, 3, 1, 0), 2)

    def rate(self, mechanism: JointSet) -> Fraction:
        return Fraction(mechanism.epsilon) / (4 if mechanism.neighbours == "swap" else 2)

    def law(self, mechanism: JointSet, counts: tuple[int, ...], k: int) -> Law:
        return laws.best_set(counts, k, self.rate(mechanism), mechanism.noise)

    def regions(self, mechanism: JointSet, histogram: Histogram, k: int) -> tuple[Fraction, list[Region]]:
        return self.rate(mechanism), [staircase.SetLosses(histogram, k).everything()]

    def test_frequencies_on_a_larger_domain(self) -> None:
        """126 sets: many cuts of the losses, and sets drawn between two staircases; by loss and smallest count."""
        counts = (20, 9, 31, 17, 26, 20, 40, 4, 30)
        losses = laws.set_losses(counts, 4)
        self.frequencies_by(JointSet(0.3), counts, 4, lambda y: (losses[y], min(counts[i] for i in y)))


@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_astronomical_numbers_of_sets(noise: str) -> None:
    """ln binom(d, k) is 1,400: beyond what sums or products of floats hold (google-research's code raises past 745)."""
    counts = np.random.RandomState(3).permutation(10**6 // np.arange(1, 100_001))
    assert math.log(math.comb(100_000, 200)) > 745
    answer = JointSet(0.05, noise)(counts, 200, RandomBits.keyed(b"large"))
    assert len(set(answer.tolist())) == 200


def test_easy_counts_are_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without padding, all-equal counts need one product of polynomials and Zipf ones a thousand."""
    products = Counter()
    times = staircase._Ways.times

    def counted(ways: staircase._Ways, weights: staircase.arb_poly, k: int) -> staircase._Ways:
        products["all"] += len(weights) > 1
        return times(ways, weights, k)

    monkeypatch.setattr(staircase._Ways, "times", counted)
    done = []
    for counts in (np.full(2000, 7), 10**6 // np.arange(1, 2001), 10**9 * np.arange(2000)):
        products.clear()
        JointSet(0.1)(counts, 50, RandomBits.keyed(b"time"))
        done.append(products["all"])
    assert min(done) >= 50 * staircase._EASY
