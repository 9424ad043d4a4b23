from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from flint import arb, ctx

from private_topk.transforms.mechanisms.exact import staircase
from private_topk.transforms.mechanisms.exact.reals import precision
from private_topk.transforms.mechanisms.exact.staircase import SetsBetween, number_in_band, row_of_binomials

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


def counted(outer: np.ndarray, rows: type[staircase._Doubles | staircase._Balls]) -> arb | None:
    band = staircase._Band(*segments(outer))
    return staircase._counted(band, rows(band))


@pytest.mark.parametrize("k", [30, 200, 600])
@pytest.mark.parametrize("kind", ["even", "late", "tight", "bunched", "free", "rising", "ragged"])
def test_the_ball_holds_the_number_of_all_paths_and_is_narrow(kind: str, k: int) -> None:
    """Rows of balls as well as rows of doubles, which are bounded: narrower than 2**-35 all the same."""
    outer = steps(kind, k)
    with precision(200):
        whole = SetsBetween(outer).number()  # beyond the working precision all paths are counted
        assert whole.rel_accuracy_bits() > 150
    for rows, digits in ((staircase._Doubles, 35), (staircase._Balls, 40)):
        with precision(96):
            ball = counted(outer, rows)
        assert ball is not None and ball.rel_accuracy_bits() >= digits and ball.contains(whole)


def test_roundings_are_bounded_by_what_the_doubles_add_up() -> None:
    """A bound a millionth as large would be wrong somewhere: doubles do round."""
    wrong = 0
    for kind in ("even", "late", "rising", "ragged"):
        outer = steps(kind, 600)
        band = staircase._Band(*segments(outer))
        row = staircase._Doubles(band)
        with precision(96):
            assert staircase._counted(band, row) is not None
            near = row.number(600 - row._least)
            row._error *= 1e-6
        with precision(200):
            whole = SetsBetween(outer).number()
        assert near.contains(whole)
        with precision(96):
            off = abs(row.number(600 - row._least).mid() / whole - 1)
        wrong += bool(off > 2.0**-53)
    assert wrong


@pytest.mark.parametrize(
    "outer",
    [
        np.concatenate((np.arange(1, 51) * 3, np.full(2000, 500_000))),
        np.repeat([2000, 200_000], [1000, 1000]),
    ],
    ids=["too small", "too large"],
)
def test_where_doubles_do_not_reach_balls_count(outer: np.ndarray) -> None:
    """Of a segment with thousands of members the weights go beyond the range of doubles, and nothing is said of it."""
    with precision(96):
        assert counted(outer, staircase._Doubles) is None
        ball = number_in_band(*segments(outer))
        assert ball is not None and ball.rel_accuracy_bits() >= 40
    with precision(200):
        assert ball.contains(SetsBetween(outer).number())


def test_weights_too_large_for_doubles_are_infinite() -> None:
    weights, _ = staircase._weights(2000, 1271, 0)
    assert np.isinf(weights).any() and not np.isnan(weights).any()


def test_what_is_left_out_stays_below_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bands that are far too narrow the ball still holds the number, and says that it is wide."""
    monkeypatch.setattr(staircase, "_LEFT_OUT", -math.inf)
    narrow = {"_DOWN": (3, 1), "_UP": (3, 1), "_ACROSS": (3, 1)}
    for name, value in narrow.items():
        monkeypatch.setattr(staircase, name, value)
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
    before = staircase._UP
    try:
        staircase._UP = (1, 0)
        with precision(96):
            assert number_in_band(*segments(outer)) is None
            assert SetsBetween(outer).number().rel_accuracy_bits() > 60
    finally:
        staircase._UP = before


def test_small_numbers_by_listing() -> None:
    for outer in ([2, 4], [1, 2, 7], [5, 5, 6, 9], [3, 4, 5]):
        k, ends = len(outer), outer[-1]
        sets = sum(all(j <= t for j, t in zip(s, outer, strict=True)) for s in combinations(range(1, ends + 1), k))
        with precision(96):
            ball = number_in_band(*segments(np.array(outer)))
            assert ball is not None and ball.contains(sets) and ball.rel_accuracy_bits() >= 35


def test_slopes_are_those_of_the_least_concave_line() -> None:
    for _ in range(30):
        m = int(RNG.integers(1, 12))
        sizes, needs = RNG.integers(1, 9, m), np.cumsum(RNG.integers(1, 5, m))
        ends = np.cumsum(sizes)
        slopes = staircase._slopes(ends, needs)
        line = np.cumsum(slopes * sizes)
        assert all(a >= b - 1e-12 for a, b in pairwise(slopes)) and (line >= needs - 1e-9).all()
        xs, ys = np.append(0, ends), np.append(0, needs)
        for x, y in zip(ends, line, strict=True):  # no higher than the best chord over it
            chords = [ys[i] + (ys[j] - ys[i]) * (x - xs[i]) / (xs[j] - xs[i])
                      for i in range(m + 1) for j in range(m + 1) if xs[i] < x <= xs[j]]  # fmt: skip
            assert y <= max(chords) + 1e-9


def test_binomials_one_from_the_other() -> None:
    with precision(96):
        row = row_of_binomials(500, 300)
        assert ctx.prec == 96 and all(row[b].overlaps(arb.bin_uiui(500, b)) for b in range(301))
        assert row[300].rel_accuracy_bits() > 80
