"""The laws that the test of each mechanism states, for tests that ask more of them.

A mechanism's law stands in its test, beside the definition that it is held to. This is the one file that looks there.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, make_mechanism, parameters_of
from tests.laws import Law
from tests.transforms.mechanisms import test_noisy_order, test_sequences, test_sets, test_unknown_domain

CAP = 3
FAMILIES = test_sequences, test_sets, test_noisy_order, test_unknown_domain
OFFERED = {name: kind.guarantee for name, kind in MECHANISMS.items() if kind.guarantee.metric == "amounts"}
PUBLIC = [name for name, guarantee in OFFERED.items() if guarantee.domain == "public"]
UNKNOWN = [name for name, guarantee in OFFERED.items() if guarantee.domain == "unknown"]


def contract_of(kind: type[Mechanism]) -> Any:  # noqa: ANN401 - a contract, with more of its family
    """What the test of a mechanism holds it to: its `law`, and the settings of its tests."""
    own = f"Test{kind.__name__}"
    return next(getattr(family, own) for family in FAMILIES if hasattr(family, own))()


def mechanism_of(name: str, relation: str = "add-remove", cap: int = CAP, **others: object) -> Mechanism:
    """With a delta and a bound where it takes them."""
    own = parameters_of(MECHANISMS[name])
    usual = {"epsilon": 2.0, "delta": 0.1, "max_items_per_user": 2, "kbar": 2, "neighbours": relation} | others
    return replace(make_mechanism(name, **{field: value for field, value in usual.items() if field in own}), cap=cap)


def law_of(name: str, mechanism: Mechanism, counts: tuple[int, ...], k: int) -> Law:
    """The law over users of the same mechanism, at counts over the cap."""
    law = contract_of(MECHANISMS[name]).law
    if name == "fast-joint":  # its loss is cut off at a whole number
        whole = replace(mechanism, epsilon=Fraction(mechanism.parameter("epsilon")) / mechanism.cap, cap=1)
        return law(whole, counts, k)
    scaled = tuple(Fraction(count, mechanism.cap) for count in counts)
    return law(replace(mechanism, cap=1), scaled, k)
