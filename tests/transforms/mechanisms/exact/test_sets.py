from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from private_topk.transforms.mechanisms.exact import sets as module
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.race import LossInterval
from private_topk.transforms.mechanisms.exact.reals import precision, uniform
from private_topk.transforms.mechanisms.exact.sets import SetLosses, SetsBetween, number_in_band
from tests.laws import assert_follows
from tests.transforms.mechanisms.laws import set_losses

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


def test_numbers_of_sets_are_those_of_lattice_paths() -> None:
    """All 400 columns one by one, in integers: what the segments and their polynomials stand for."""
    counts = np.random.RandomState(4).randint(0, 2000, 400)
    losses, k = SetLosses(Histogram.of(counts), 30), 30
    for loss in (0, 7, 60, 300, 2500):
        reach = losses.reach(loss).tolist()
        assert reach == [int((counts >= c - loss).sum()) for c in np.sort(counts)[::-1][:k]]
        paths = [1] + [0] * k
        for rank in range(1, 401):
            for i in range(k, 0, -1):
                paths[i] += paths[i - 1] if rank <= reach[i - 1] else 0
        assert losses.number(loss).contains(arb(paths[k])) and losses.number(loss).rel_accuracy_bits() > 40


def test_intervals_partition_the_losses() -> None:
    """Splitting to the end gives one region for each loss of some set, of the right size."""
    counts = np.array([20, 17, 17, 12, 9, 8, 3, 1])
    parts, whole = Counter(), [LossInterval.of_all(SetLosses(Histogram.of(counts), 3))]
    while whole:
        part = whole.pop()
        halves = part.split()
        if halves is None:
            parts[part.least_loss] += round(float(part.size().mid()))
        else:
            whole.extend(halves)
    assert parts == Counter(set_losses(counts.tolist(), 3).values())


@pytest.mark.parametrize(
    "counts",
    [
        [20, 17, 17, 12, 9, 8, 3, 1],
        [5, 5, 5, 5, 5],
        [1000, 999, 400, 400, 0, 0, 0],
        [2**40, 2**40 - 1, 7, 6, 0],
        [90, 90, 80, 79, 79, 79, 40, 40, 39, 2, 2, 1],
        [300, 200, 100, 50],
    ],
    ids=["steps", "equal", "cliffs", "wide", "tied", "all but one"],
)
def test_around_returns_the_nearest_losses_of_sets(counts: list[int]) -> None:
    """Against all losses of sets, listed: at every loss, or where there are too many of them, beside those of sets."""
    k = 3
    of_sets = sorted(set(set_losses(counts, k).values()))
    losses, most = SetLosses(Histogram.of(np.array(counts)), k), of_sets[-1]
    beside = {r + by for r in of_sets for by in (-2, -1, 0, 1, 2)}
    for loss in range(most) if most < 2000 else (r for r in beside if 0 <= r < most):
        nearest = max(r for r in of_sets if r <= loss), min(r for r in of_sets if r > loss)
        assert losses.around(loss) == nearest, loss


RNG = np.random.default_rng(3)


def steps(kind: str, k: int) -> np.ndarray:
    """Of the shapes that counts give: even steps, a wide first step, bunches, and all free."""
    places = np.arange(1, k + 1)
    return {
        "even": 9 * places,
        "late": 6 * k + 2 * places,
        "tight": places + places // 7,
        "bunched": np.repeat(np.arange(1, k // 20 + 1) * 90, 20)[:k],
        "free": np.full(k, 40 * k),
        "rising": k + places**2 // 20,
        "ragged": np.sort(RNG.integers(k, 30 * k, k)) + places,
    }[kind]


def segments(outer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ends = np.unique(outer)
    return np.diff(ends, prepend=0), np.searchsorted(outer, ends, "right")


@pytest.mark.parametrize("k", [30, 200, 600])
@pytest.mark.parametrize("kind", ["even", "late", "tight", "bunched", "free", "rising", "ragged"])
def test_the_ball_holds_the_number_of_all_paths_and_is_narrow(kind: str, k: int) -> None:
    outer = steps(kind, k)
    with precision(200):
        whole = SetsBetween(outer).number()  # beyond the working precision all paths are counted
        assert whole.rel_accuracy_bits() > 150
    with precision(96):
        ball = number_in_band(*segments(outer))
    assert ball is not None and ball.rel_accuracy_bits() >= 40 and ball.contains(whole)


@pytest.mark.parametrize(
    "outer",
    [np.concatenate((np.arange(1, 51) * 3, np.full(2000, 500_000))), np.repeat([2000, 200_000], [1000, 1000])],
    ids=["too small", "too large"],
)
def test_the_ball_is_narrow_for_weights_beyond_the_range_of_doubles(outer: np.ndarray) -> None:
    """Of a segment with thousands of members."""
    with precision(96):
        ball = number_in_band(*segments(outer))
        assert ball is not None and ball.rel_accuracy_bits() >= 40
    with precision(200):
        assert ball.contains(SetsBetween(outer).number())


def test_paths_outside_the_band_are_covered_by_the_width_of_the_ball(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bands that are far too narrow the ball still holds the number, and says that it is wide."""
    monkeypatch.setattr(module, "_LEFT_OUT", -math.inf)
    narrow = {"_DOWN": (3, 1), "_UP": (3, 1), "_ACROSS": (3, 1)}
    for name, value in narrow.items():
        monkeypatch.setattr(module, name, value)
    widths = []
    for kind in ("even", "late", "bunched", "free", "rising", "ragged"):
        outer = steps(kind, 300)
        with precision(96):
            ball = number_in_band(*segments(outer))
        with precision(200):
            whole = SetsBetween(outer).number()
            assert ball is not None and ball.contains(whole), kind
            widths.append(float((ball / whole).rad()))
    assert max(widths) > 1e-6, "no band was too narrow: the test tests nothing"


def test_a_wide_ball_is_refused() -> None:
    """Nothing of unknown width is taken for the number: then all paths are counted."""
    outer = steps("even", 300)
    before = module._UP
    try:
        module._UP = (1, 0)
        with precision(96):
            assert number_in_band(*segments(outer)) is None
            assert SetsBetween(outer).number().rel_accuracy_bits() > 60
    finally:
        module._UP = before
