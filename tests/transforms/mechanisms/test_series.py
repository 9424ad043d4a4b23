"""Rankings to date: sensitivities enumerated, the law of the noisy counts of all steps, histories, and planted defects.

C is made anew here from its definition, as the inverse of B in rational arithmetic; nothing of the proof is assumed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from private_topk.transforms.history import History, series_root
from private_topk.transforms.mechanisms import MECHANISMS, CorrelatedGaussian
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import NOISE_ERROR, noise_at, noise_real, standard_noise
from private_topk.transforms.mechanisms.exact.reals import precision
from private_topk.transforms.mechanisms.exact.series import (
    MAX_STEPS,
    NewCounts,
    exact_row,
    matrix,
    noisy_score_of,
    squared_reach,
    top_of_steps,
)
from private_topk.transforms.release import Release, ReleaseKey
from tests.refusals import refused
from tests.transforms.mechanisms.laws import delta_of

TEST_KEY = ReleaseKey.for_tests()
Series = tuple[tuple[int, ...], ...]
"""Counts to date of every item: one tuple of T numbers each."""


def b_matrix(steps: int) -> list[list[Fraction]]:
    return [exact_row(steps, step) + [Fraction(0)] * (steps - step) for step in range(1, steps + 1)]


def c_matrix(steps: int) -> list[list[Fraction]]:
    """The inverse of B, by forward substitution."""
    b = b_matrix(steps)
    c = [[Fraction(0)] * steps for _ in range(steps)]
    for column in range(steps):
        for row in range(column, steps):
            rest = sum((b[row][j] * c[j][column] for j in range(column, row)), Fraction(0))
            c[row][column] = (Fraction(row == column) - rest) / b[row][row]
    return c


def squared_move(c: list[list[Fraction]], here: Series, there: Series) -> Fraction:
    """How far C n moves between two data sets, squared."""
    total = Fraction(0)
    for one, other in zip(here, there, strict=True):
        moved = [a - b for a, b in zip(one, other, strict=True)]
        total += sum((sum(a * b for a, b in zip(row, moved, strict=True)) ** 2 for row in c), Fraction(0))
    return total


def step_from(first: int, steps: int) -> tuple[int, ...]:
    return tuple(int(step >= first) for step in range(steps))


def users(steps: int, items: int, most: int) -> list[Series]:
    """Everything that one user can add: for at most so many items a step function, from any step on."""
    firsts = itertools.product(range(steps + 1), repeat=items)  # `steps` stands for an item that they never hold
    return [tuple(step_from(first, steps) for first in each) for each in firsts if sum(f < steps for f in each) <= most]


@pytest.mark.parametrize(("steps", "v"), [(1, 1.0), (12, 1.85067686), (365, 2.94405355)])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_the_scale_is_the_exact_one_of_its_sensitivity(steps: int, v: float, neighbours: str) -> None:
    mechanism = replace(CorrelatedGaussian(1.0, 1e-6, 20, neighbours), steps=steps, cap=3)
    squared = v * 20 * 9 * (2 if neighbours == "replace-one" else 1)
    best = brentq(lambda s: delta_of(s, 1.0, math.sqrt(squared)) - 1e-6, 1, 1e6, xtol=1e-9)
    assert float(mechanism.scale()) == pytest.approx(best, rel=1e-7)


def test_noise_hardly_grows_with_the_number_of_steps() -> None:
    """In standard deviations of one ranking that has the whole budget: at the first, worst and last step."""
    for steps, told in ((12, (1.36, 1.70, 1.61)), (52, (1.52, 2.15, 1.95)), (365, (1.72, 2.76, 2.39))):
        found = np.sqrt((matrix(steps) ** 2).sum(axis=1) * float(squared_reach(steps)))
        assert (found[0], found.max(), found[-1]) == pytest.approx(told, abs=0.006)


def test_too_many_steps_are_refused() -> None:
    with refused("window", "1,025 windows to date, and a series has at most 1,024"):
        replace(CorrelatedGaussian(1.0, 1e-6, 1), steps=MAX_STEPS + 1)


def test_it_is_the_only_one_that_draws_series() -> None:
    assert [name for name, kind in MECHANISMS.items() if kind.guarantee.to_date] == ["correlated-gaussian"]


@pytest.mark.parametrize(("steps", "items"), [(1, 3), (2, 3), (3, 3), (4, 2), (5, 2)])
def test_no_user_moves_a_series_further_than_the_scale_covers(steps: int, items: int) -> None:
    """Every set of items and first steps of one user, and of two that replace each other. The bound is reached."""
    c, reach = c_matrix(steps), squared_reach(steps)
    nobody = tuple((0,) * steps for _ in range(items))
    for most in range(1, items + 1):
        everyone = users(steps, items, most)
        moves = [squared_move(c, user, nobody) for user in everyone]
        assert max(moves) <= most * reach
        assert max(moves) == pytest.approx(float(most * reach)), "the budget is used up"
        swaps = max(squared_move(c, one, other) for one, other in itertools.combinations(everyone, 2))
        assert swaps <= 2 * most * reach


def test_amounts_move_a_series_no_further_than_steps_of_the_cap() -> None:
    """Every non-decreasing sum of amounts up to 3, over four steps."""
    c, cap = c_matrix(4), 3
    sums = [s for s in itertools.product(range(cap + 1), repeat=4) if list(s) == sorted(s)]
    assert max(squared_move(c, (s,), ((0,) * 4,)) for s in sums) <= cap**2 * squared_reach(4)


def test_what_changes_its_history_breaks_the_bound() -> None:
    """A pair that vanishes and comes back, as late rows ordered by event time would make it, is not covered."""
    steps = 52
    c = c_matrix(steps)
    flickering = tuple(int(step % 2 == 0) for step in range(steps))
    assert squared_move(c, (flickering,), ((0,) * steps,)) > 8 * squared_reach(steps)


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 40])
def test_the_matrix_is_the_normalised_square_root(steps: int) -> None:
    c, b = c_matrix(steps), b_matrix(steps)
    roots = [Fraction(math.comb(2 * r, r), 4**r) for r in range(steps)]
    reaches = list(itertools.accumulate(root**2 for root in roots))
    assert squared_reach(steps) == reaches[-1]
    for first in range(steps):
        column = [sum(row[first:], Fraction(0)) for row in c]  # C of (0, .., 0, 1, .., 1)
        g = roots[0] / column[first]
        assert column == [Fraction(0)] * first + [root / g for root in roots[: steps - first]]
        assert Fraction(0) <= g**2 - reaches[steps - first - 1] / reaches[-1] < Fraction(1, 2**30)
        assert (g * 2**32).denominator == 1
    assert all(0 < entry <= 1 for step, row in enumerate(b) for entry in row[: step + 1])
    assert np.allclose(matrix(steps), np.array(b, float), rtol=2**-51, atol=0)


def some_draws(number: int, name: str = "") -> list[Draw]:
    history = History(series_root(Release(TEST_KEY, f"series {name}"), ["a"], {}))
    draws = []
    for step in range(number):
        history = history.then(b"%d" % step)
        draws.append(history.draw())
    return draws


def test_noise_at_items_is_that_of_their_addresses() -> None:
    draw = some_draws(1)[0]
    items = np.array([0, 3, 4, 1000, 70000])
    for noise in ("gaussian", "laplace"):
        whole = standard_noise(70001, noise, draw)
        assert noise_at(items, noise, draw).tolist() == whole[items].tolist()
        assert noise_at(np.arange(5), noise, draw).tolist() == whole[:5].tolist()


def floats(steps: int, counts: np.ndarray, scale: float, draws: Sequence[Draw]) -> np.ndarray:
    """y / scale of all items and steps, from the noise of single addresses and B anew; shape (steps so far, d)."""
    with precision(96):
        normals = [
            [float(noise_real(draw, 0, i, "gaussian")().mid()) for i in range(counts.shape[1])] for draw in draws
        ]
    b = np.array([[float(entry) for entry in row] for row in b_matrix(steps)])[: len(draws), : len(draws)]
    return counts[: len(draws)] / scale + b @ np.array(normals)


def new_counts(counts: np.ndarray) -> NewCounts:
    added = np.diff(counts, axis=0, prepend=0)
    return NewCounts.of([(np.flatnonzero(row), row[row > 0]) for row in added])


@pytest.mark.parametrize("seed", range(8))
def test_every_step_is_the_order_of_the_noisy_counts_to_date(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps, items, k = int(rng.integers(1, 9)), int(rng.integers(5, 40)), 5
    counts = np.cumsum(rng.integers(0, 3, (steps, items)) * (rng.random((steps, items)) < 0.3), axis=0)
    draws = some_draws(steps, str(seed))
    found = top_of_steps(new_counts(counts), range(items), Fraction(7, 2), steps, k, draws)
    for answer, noisy in zip(found, floats(steps, counts, 3.5, draws), strict=True):
        assert answer.items.tolist() == np.argsort(-noisy)[:k].tolist()


def test_what_comes_later_changes_no_earlier_step() -> None:
    """A series that is drawn up to a step is the beginning of the whole one: the draws of later steps are not asked."""
    rng = np.random.default_rng(5)
    counts = np.cumsum(rng.integers(0, 2, (9, 30)), axis=0)
    whole = top_of_steps(new_counts(counts), range(30), Fraction(5), 9, 6, some_draws(9))
    for step in range(1, 9):
        beginning = new_counts(counts[:step])
        part = top_of_steps(beginning, range(30), Fraction(5), 9, 6, some_draws(step))
        assert [a.items.tolist() for a in part] == [a.items.tolist() for a in whole[:step]]
        assert [a.counts().tolist() for a in part] == [a.counts().tolist() for a in whole[:step]]


def test_noise_belongs_to_the_item_and_not_to_its_rank_or_place() -> None:
    """Chunks, lists with gaps, and counts of other items change no score. (Noise by rank would: ranks move.)"""
    items, listed = 20_000, np.arange(0, 20_000, 7)
    counts = np.zeros((3, items), np.int64)
    counts[:, listed[::50]] = [[40], [60], [90]]
    draws, scale = some_draws(3), Fraction(20)
    found = top_of_steps(new_counts(counts), listed, scale, 3, 10, draws)
    normals = np.array([standard_noise(items, "gaussian", draw)[listed] for draw in draws])
    noisy = counts[:, listed] / 20 + np.array(b_matrix(3), float) @ normals
    for answer, row in zip(found, noisy, strict=True):
        assert answer.items.tolist() == listed[np.argsort(-row)[:10]].tolist()
    assert len({tuple(a.items.tolist()) for a in found}) > 1


def test_scores_too_close_for_floats_are_decided_exactly() -> None:
    """Counts so large that the floats of scores cannot tell them apart: the exact real numbers do."""
    counts = np.full((2, 6), 2**61)
    draws, scale = some_draws(2), Fraction(2, 3)
    found = top_of_steps(new_counts(counts), range(6), scale, 2, 6, draws)
    noisy = floats(2, np.zeros((2, 6)), 1.0, draws)
    assert [a.items.tolist() for a in found] == [np.argsort(-row).tolist() for row in noisy]
    spread = counts + np.arange(6) * 2**8  # differences of counts far below the precision of a float of 2**61
    found = top_of_steps(new_counts(spread), range(6), Fraction(2**9), 2, 6, draws)
    noisy = floats(2, np.tile(np.arange(6) * 0.5, (2, 1)), 1.0, draws)
    assert [a.items.tolist() for a in found] == [np.argsort(-row).tolist() for row in noisy]


def test_exact_scores_lie_within_the_error_of_the_floats() -> None:
    draws = some_draws(12)
    approximate = matrix(12) @ np.array([noise_at(np.arange(50), "gaussian", draw) for draw in draws])
    for item in range(50):
        with precision(128):
            exact = float(noisy_score_of(item, 0, Fraction(1), 12, draws)().mid())
        assert abs(exact - approximate[-1, item]) <= NOISE_ERROR * matrix(12)[-1].sum() * 1.01


@pytest.mark.parametrize("largest", [3, 10**6, 2**40])
def test_published_counts_are_the_exact_rounding_of_the_numbers_that_ranked(largest: int) -> None:
    """In floats where these are certain and in balls where they are not; and so they never contradict the order."""
    rng = np.random.default_rng(largest)
    counts = np.cumsum(rng.integers(0, largest, (6, 40)), axis=0)
    draws, scale = some_draws(6, "counts"), Fraction(5, 3)
    for step, top in enumerate(top_of_steps(new_counts(counts), range(40), scale, 6, 12, draws)):
        noisy = top.counts().tolist()
        assert noisy == sorted(noisy, reverse=True)
        for item, shown in zip(top.items.tolist(), noisy, strict=True):
            with precision(200):
                real = noisy_score_of(item, int(counts[step, item]), scale, 6, draws[: step + 1])() * 5 / 3
                assert abs(real - shown) < 0.5, (step, item, real, shown)


@pytest.mark.parametrize("scale", [Fraction(2**40), Fraction(2**34, 3), Fraction(3, 2)])
def test_counts_that_no_float_can_tell_are_rounded_exactly(scale: Fraction) -> None:
    """Noise of such a scale is known to some counts as a float, and a count of 2**61 to 2**9 of them."""
    counts, draws = np.full((2, 40), 2**61), some_draws(2)
    counts[:, 1::2] = 2**61 - 2**12 + 1
    for step, top in enumerate(top_of_steps(new_counts(counts), range(40), scale, 2, 40, draws)):
        for item, shown in zip(top.items.tolist(), top.counts().tolist(), strict=True):
            with precision(200):
                real = noisy_score_of(item, int(counts[step, item]), scale, 2, draws[: step + 1])()
                assert abs(real * scale.numerator / scale.denominator - shown) < 0.5


def test_the_stated_noise_of_counts_is_that_of_each_step_over_all_items() -> None:
    """A count that is shown was helped by its noise: only a width that holds for all items at once is kept."""
    steps, items, scale = 3, 400, 10.0
    mechanism = replace(CorrelatedGaussian(1.0, 1e-3, 1), steps=steps)
    kept, chosen_beforehand, number = np.zeros(steps), np.zeros(steps), 300
    confidence, sigma = Fraction(95, 100), mechanism.scale()
    assert float(sigma) < scale
    for seed in range(number):
        tops = mechanism.series(NewCounts.of([]), range(items), 10, some_draws(steps, f"noise {seed}"))
        for step, top in enumerate(tops):
            law = mechanism.noise_of_step(step + 1)
            width = law.half_width(1 - (1 - confidence) / items)
            kept[step] += bool(np.abs(top.counts()).max() <= width)
            chosen_beforehand[step] += bool(np.abs(top.counts()).max() <= law.half_width(confidence))
    assert (kept >= 0.9 * number).all() and (chosen_beforehand <= 0.05 * number).all()
    deviations = [mechanism.noise_of_step(step).stddev() for step in (1, 2, 3)]
    assert mechanism.noise_of_counts(items, 10).stddev() == max(deviations) and len(set(deviations)) == 3


STEPS, ITEMS = 4, 40_000


def samples(steps: int = STEPS) -> np.ndarray:
    """Of many items that nobody holds, the noise at every step in units of sigma, (steps, items)."""
    normals = np.array([noise_at(np.arange(ITEMS), "gaussian", draw) for draw in some_draws(steps, "law")])
    return matrix(steps) @ normals


def covariance_is(noise: np.ndarray, expected: np.ndarray) -> bool:
    """Whether samples have a covariance: after whitening it is that of independent normals (Wishart)."""
    white = np.linalg.solve(np.linalg.cholesky(expected), noise)
    found, n = white @ white.T, noise.shape[1]
    freedom = len(found) * (len(found) + 1) // 2
    statistic = (np.tril(found - n * np.eye(len(found)), -1) ** 2).sum() / n
    statistic += ((np.diag(found) - n) ** 2).sum() / (2 * n)
    return bool(statistic < stats.chi2(freedom).isf(1e-6))


def test_the_noisy_counts_of_all_steps_follow_their_law() -> None:
    """(y_1 .. y_T) is normal with the covariance sigma**2 B B', and every step has its own standard deviation."""
    b = np.array(b_matrix(STEPS), float)
    noise = samples()
    assert covariance_is(noise, b @ b.T)
    for row, deviation in zip(noise, np.sqrt((b**2).sum(axis=1)), strict=True):
        assert stats.kstest(row / deviation, "norm").pvalue > 1e-6
    assert not covariance_is(noise * 1.03, b @ b.T), "3% more noise is seen"
    assert not covariance_is(samples() + 0.05 * np.roll(noise, 1, axis=0), b @ b.T), "and so is another correlation"


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_the_whole_series_is_as_private_as_it_says(neighbours: str) -> None:
    """The hockey stick of (C n, sigma) between the users who move it most, which is that of all noisy counts."""
    steps, most, epsilon, delta = 4, 2, 0.7, 0.01
    mechanism = replace(CorrelatedGaussian(epsilon, delta, most, neighbours), steps=steps)
    c, everyone = c_matrix(steps), users(steps, 3, most)
    nobody = tuple((0,) * steps for _ in range(3))
    pairs = [(user, nobody) for user in everyone]
    if neighbours == "replace-one":
        pairs += list(itertools.combinations(everyone, 2))
    worst = max(squared_move(c, one, other) for one, other in pairs)
    assert delta_of(float(mechanism.scale()), epsilon, math.sqrt(float(worst))) <= delta * (1 + 1e-9)
    plain = replace(mechanism, steps=1)
    assert delta_of(float(plain.scale()), epsilon, math.sqrt(float(worst))) > delta, "the scale of one step is not"


def test_a_series_is_drawn_at_its_own_scale() -> None:
    """That the draw follows the law of its scale is shown above."""
    mechanism = replace(CorrelatedGaussian(0.5, 0.05, 3), steps=9)
    new = new_counts(np.cumsum(np.random.default_rng(5).integers(0, 2, (9, 30)), axis=0))
    drawn = mechanism.series(new, range(30), 6, some_draws(9))
    for one, other in zip(drawn, top_of_steps(new, range(30), mechanism.scale(), 9, 6, some_draws(9)), strict=True):
        assert (one.items.tolist(), one.counts().tolist()) == (other.items.tolist(), other.counts().tolist())


# Histories.


def root(**changed: object) -> bytes:
    public: dict[str, object] = {"mechanism": "correlated-gaussian", "epsilon": 1.0, "k": 3, **changed}
    windows = public.pop("windows", ["w1", "w2"])
    return series_root(Release(TEST_KEY, str(public.pop("id", "charts"))), windows, public)


def lanes(root: bytes, new: Sequence[bytes], group: int = 0) -> list[int]:
    history, found = History(root, group), []
    for digest in new:
        history = history.then(digest)
        found.append(history.draw().word(0, 0))
    return found


def test_two_histories_share_the_noise_of_their_common_beginning_and_no_other() -> None:
    """Shared noise over two histories gives away the difference of their counts exactly."""
    one, other = lanes(root(), [b"a", b"b", b"c", b"d"]), lanes(root(), [b"a", b"x", b"c", b"d"])
    assert one[0] == other[0]
    assert len({*one[1:], *other[1:]}) == 6, "steps that count the same after a difference have other noise too"


def test_two_series_share_no_noise_whatever_differs_between_them() -> None:
    """One noise under two scales gives the counts away: y - y' is the noise times the difference of the scales."""
    base = lanes(root(), [b"a"])
    others = [{"id": "others"}, {"epsilon": 2.0}, {"k": 4}, {"windows": ["w1"]}, {"neighbours": "replace-one"}]
    assert len({*base, *(lanes(root(**other), [b"a"])[0] for other in others)}) == 1 + len(others)


def test_equal_counts_of_steps_and_groups_have_noise_of_their_own() -> None:
    """An empty step, or two groups without rows, would show as equal noisy counts otherwise."""
    found = [*lanes(root(), [b"", b"", b""]), *lanes(root(), [b"", b"", b""], group=1)]
    assert len(set(found)) == 6


def test_what_is_kept_of_a_history_is_not_the_key_of_its_noise() -> None:
    history = History(root()).then(b"a")
    assert Draw(history.state).word(0, 0) != history.draw().word(0, 0)
    other = History(bytes(32), 0, history.step, history.state)
    assert other.draw().word(0, 0) != history.draw().word(0, 0), "without the root a state tells no noise"
