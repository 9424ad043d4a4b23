from __future__ import annotations

import numpy as np
import pytest

from private_topk.transforms.mechanisms.exact import tally as module
from private_topk.transforms.mechanisms.exact.tally import OWN_KEYS, Tally, keys_of, rounded_down
from private_topk.transforms.refusal import Refusal

RNG = np.random.default_rng(7)
VECTORS = {
    "one": np.array([0]),
    "plain": RNG.integers(0, 16_384, 700) // RNG.integers(1, 5000, 700),
    "the last plain one": np.array([16_383, 5, 5]),
    "the first that is not": np.array([5, 16_384, 5]),
    "large ones late": np.concatenate((RNG.integers(0, 3000, 500), [2**40, 1023, 1024, 2**63 - 1, 7])),
    "one no larger than there are items": np.append(RNG.integers(0, 9, 20_000), 19_999),
    "the last plain one of many": np.append(np.zeros(40_000, np.int64), 32_767),
    "the first that is not, of many": np.append(np.zeros(40_000, np.int64), 32_768),
    "dense": np.where(RNG.random(1000) < 0.07, 3, RNG.integers(4, 9, 1000)),
}


def test_keys_rise_and_small_counts_have_their_own() -> None:
    edges = np.unique(np.concatenate([[(1 << e) + x for x in (-2, -1, 0, 1)] for e in range(1, 63)] + [[2**63 - 1]]))
    counts = np.concatenate((np.arange(5000), edges[edges > 5000]))
    keys = keys_of(counts)
    assert (np.diff(keys) >= 0).all() and keys[:OWN_KEYS].tolist() == list(range(OWN_KEYS)) and keys[-1] == 54_272
    low, widths = rounded_down(counts[counts < 2**52])
    assert (low <= counts[: len(low)]).all() and (counts[: len(low)] < low + widths).all()
    assert (keys_of(low) == keys[: len(low)]).all() and (keys_of(low + widths) == keys[: len(low)] + 1).all()


@pytest.mark.parametrize("kept", [0, 1 << 18])
@pytest.mark.parametrize("counts", VECTORS.values(), ids=VECTORS)
def test_a_long_vector_is_tallied_as_a_short_one(
    counts: np.ndarray, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its parts is the first with a large count, and however its items are found."""
    monkeypatch.setattr(module, "_CHUNK", 64)
    monkeypatch.setattr(module, "_PART", 64)
    monkeypatch.setattr(module, "_STRIP", 4)
    monkeypatch.setattr(module, "_GROUP", 2)
    monkeypatch.setattr(module, "_KEPT", kept)
    tally = Tally(counts)
    assert (tally.keys is None) == (kept == 0)
    most = min(max(16_384, len(counts)), 32_768) if kept else 16_384
    assert tally.plain == (counts.max() < most) and tally.own == (most if tally.plain else OWN_KEYS)
    keys = counts if tally.plain else keys_of(counts)
    assert tally.table.tolist() == np.bincount(keys).tolist()
    assert tally.at(np.arange(len(counts))).tolist() == keys.tolist()
    for key in np.unique(keys).tolist():
        assert tally.items_from(key).tolist() == np.flatnonzero(keys >= key).tolist()
        assert (counts[keys == key] >= tally.least(key)).all()
        codes = np.zeros(len(tally.table), np.uint16)
        codes[[key, keys.max()]] = 1, 2
        items, marks = tally.items_marked(codes)
        assert items.tolist() == np.flatnonzero(codes[keys]).tolist() and marks.tolist() == codes[keys[items]].tolist()
        if key < tally.own:
            numbers = RNG.permutation(int((keys == key).sum()))
            assert tally.item_numbers(key, numbers).tolist() == np.flatnonzero(keys == key)[numbers].tolist()


@pytest.mark.parametrize("kept", [0, 1 << 18])
@pytest.mark.parametrize("counts", [[-1, 3], [3, 20_000, -1], [-(2**63), 3], [2**50, -1023, 3]], ids=repr)
def test_negative_counts_are_refused(counts: list[int], kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 2)
    monkeypatch.setattr(module, "_PART", 2)
    monkeypatch.setattr(module, "_STRIP", 1)
    monkeypatch.setattr(module, "_KEPT", kept)
    with pytest.raises(Refusal, match="at least 0"):
        Tally(np.array(counts))


def test_flags_are_found_however_many_are_set() -> None:
    for share in (0.0, 0.001, 0.06, 0.08, 0.3, 1.0):
        flags = RNG.random(5000) < share
        there = np.flatnonzero(flags)
        assert module._places(flags).tolist() == there.tolist()
        numbers = RNG.permutation(len(there))
        for some in (numbers, numbers[:3], numbers[:0]):
            assert module._nth(flags, some).tolist() == there[some].tolist()
