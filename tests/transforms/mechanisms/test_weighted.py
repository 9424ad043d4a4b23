"""What mechanisms over weights share: how many items of a user count wholly."""

from __future__ import annotations

import numpy as np
import pytest

from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import CandidatesThenRank, WeightedGaussian, WeightedOrder
from private_topk.transforms.mechanisms.weighted import Weighted

KINDS: list[type[Weighted]] = [WeightedGaussian, WeightedOrder, CandidatesThenRank]


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_items_count_wholly_than_a_user_may_have(kind: type[Weighted]) -> None:
    assert [kind(1.0, 1e-6, limit).whole for limit in (5, 20, 50)] == [5, 20, 20]
    made = kind(1.0, 1e-6, 50, whole_items=np.int64(7))
    assert made.whole == 7 and type(made.whole_items) is int
    assert made.weighting.whole_items == 7 and made.weighting.limit == 50 and made.weighs_users


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", [0, -1, 1.5, True, "20"])
def test_what_is_no_number_of_items_is_refused(kind: type[Weighted], whole: object) -> None:
    with pytest.raises(Refusal, match="whole_items must be a whole number of at least 1"):
        kind(1.0, 1e-6, 50, whole_items=whole)
    with pytest.raises(Refusal, match=f"must be at most 1000000 for {kind.about.name}"):
        kind(1.0, 1e-6, 1_000_001)
