from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.flips import permute_and_flip
from private_topk.transforms.mechanisms.exact.reals import Magnitudes
from private_topk.transforms.mechanisms.exact.thresholds import AnswersByLoss, Envelope
from private_topk.transforms.testing import assert_follows, draws_to_see
from tests.transforms.mechanisms import laws


class Listed(AnswersByLoss):
    """Answers 0, 1, ... with the losses given, in increasing order."""

    def __init__(self, losses: list[int], rate: Fraction) -> None:
        self.losses, self.rate, self.first, self.most = losses, rate, losses[0], len(losses)

    def number(self, threshold: int) -> int:
        return sum(loss <= threshold for loss in self.losses)

    def upper(self, thresholds: np.ndarray) -> Magnitudes:
        return Magnitudes.of(np.array([float(self.number(threshold)) for threshold in thresholds]))

    def exact(self, threshold: int) -> arb:
        return arb(self.number(threshold))


@pytest.mark.parametrize(
    ("losses", "rate"), [([0, 0, 1, 3], Fraction(4)), ([-2, 0, 0, 0, 5], Fraction(1, 10)), ([7], Fraction(1))]
)
def test_it_is_permute_and_flip_by_definition(losses: list[int], rate: Fraction) -> None:
    answers, bits = Listed(losses, rate), RandomBits.keyed(b"flip")
    envelope = Envelope(answers)

    def sample(threshold: int, draw: Draw) -> int:
        return draw.below(answers.number(threshold))

    law = laws.least_loss({(i,): loss for i, loss in enumerate(losses)}, rate, "exponential")
    draws = draws_to_see(law, 0.09)
    seen = Counter((permute_and_flip(envelope, sample, losses.__getitem__, bits.draw()),) for _ in range(draws))
    assert_follows(seen, law, 0.09)
