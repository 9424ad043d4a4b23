"""Sorting words and numbering their runs, against Python's own."""

from __future__ import annotations

import numpy as np
import pytest

from private_topk.transforms.columnar import numbered, sorted_with_order, sorted_words


@pytest.mark.parametrize("kind", [np.uint64, np.int64])
@pytest.mark.parametrize("size", [0, 1, 100, 20_000])
def test_words_of_any_number_and_type_are_sorted(size: int, kind: type) -> None:
    bounds = np.iinfo(kind)
    words = np.random.default_rng(size).integers(bounds.min, bounds.max, size, kind, endpoint=True)
    before = words.copy()
    found = sorted_words(words)
    assert found.dtype == kind and found.tolist() == sorted(before.tolist()) and (words == before).all()


class TestSortedWithOrder:
    """Against Python's own sort, which is stable."""

    @pytest.mark.parametrize("size", [0, 3, 20_000])
    @pytest.mark.parametrize("tops", [1, 3, 150, 1 << 60])
    @pytest.mark.parametrize("lows", [1, 64])
    def test_words_that_agree_in_their_top_bits_are_sorted(self, size: int, tops: int, lows: int) -> None:
        """Some, all or none of those that the packed sort cannot tell apart; in order here and out of order there."""
        draw = np.random.default_rng([size, lows])
        words = (draw.integers(0, tops, size, np.uint64) * np.uint64(0x10001) << np.uint64(6)) + draw.integers(
            0, lows, size, np.uint64
        )
        self.check(words if tops < 1 << 60 else np.flip(np.sort(words)))

    def test_a_single_word_out_of_order_is_sorted(self) -> None:
        for bad in range(49):
            words = np.arange(50, dtype=np.uint64) << np.uint64(40)
            words[bad : bad + 2] = words[bad] + np.uint64(1), words[bad]
            self.check(words)

    def check(self, words: np.ndarray) -> None:
        given = words.tolist()
        found, order = sorted_with_order(words)
        assert order.tolist() == sorted(range(len(given)), key=given.__getitem__)
        assert found.tolist() == sorted(given) and words.tolist() == given


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_runs_are_numbered(size: int) -> None:
    fresh = np.random.default_rng(size).random(size) < 0.3
    fresh[:1] = True
    assert numbered(fresh).tolist() == [sum(fresh[: row + 1].tolist()) - 1 for row in range(size)]
