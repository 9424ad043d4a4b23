from __future__ import annotations

from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import MECHANISMS, Joint, Peeling, RandomBits
from private_topk.transforms.mechanisms.mechanism import check_k, sensitivity


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
    with pytest.raises(Refusal, match=f"neighbours must be one of add-remove, swap for {name}, got 'both'") as caught:
        MECHANISMS[name](epsilon=1.0, neighbours="both", **needed)
    assert caught.value.field == "neighbours"


def test_what_one_user_changes() -> None:
    assert (sensitivity("add-remove"), sensitivity("swap")) == (1, 2)


def test_refusals_name_the_field_and_show_no_count() -> None:
    for counts in ([[7919]], [-7919], np.array([2**63 + 7919], np.uint64)):
        with pytest.raises(Refusal) as caught:
            Peeling(1.0)(counts, 1, RandomBits.keyed(b"x"))
        assert caught.value.field == "counts" and "7919" not in str(caught.value)
    with pytest.raises(Refusal, match="k must be at least 1, got 0") as caught:
        check_k(0, 3)
    assert caught.value.field == "k"
    with pytest.raises(Refusal, match="k must be at most the number of items, got k = 4 and 3 items"):
        Peeling(1.0)([1, 2, 3], 4, None)


@pytest.mark.parametrize("dtype", [np.int8, np.int64])
@pytest.mark.parametrize("name", ["joint", "canonical", "gamma", "limit-domain"])
def test_negative_counts_are_refused_before_anything_is_drawn(name: str, dtype: type) -> None:
    mechanism = MECHANISMS[name](epsilon=1.0, **({"delta": 0.1} if name == "limit-domain" else {}))
    bits = RandomBits.keyed(b"x")
    for counts in ([-97, 1, 2], [3, 2, -97]):
        with pytest.raises(Refusal, match="counts must be at least 0") as caught:
            mechanism(np.array(counts, dtype), 1, bits)
        assert caught.value.field == "counts" and "97" not in str(caught.value)
    assert repr(bits) == repr(RandomBits.keyed(b"x"))


def test_an_unknown_domain_may_be_empty() -> None:
    assert check_k(9, 0, "unknown") == 9
