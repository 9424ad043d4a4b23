"""A budget is written as it was given, or as a little more, and never as less."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from private_topk.transforms.stated import number, stated
from tests.examples import examples

BUDGETS = st.one_of(
    st.fractions(Fraction(1, 10**9), 10**6),
    st.floats(1e-100, 1e6),
    st.decimals(Fraction(1, 10**9), 10**6, places=12).map(Fraction),
)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("0.3", 0.3),
        ("1e-6", 1e-6),
        ("2", 2.0),
        ("3.39999999999999998", 3.4),
        ("0.30000000000000001", 0.30000000000000004),
        ("0", 0.0),
    ],
)
def test_a_stated_number_is_written_as_given_if_a_float_holds_it(given: str, written: float) -> None:
    assert stated(Fraction(given)) == written
    assert stated(0.1) == 0.1 and number(Fraction(0.1)) == "0.1"


@examples(300)
@given(value=BUDGETS)
def test_a_stated_number_is_rounded_up_by_very_little(value: Fraction | float) -> None:
    exact, written = Fraction(value), stated(value)
    assert max(Fraction(written), Fraction(repr(written))) >= exact
    assert Fraction(written) <= exact * (1 + Fraction(1, 2**51))
    for digits in (3, 6, 15):
        text = Fraction(number(value, digits))
        assert Fraction(repr(written)) <= text <= exact * (1 + Fraction(1, 10 ** (digits - 1)))
    assert exact <= Fraction(number(value, 30)) <= exact * (1 + Fraction(1, 10**29))
