from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from private_topk.testing import assert_follows
from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.mechanisms.exact.race import remembered, winner
from private_topk.transforms.mechanisms.exact.reals import precision
from tests.quick import in_check
from tests.transforms.mechanisms.laws import order_chances
from tests.transforms.mechanisms.noise_laws import NOISE_LAWS


@dataclass(frozen=True)
class Losses:
    """A region of answers given by their losses, in order."""

    losses: tuple[int, ...]

    @property
    def least_loss(self) -> int:
        return self.losses[0]

    def size(self) -> arb:
        return arb(len(self.losses))

    def split(self) -> tuple[Losses, Losses] | None:
        if self.losses[0] == self.losses[-1]:
            return None
        cut = next(i for i, loss in enumerate(self.losses) if loss > self.losses[0])
        return Losses(self.losses[:cut]), Losses(self.losses[cut:])

    def draw_ranks(self, draw: Draw) -> np.ndarray:
        return np.array([draw.below(len(self.losses))])


@in_check("gumbel", "laplace")
@pytest.mark.parametrize("noise", LIPSCHITZ_NOISES)
def test_the_winner_is_the_noisy_maximum_over_all_answers(noise: str) -> None:
    losses, rate = (0, 0, 1, 2, 2, 2, 5), Fraction(3, 4)
    centres = -float(rate) * np.array(losses, float)
    law = NOISE_LAWS[noise]
    cuts = np.unique(np.concatenate([c + np.linspace(-40, 40, 81) for c in (centres.min(), 0.0)] + [centres]))
    chances = order_chances(centres, 1, law.pdf, law.cdf, cuts, 16)
    by_loss: Counter[tuple[int, ...]] = Counter()
    for (i,), p in chances.items():
        by_loss[(losses[i],)] += p
    seen: Counter[tuple[int, ...]] = Counter()
    bits = RandomBits.keyed(b"race")
    for _ in range(3000):
        best = winner([Losses((0,)), Losses(losses[1:])], rate, noise, bits.draw())
        assert best.split() is None
        seen[(best.least_loss,)] += 1
    assert_follows(seen, by_loss, 0.09)


def test_a_remembered_real_is_computed_once_at_each_precision() -> None:
    calls = []

    def value() -> arb:
        calls.append(1)
        return arb(2).sqrt()

    real = remembered(value)
    with precision(100):
        assert real() == real() or len(calls) == 1
    with precision(200):
        real()
        real()
    assert len(calls) == 2
