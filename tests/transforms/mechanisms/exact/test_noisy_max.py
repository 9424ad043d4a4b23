from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact import noisy_max
from private_topk.transforms.mechanisms.exact.noisy_max import Blocks, _Opened
from private_topk.transforms.mechanisms.exact.noisy_max import noisy_max as take_max
from private_topk.transforms.mechanisms.exact.reals import precision


def brute_force(blocks: Blocks, lane: int, seed: bytes) -> int:
    """Open every block to its last item, score all in balls, take the largest."""
    draw, found = RandomBits.keyed(seed).draw(), []
    for block in np.flatnonzero(blocks.sizes):
        opened = _Opened(blocks, int(block), draw, lane)
        met = [opened.next() for _ in range(blocks.sizes[block])]
        assert sorted(c.place for c in met) == list(range(blocks.sizes[block]))
        with precision(192):
            scores = [c.score() for c in met]
        for candidate, score in zip(met, scores, strict=True):
            assert abs(float(score) - float(blocks.reference / blocks.scale) - candidate.low) < 1e-6
            found.append((float(score.mid()), candidate.item))
    return max(found)[1]


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(3), Fraction(40)])
@pytest.mark.parametrize("seed", range(6))
def test_pruning_changes_no_answer(scale: Fraction, seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 30, 60)
    name = b"prune%d" % seed
    blocks, again = Blocks.of(counts, 8, scale), Blocks.of(counts, 8, scale)
    draw = RandomBits.keyed(name).draw()
    for turn in range(8):
        expected = brute_force(again, turn, name)
        chosen = take_max(blocks, draw, turn)
        assert chosen == expected
        take_max(again, RandomBits.keyed(name).draw(), turn)


def test_extreme_words_are_left_to_ball_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.default_rng(3).integers(0, 30, 200)

    def answers() -> list[int]:
        draw, blocks = RandomBits.keyed(b"extreme").draw(), Blocks.of(counts, 50, Fraction(5))
        return [take_max(blocks, draw, turn) for turn in range(50)]

    before = answers()
    monkeypatch.setattr(noisy_max, "LEAST", 0.3)
    monkeypatch.setattr(noisy_max, "MOST", 0.8)
    assert answers() == before


@pytest.mark.parametrize("counts", [[5] * 200, [0] * 100 + [9] * 100, list(range(200)), [10**12] + [0] * 199])
def test_blocks_hold_every_item_once_and_bound_it(counts: list[int]) -> None:
    blocks = Blocks.of(np.array(counts), 20, Fraction(7, 2))
    assert sorted(blocks.items.tolist()) == list(range(200))
    for start, size, bound in zip(blocks.starts, blocks.sizes, blocks.bounds, strict=True):
        for item in blocks.items[start : start + size]:
            assert (counts[item] - blocks.reference) / Fraction(7, 2) <= Fraction(bound)
    assert len(blocks.sizes) <= 20 + 64


def test_few_items_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work per round does not follow the counts: time would tell of them."""
    looked = []
    original = _Opened.next
    monkeypatch.setattr(_Opened, "next", lambda self: looked.append(1) or original(self))
    shapes = [np.full(20_000, 7), 10**7 // np.arange(1, 20_001), 10**9 * np.arange(20_000)]
    for counts in shapes:
        blocks, draw = Blocks.of(counts.astype(np.int64), 50, Fraction(50)), RandomBits.keyed(b"few").draw()
        for turn in range(50):
            take_max(blocks, draw, turn)
    assert len(looked) < 3 * 50 * 6
