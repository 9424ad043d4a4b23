from __future__ import annotations

import numpy as np
import pytest

from private_topk.transforms.mechanisms.exact.counts import check_counts
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.refusal import Refusal


@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [([], Refusal, "at least one item"), ([[1]], Refusal, "one-dimensional"), ([-7919], Refusal, "at least 0"),
     (np.array([2**63 + 7919], np.uint64), Refusal, "below 2"), ([7919.0], TypeError, "must be integers"),
     (["7919"], TypeError, "must be integers")],
)  # fmt: skip
def test_what_are_no_counts_is_refused_and_not_shown(counts: object, error: type[Exception], message: str) -> None:
    for take in (check_counts, Histogram.of):
        with pytest.raises(error, match=message) as caught:
            take(counts)
        assert "counts" in str(caught.value) and "7919" not in str(caught.value)


def test_an_unknown_domain_may_be_empty() -> None:
    assert check_counts([], "unknown").tolist() == []
