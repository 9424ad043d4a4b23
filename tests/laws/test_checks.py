"""The checks catch what they say: each defect below is one that a mechanism could have."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest

from private_topk.transforms.mechanisms import CdpPeeling, Cost, Peeling
from tests.laws import Law, check_law, check_neighbours
from tests.laws.checks import check_pair
from tests.transforms.mechanisms import laws


def peeling(share: float) -> Callable[[tuple[int, ...], int], Law]:
    return lambda counts, k: laws.peeling(counts, k, Fraction(share) / k)


def test_a_right_law_passes_and_one_that_is_none_fails() -> None:
    check_law(Peeling(1.0), peeling(1.0), ks=(1,))
    check_law(Peeling(1.0), peeling(1.0), grid=[(3, 0, 1)], ks=(2, 4))
    with pytest.raises(AssertionError, match="the law of k = 1 sums to"):
        check_law(Peeling(1.0), lambda counts, k: {(i,): 0.3 for i in range(4)}, ks=(1,))


@pytest.mark.parametrize(("times", "smallest_error"), [(1.3, 0.08), pytest.param(1.1, 0.03, marks=pytest.mark.nightly)])
def test_check_law_catches_the_documented_error(times: float, smallest_error: float) -> None:
    """Of docs/own-mechanism.md: a mechanism that spends a little more than its epsilon."""
    with pytest.raises(AssertionError, match="chi-square"):
        check_law(Peeling(times), peeling(1.0), ks=(1,), smallest_error=smallest_error)


def test_a_lost_factor_of_two_is_found() -> None:
    assert 1.2 < check_neighbours(Peeling(2.0), peeling(2.0), ks=(1, 2)) <= 2
    with pytest.raises(AssertionError, match=r"Peeling.*k = 1, .* log-ratio .* exceeds epsilon 1.0"):
        check_neighbours(Peeling(1.0), peeling(2.0), ks=(1,))
    with pytest.raises(AssertionError, match="exceeds"):
        check_neighbours(Peeling(3.0, "replace-one"), peeling(3.0), ks=(1,))


def test_delta_is_compared_where_there_is_one() -> None:
    with pytest.raises(AssertionError, match="divergence .* exceeds delta"):
        check_neighbours(CdpPeeling(1.0, 0.01), peeling(4.0), ks=(2,))


def test_each_part_of_a_cost_is_checked() -> None:
    here, there = laws.peeling((0, 0, 0), 1, Fraction(1)), laws.peeling((1, 0, 0), 1, Fraction(1))
    check_pair(Cost.exponential(Fraction(1)), here, there)
    held = partial(check_pair, here=here, there=there)
    with pytest.raises(AssertionError, match=r"range (1\.0|0\.99).* exceeds 0\.9"):
        held(Cost(Fraction(1), bounded_range=Fraction(9, 10)))
    with pytest.raises(AssertionError, match="Renyi divergence .* of order 1 exceeds 0.01"):
        held(Cost(Fraction(1), rho=Fraction(1, 100)))
