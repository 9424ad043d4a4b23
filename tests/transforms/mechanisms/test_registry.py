from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import (
    About,
    Canonical,
    Gaussian,
    Guarantee,
    Joint,
    LaplaceLimitDomain,
    Mechanism,
    Peeling,
    make_mechanism,
    mechanism_by_name,
)
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram


def refused(name: str, **parameters: object) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        make_mechanism(name, **parameters)
    return caught.value


def test_parameters_come_as_values_or_as_text() -> None:
    assert make_mechanism("joint", epsilon="0.1", skew="3/4", noise=None) == Joint(Fraction(1, 10), Fraction(3, 4))
    assert make_mechanism("canonical", epsilon=1, gamma="0.1") == Canonical(1.0, Fraction(1, 10))
    made = make_mechanism("laplace-limit-domain", epsilon="1", delta="1e-6", max_items_per_user="3", kbar=None)
    assert made == LaplaceLimitDomain(Fraction(1), Fraction(1, 10**6), 3)


@pytest.mark.parametrize("name", [None, 3, ["joint"], Joint(1.0), Joint])
def test_a_mechanism_name_that_is_not_text_is_refused(name: object) -> None:
    said = f"mechanism must be a name such as joint, got {type(name).__name__}"
    assert str(refused(name, epsilon=1.0)) == said


def test_braces_in_user_input_are_not_expanded_in_messages() -> None:
    assert "got '{k} {{k}}'" in str(refused("{k} {{k}}")) and "to {noise}" not in str(refused("{noise}:A"))
    assert str(refused("joint", epsilon=1, noise="{k}")).endswith("got '{k}'")
    assert str(refused("joint", epsilon="{k}")).endswith("got '{k}'")


def test_a_parameter_of_another_mechanism_is_refused() -> None:
    assert str(refused("joint", epsilonn=1)) == "epsilonn does not apply to joint: did you mean epsilon?"
    assert str(refused("peeling", epsilon=1, gamma=1)) == "gamma does not apply to peeling: leave it out"


def test_a_missing_parameter_is_named_with_a_remedy() -> None:
    refusal = refused("gaussian", epsilon=1)
    assert refusal.field == "delta" and refusal.rule == "must be given for gaussian"
    assert refused("laplace-limit-domain", epsilon=1).shown() == (
        "delta must be given for laplace-limit-domain, as max_items_per_user must: well below 1 / number of users, "
        "such as 1e-6, for (epsilon, delta) mechanisms"
    )


def test_a_value_that_breaks_its_rule_is_refused() -> None:
    assert str(refused("joint", epsilon="much")) == "epsilon must be a number, got 'much'"
    assert str(refused("joint", epsilon=-1)) == "epsilon must be a positive finite number, got -1"
    assert str(refused("joint", epsilon="-1")) == "epsilon must be a positive finite number, got -1.0"
    assert str(refused("joint", epsilon=1, skew="1/0")) == "skew must be a number such as 0.6 or 3/5, got '1/0'"
    assert str(refused("joint", epsilon=1, skew="2")).startswith("skew must be a number from 1/2 to 1, got 2")
    assert refused("limit-domain", epsilon=1, delta=0.1, kbar="many").rule == "must be a whole number, got 'many'"
    assert make_mechanism("gaussian", epsilon=1, delta=0.5) == Gaussian(1.0, 0.5)


@dataclass(frozen=True)
class Own(Mechanism):
    about: ClassVar[About] = About("own", "-", "-", "-")
    guarantee: ClassVar[Guarantee] = Guarantee("pure", "public", "sequence")

    epsilon: float

    def select(self, histogram: Histogram, k: int, draw: Draw) -> np.ndarray:
        return np.arange(k)


class NoDataclass(Own):
    pass


@dataclass(frozen=True)
class Unfinished(Mechanism):
    about: ClassVar[About] = Own.about

    epsilon: float


@dataclass(frozen=True)
class Nameless(Mechanism):
    epsilon: float
    select = Own.select


@dataclass(frozen=True)
class Joker(Own):
    about: ClassVar[About] = Joint.about
    guarantee: ClassVar[Guarantee] = Joint.guarantee


@dataclass(frozen=True)
class Heir(Peeling):
    """Draws otherwise than what its parent has a proof of."""

    about: ClassVar[About] = About("heir", "-", "-", "-")
    select = Own.select


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    named = types.ModuleType("some_package_of_mine")
    for kind in (Own, NoDataclass, Unfinished, Nameless, Joker, Heir):
        setattr(named, kind.__name__, kind)
    named.number = 5
    monkeypatch.setitem(sys.modules, "some_package_of_mine", named)


def test_a_mechanism_of_one_s_own() -> None:
    assert mechanism_by_name("some_package_of_mine:Own") is Own
    assert make_mechanism("some_package_of_mine:Own", epsilon="2") == Own(2.0)
    assert mechanism_by_name("private_topk.transforms.mechanisms:Joint") is Joint


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_package_of_mine:Own", "needs a module no_such_package_of_mine that is not there: install it, or put"),
        ("some_package_of_mine:Missing", "must name a class of a module as module:Class.*no Missing in it"),
        ("some_package_of_mine:", "must name a class of a module as module:Class.*no such class in it"),
        (":Own", "must name a class of a module as module:Class"),
        ("some_package_of_mine:number", "must be a subclass of private_topk.transforms.mechanisms.Mechanism"),
        ("some_package_of_mine:NoDataclass", "must be a dataclass: write @dataclass"),
        ("some_package_of_mine:Unfinished", "must define select"),
        ("some_package_of_mine:Nameless", "must say what it is: give the class an `about"),
        ("some_package_of_mine:Heir", "Heir must state what is proved of its own draws.*give the class a `guarantee"),
        ("some_package_of_mine:Joker", "must have a name of its own: joint is a built-in one's"),
    ],
)
def test_a_name_that_leads_to_no_mechanism_is_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"mechanism .*{said}"):
        mechanism_by_name(name)
