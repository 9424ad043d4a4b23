from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import LIPSCHITZ_NOISES
from private_topk.transforms.mechanisms.exact.race import Race, _Uniform
from private_topk.transforms.mechanisms.exact.reals import precision
from tests.laws import assert_follows, draws_to_see
from tests.transforms.mechanisms.laws import least_loss


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


@pytest.mark.parametrize("noise", LIPSCHITZ_NOISES)
def test_the_winner_is_the_noisy_maximum_over_all_answers(noise: str) -> None:
    losses, rate = (0, 0, 1, 2, 2, 2, 5), Fraction(3, 4)
    by_loss, seen = Counter(), Counter()
    for (i,), p in least_loss({(i,): loss for i, loss in enumerate(losses)}, rate, noise).items():
        by_loss[(losses[i],)] += p
    bits = RandomBits.keyed(b"race")
    for _ in range(draws_to_see(by_loss, 0.05)):
        best = Race([Losses((0,)), Losses(losses[1:])], rate, noise, bits.draw()).winner()
        assert best.split() is None
        seen[(best.least_loss,)] += 1
    assert_follows(seen, by_loss, 0.05)


def test_a_time_is_computed_once_at_each_precision() -> None:
    race = Race([Losses((0, 0, 1))], Fraction(1), "gumbel", RandomBits.keyed(b"clock").draw())
    clock = race._entries[0][2].clock
    with precision(96):
        first = clock.time()
        assert first is clock.time()
    with precision(200):
        second = clock.time()
        assert second is clock.time() and first.contains(second) and second.rel_accuracy_bits() > 150


def test_a_race_may_be_run_some_splits_at_a_time() -> None:
    whole, some = (
        Race([Losses(tuple(range(40)))], Fraction(1, 9), "laplace", RandomBits.keyed(b"x").draw()) for _ in "ab"
    )
    for _ in range(3):
        some.run(2)
        assert some.splits <= 6
    assert whole.winner().least_loss == some.winner().least_loss and whole.splits == some.splits


def test_the_ball_of_a_small_uniform_is_precise_and_above_0() -> None:
    """Its ball has to lie above 0, however small it is: its logarithm is taken."""
    draw = RandomBits.keyed(b"u").draw()
    for index, word in enumerate(draw.words(0, 0, 50).tolist()):
        number = _Uniform(draw, index, word)
        with precision(200):
            assert number.ball.contains(number.real())
    for word in (5, 2**64 - 1):  # the digits of its address in place of a double
        with precision(96):
            number = _Uniform(draw, 3, word)
            assert number.ball.overlaps(number.real()) and number.ball.rel_accuracy_bits() > 60
