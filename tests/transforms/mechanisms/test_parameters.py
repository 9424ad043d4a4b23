from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import (
    MECHANISMS,
    Canonical,
    CdpPeeling,
    FastJoint,
    Joint,
    JointSet,
    Laplace,
    Mechanism,
    Oneshot,
    make_mechanism,
    parameter,
    parameters_of,
)
from private_topk.transforms.mechanisms.parameters import check_parameter
from tests.refusals import refused


@dataclass(frozen=True)
class Everything(Mechanism):
    epsilon: float
    whole: int | None = None
    part: float | Fraction = parameter(Fraction(1, 2), kind="fraction", help="a part")
    way: Literal["up", "down"] = "up"
    word: str = parameter("x", help="a word")
    inner: Mechanism | None = None


def test_kinds_come_from_annotations_or_are_said() -> None:
    found = parameters_of(Everything)
    assert {name: p.kind for name, p in found.items()} == {
        "epsilon": "number",
        "whole": "whole",
        "part": "fraction",
        "way": "text",
        "word": "text",
        "inner": "object",
    }
    assert found["way"].choices == ("up", "down") and found["part"].default == Fraction(1, 2)
    assert [p.required for p in found.values()] == [True, False, False, False, False, False]
    assert found["part"].help == "a part" and found["epsilon"].help.startswith("the budget of one release")


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_parameter_of_a_built_in_has_help_and_a_kind(name: str) -> None:
    for found in parameters_of(MECHANISMS[name]).values():
        assert found.help and found.kind in ("number", "fraction", "whole", "text")


def test_text_is_read_by_kind_and_values_pass() -> None:
    found = parameters_of(Everything)
    assert found["epsilon"].read("1e-3") == Fraction(1, 1000) and found["part"].read("0.1") == Fraction(1, 10)
    assert found["whole"].read("7") == 7 and found["word"].read("7") == "7"
    assert found["epsilon"].read(2) == 2
    with refused("whole", "must be a whole number"):
        found["whole"].read("7.5")


def test_numbers_become_pythons_own() -> None:
    assert type(check_parameter("epsilon", np.float32(2))) is float
    assert type(check_parameter("kbar", np.int64(2))) is int and check_parameter("kbar", None) is None
    assert check_parameter("epsilon", Fraction(1, 3)) == Fraction(1, 3)
    assert check_parameter("anything", "as it is") == "as it is"


@pytest.mark.parametrize("huge", [10**400, Fraction(10**400)])
def test_a_budget_beyond_all_floats_is_refused(huge: object) -> None:
    with refused("epsilon", "must be a positive finite number"):
        check_parameter("epsilon", huge)


REFUSED = [
    *(
        (CdpPeeling, {"delta": delta}, "delta must lie strictly between 0 and 1, got")
        for delta in (0, 1, -0.1, math.nan, "0.1")
    ),
    *((FastJoint, {"beta": beta}, "beta must lie strictly between 0 and 1, got") for beta in (0, 1, "small")),
    *(
        (Laplace, {"max_items_per_user": bound}, "max_items_per_user must be a whole number of at least 1, got")
        for bound in (0, -1, 1.5, True, "2")
    ),
    *((Joint, {"skew": skew}, "skew must be a number from 1/2 to 1") for skew in (0.49, 1.01, math.nan, "much", None)),
    *((Canonical, {"gamma": gamma}, "gamma must be a number from 0 to 1, got") for gamma in (-0.1, 1.5, True, "half")),
    *(
        (kind, {"noise": "gaussian"}, "noise must be one of gumbel, .*half-logistic, got 'gaussian'")
        for kind in (Oneshot, Canonical, JointSet)
    ),
    (Joint, {"noise": "laplace"}, "noise must be one of gumbel, exponential for joint, got 'laplace'"),
]


@pytest.mark.parametrize(("kind", "given", "said"), REFUSED)
def test_a_value_outside_its_rule_is_refused(kind: type[Mechanism], given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        kind(epsilon=1.0, **given)


def test_a_decimal_is_what_is_written() -> None:
    assert Joint(1.0, 0.55).skew == Fraction(11, 20) and Joint(1.0, Fraction(5, 9)).parameters()["skew"] == "5/9"
    assert Canonical(1.0, 0.1).gamma == Fraction(1, 10) and Canonical(1, "2/3").gamma == Fraction(2, 3)
    assert Joint(1.0, 0.5) == Joint(1.0) and Canonical(1.0, 0.5) == Canonical(1.0)
    for given in ("0.6", 0.6, np.float32(0.6), Decimal("0.6"), "3/5", Fraction(3, 5)):
        own = make_mechanism("winner_first:WinnerFirst", epsilon=5, first=given)
        assert own.parameters()["first"] == "3/5" and own.cost(2).epsilon == 5
        assert Canonical(1.0, given).gamma == Fraction(3, 5)
