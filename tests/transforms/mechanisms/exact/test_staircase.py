from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.reals import precision, uniform
from private_topk.transforms.mechanisms.exact.staircase import SetLosses, SetsBetween
from private_topk.transforms.testing import assert_follows

STAIRCASES = [
    ([5, 5, 5], None),
    ([1, 2, 3], None),
    ([3, 5, 5, 9], None),
    ([4, 4, 8], [2, 4, 5]),
    ([3, 5, 5, 9], [1, 2, 3, 4]),
    ([6, 7, 7, 7], [6, 7, 7, 7]),
    ([2, 6, 7, 9], [2, 3, 7, 8]),
]


def sets_between(outer: list[int], inner: list[int] | None) -> list[tuple[int, ...]]:
    return [
        y
        for y in itertools.combinations(range(1, outer[-1] + 1), len(outer))
        if all(j <= o for j, o in zip(y, outer, strict=True))
        and (inner is None or any(j > i for j, i in zip(y, inner, strict=True)))
    ]


@pytest.mark.parametrize(("outer", "inner"), STAIRCASES)
def test_sets_between_staircases_are_counted(outer: list[int], inner: list[int] | None) -> None:
    sets = SetsBetween(np.array(outer), None if inner is None else np.array(inner))
    assert sets.number() == len(sets_between(outer, inner))


@pytest.mark.parametrize(("outer", "inner"), [pair for pair in STAIRCASES if sets_between(*pair)])
def test_members_of_segments_are_those_of_a_uniform_set(outer: list[int], inner: list[int] | None) -> None:
    sets = SetsBetween(np.array(outer), None if inner is None else np.array(inner))
    ends = np.cumsum([segment.size for segment in sets.segments])
    listed = sets_between(outer, inner)
    expected, seen = Counter(), Counter()
    for y in listed:
        expected[tuple(np.bincount(np.searchsorted(ends, y), minlength=len(ends)).tolist())] += Fraction(1, len(listed))
    draw = Draw(bytes(32))
    for i in range(1500):
        seen[tuple(sets.members([uniform(draw, j, i) for j in range(len(ends))]))] += 1
    assert_follows(seen, expected, 0.13)


def test_members_are_the_same_at_any_precision() -> None:
    """Balls too wide to decide by must be noticed: at 8 bits nearly every walk has to be tried again."""
    descending = 10**6 // np.arange(1, 3001)
    losses = SetLosses(Histogram.of(descending), 40)
    sets = SetsBetween(losses.reach(30_000), losses.reach(20_000))
    for seed in range(5):
        numbers = [uniform(Draw(bytes([seed] * 32)), 0, i) for i in range(len(sets.segments))]
        members = sets.members(numbers)
        assert sum(members) == 40
        with precision(8):
            hasty = sets._walk(numbers)
        with precision(500):
            assert sets._walk(numbers) == members
        assert hasty is None or hasty == members
