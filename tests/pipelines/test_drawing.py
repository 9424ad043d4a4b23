"""The mechanism that a door asks for: each number goes where it is used."""

from __future__ import annotations

from fractions import Fraction

import pytest

from private_topk.pipelines.drawing import mechanism_of
from private_topk.transforms.mechanisms import Joint, Laplace, LimitDomain
from private_topk.transforms.refusal import Refusal


def test_delta_and_bound_go_to_the_mechanisms_that_have_them() -> None:
    asked = {"epsilon": 1, "delta": Fraction(1, 10**6), "max_items_per_user": 3}
    assert mechanism_of({"mechanism": "joint", **asked}) == (Joint(1.0), Fraction(1, 10**6))
    assert mechanism_of({"mechanism": "laplace", **asked}) == (Laplace(1.0, 3), Fraction(1, 10**6))
    found, spare = mechanism_of({"mechanism": "limit-domain", **asked, "parameters": {"kbar": 20}})
    assert (found, spare) == (LimitDomain(1.0, Fraction(1, 10**6), 20, 3), None)


@pytest.mark.parametrize(("epsilon", "name"), [(0, "joint"), (10**7, "joint"), (1, "jiont"), (1, "{epsilon}")])
def test_what_is_wrong_is_refused(epsilon: float, name: str) -> None:
    with pytest.raises(Refusal) as found:
        mechanism_of({"mechanism": name, "epsilon": epsilon})
    assert found.value.field == ("epsilon" if name == "joint" else "mechanism")
    assert name in str(found.value) or name == "joint"
