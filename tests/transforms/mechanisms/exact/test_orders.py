from __future__ import annotations

import numpy as np
import pytest

from private_topk.transforms.mechanisms.exact.orders import by_count, by_key
from private_topk.transforms.mechanisms.exact.tally import keys_of, least_of

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("most", [1, 9, 2**16, 2**17, 2**40, 2**62])
def test_items_go_by_count_and_then_as_they_come(most: int) -> None:
    counts = RNG.integers(0, most, 3000)
    items = np.arange(3000) * 7
    assert by_count(items, counts).tolist() == items[np.lexsort((items, -counts))].tolist()


@pytest.mark.parametrize("most", [2000, 9000, 60_000])
def test_items_of_some_keys_go_by_count(most: int) -> None:
    """Of keys for one count and of keys for many."""
    counts = RNG.integers(900, most, 4000)
    keys = np.unique(keys_of(counts))[::-1][::3]
    items = np.flatnonzero(np.isin(keys_of(counts), keys))
    kinds = (-keys).searchsorted(-keys_of(counts[items]))
    found = by_key(items, counts[items], kinds, *least_of(keys))
    assert found is not None
    assert found.tolist() == items[np.lexsort((items, -counts[items]))].tolist()


def test_keys_of_too_many_counts_are_left_to_others() -> None:
    counts = np.array([2**26 + 5, 2**26 + 9, 2**27])
    keys = np.unique(keys_of(counts))[::-1]
    assert by_key(np.arange(3), counts, np.array([1, 1, 0]), *least_of(keys)) is None
