"""What every mechanism refuses, and what none may answer: an item twice, or one that is none."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from benchmarks.audit.datasets import cases_of
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import (
    MECHANISMS,
    About,
    Guarantee,
    Joint,
    JointSet,
    LimitDomain,
    Mechanism,
    Peeling,
    RandomBits,
)
from private_topk.transforms.mechanisms.mechanism import check_k, check_ranks
from tests.refusals import refused


def test_a_mechanism_is_frozen_and_its_parameters_are_json() -> None:
    mechanism = Joint(1, Fraction(5, 9))
    with pytest.raises(FrozenInstanceError):
        mechanism.epsilon = 2.0
    assert mechanism.parameters() == {"epsilon": 1.0, "skew": "5/9", "noise": "gumbel", "neighbours": "add-remove"}
    assert mechanism.parameter("delta", 7) == 7


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_relation_that_is_not_offered_is_refused(name: str) -> None:
    needed = {
        n: v for n, v in (("delta", 0.1), ("max_items_per_user", 1)) if n in MECHANISMS[name].__dataclass_fields__
    }
    with pytest.raises(
        InvalidArgument, match=f"neighbours must be one of add-remove, replace-one for {name}, got 'both'"
    ) as caught:
        MECHANISMS[name](epsilon=1.0, neighbours="both", **needed)
    assert caught.value.field == "neighbours"


def test_refusals_name_the_field_and_show_no_count() -> None:
    for counts in ([[7919]], [-7919], np.array([2**63 + 7919], np.uint64)):
        with pytest.raises(InvalidArgument) as caught:
            Peeling(1.0)(counts, 1, RandomBits.keyed(b"x"))
        assert caught.value.field == "counts" and "7919" not in str(caught.value)
    with refused("k", "must be at least 1") as caught:
        check_k(0, 3)
    assert caught.value.field == "k"
    with refused("k", "must be at most the number of items"):
        Peeling(1.0)([1, 2, 3], 4, None)


@pytest.mark.parametrize("dtype", [np.int8, np.int64])
@pytest.mark.parametrize("name", ["joint", "canonical", "gamma", "limit-domain"])
def test_negative_counts_are_refused_before_anything_is_drawn(name: str, dtype: type) -> None:
    mechanism = MECHANISMS[name](epsilon=1.0, **({"delta": 0.1} if name == "limit-domain" else {}))
    bits = RandomBits.keyed(b"x")
    for counts in ([-97, 1, 2], [3, 2, -97]):
        with refused("counts", "must be at least 0") as caught:
            mechanism(np.array(counts, dtype), 1, bits)
        assert caught.value.field == "counts" and "97" not in str(caught.value)
    assert repr(bits) == repr(RandomBits.keyed(b"x"))


WRONG = [
    [0, 1],
    np.array([0, 0]),
    np.array([0.0, 1.0]),
    np.array([0]),
    np.array([0, 3]),
    np.array([-1, 0]),
    np.array([[0, 1]]),
    np.array([0, 1, 2]),
    np.array([True, False]),
    None,
]


@dataclass(frozen=True)
class Broken(Mechanism):
    """Answers with whatever `ANSWER` is."""

    about: ClassVar[About] = About(name="broken", cost="none", source="none", when="never")
    guarantee: ClassVar[Guarantee] = Guarantee("pure", "public", "sequence")
    epsilon: float = 1.0

    def select(self, histogram: Any, k: int, draw: Any) -> Any:  # noqa: ANN401 - what a user may have written
        return ANSWER[0]


@dataclass(frozen=True)
class Hiding(LimitDomain):
    about: ClassVar[About] = About(name="hiding", cost="none", source="none", when="")
    guarantee: ClassVar[Guarantee] = Guarantee("approximate", "unknown", "sequence")

    def sampler(self, histogram: Any, k: int) -> Any:  # noqa: ANN401 - what a user may have written
        return lambda draw: ANSWER[0]


ANSWER: list[Any] = [None]


@pytest.mark.parametrize("answer", WRONG, ids=str)
def test_a_mechanism_of_one_s_own_answers_with_different_items(answer: object) -> None:
    ANSWER[0] = answer
    with refused("mechanism", "broken must answer with 2 different ranks, an array of integers"):
        Broken()([5, 4, 3], 2, RandomBits.keyed(b"ranks"))


def test_an_unknown_domain_mechanism_may_return_fewer_than_k() -> None:
    for size in range(4):
        ANSWER[0] = np.arange(size)
        hiding, bits = Hiding(epsilon=1.0, delta=1e-3), RandomBits.keyed(b"ranks")
        if size <= 2:
            assert hiding([9, 8, 7], 2, bits).tolist() == list(range(size))
        else:
            with refused("mechanism", "must answer with at most 2 different ranks"):
                hiding([9, 8, 7], 2, bits)


def test_a_select_that_draws_would_pass_by_is_refused_with_its_class() -> None:
    """A prepared joint loss draws by its `sampler`: one who overrides `select` alone would get the draws of another."""
    for parent, passed_by in ((Joint, "JointLoss"), (JointSet, "JointLoss"), (Hiding, "Hiding")):
        with refused("mechanism", f"Own has a `select` that is passed by: draws go through {passed_by}.sampler"):
            type("Own", (parent,), {"select": _first, "guarantee": parent.guarantee})
    for base, more in ((Joint, {"sampler": Mechanism.sampler}), (LimitDomain, {}), (Peeling, {})):
        own = type("Own", (base,), {"select": _first, "guarantee": base.guarantee, **more})
        budget = {"delta": 1e-3} if base is LimitDomain else {}
        assert own(epsilon=1.0, **budget)([5, 4, 3], 2, RandomBits.keyed(b"ranks")).tolist() == [0, 1]


def _first(self: Mechanism, histogram: Any, k: int, draw: Any) -> Any:  # noqa: ANN401 - what a user may have written
    return np.arange(k)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32])
def test_ranks_of_any_integer_type_are_accepted(dtype: type) -> None:
    ranks = np.array([2, 0, 1], dtype)
    assert check_ranks(ranks, 3, 3, "any") is ranks and len(check_ranks(ranks[:0], 3, 0, "any", fewer=True)) == 0


def test_a_derived_mechanism_is_not_audited_for_its_parent_s_proof_about_amounts() -> None:
    """That amounts are offered is said by the class that draws: of another there is nothing to audit."""
    of = {name: {case.of for case in cases_of([name])} for name in ("limit-domain", f"{__name__}:Hiding")}
    assert of == {"limit-domain": {"users", "amounts", "groups"}, f"{__name__}:Hiding": {"users", "groups"}}
