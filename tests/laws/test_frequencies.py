from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import pytest
from scipy import special

from private_topk.transforms.mechanisms import Guarantee, Peeling
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.mechanism import Indices
from tests.laws import assert_follows, frequencies
from tests.laws.frequencies import chi_square_tail, noncentral_tail

EVEN = {(i,): Fraction(1, 4) for i in range(4)}


@pytest.mark.parametrize("freedom", [1, 7, 200])
def test_chi_square_tails_equal_those_of_scipy(freedom: int) -> None:
    for x in (0.5, freedom, 3 * freedom + 30.0):
        assert chi_square_tail(x, freedom) == pytest.approx(special.chdtrc(freedom, x), rel=1e-9)
        for shift in (1.0, 90.0):
            expected = 1 - special.chndtr(x, freedom, shift)
            assert noncentral_tail(x, freedom, shift) == pytest.approx(expected, rel=1e-6, abs=1e-10)


def test_frequencies_of_the_law_pass_and_others_fail() -> None:
    assert_follows(Counter({(0,): 1010, (1,): 990, (2,): 985, (3,): 1015}), EVEN, 0.1)
    with pytest.raises(AssertionError, match="chi-square"):
        assert_follows(Counter({(0,): 1200, (1,): 800, (2,): 1000, (3,): 1000}), EVEN, 0.1)


def test_too_few_draws_to_see_anything_are_an_error() -> None:
    with pytest.raises(AssertionError, match="40 draws cannot see an error of 0.1"):
        assert_follows(Counter({(i,): 10 for i in range(4)}), EVEN, 0.1)


def test_an_impossible_answer_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no probability"):
        assert_follows(Counter({(9,): 1}), EVEN, 0.1)


def test_draws_with_one_seed_are_repeatable() -> None:
    first, second = (frequencies(Peeling(1.0), (2, 1, 0), 2, 50, b"seed") for _ in range(2))
    assert first == second and sum(first.values()) == 50


@dataclass(frozen=True)
class Stuck(Peeling):
    """Prepared, it repeats its first answer."""

    guarantee: ClassVar[Guarantee] = Peeling.guarantee

    def sampler(self, histogram: Histogram, k: int) -> Callable[[Draw], Indices]:
        answers: list[Indices] = []

        def again(draw: Draw) -> Indices:
            answers.append(self.select(histogram, k, draw))
            return answers[0]

        return again


def test_a_mechanism_that_answers_otherwise_when_it_is_prepared_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"draw \d+ of a prepared mechanism is \[.*\], and that of a call \["):
        frequencies(Stuck(1.0), (2, 1, 0), 2, 50, b"seed")
