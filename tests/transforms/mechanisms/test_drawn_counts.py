"""Counts that come with the draw: their law, their privacy together with the ranking, and how far they are off.

Laws are by quadrature from the definition: noise on every count, the largest in order, each rounded.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from private_topk.transforms.domain import RangeDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms import MECHANISMS, Gamma, Gaussian, Laplace, Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.noisy_counts import DrawnCounts
from private_topk.transforms.mechanisms.parameters import parameters_of
from private_topk.transforms.spec import TopK
from tests.laws import Law, assert_follows, draws_to_see, hockey_stick, max_log_ratio, permitted_neighbours
from tests.nightly import nightly_but

REST = ("rest",)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def counted(mechanism: Mechanism, cap: int = 1) -> Mechanism:
    return replace(mechanism, with_counts=True, cap=cap)


def in_cells(value: Callable[[np.ndarray], np.ndarray], cells: np.ndarray) -> np.ndarray:
    """The integral over each cell of a whole number, half of it after the other: densities bend at whole numbers."""
    halves = cells[:, None, None] + np.array([-0.25, 0.25])[:, None] + _NODES / 4
    return (value(halves) @ _WEIGHTS).sum(axis=1) / 4


def stated_scale(mechanism: Mechanism, d: int) -> float:
    """That of the noise where all noisy counts are published, from the definition; of `gamma` one over its rate."""
    if isinstance(mechanism, Gamma):
        return mechanism.cap / float(mechanism.epsilon)
    many, m = 2 if mechanism.parameter("neighbours") == "replace-one" else 1, mechanism.parameter("max_items_per_user")
    moved = d if m is None else many * m
    if isinstance(mechanism, Laplace):
        return mechanism.cap * moved / float(mechanism.epsilon)
    squared = Fraction(d if m is None else many * min(m, d))
    return mechanism.cap * float(gaussian_scale(Fraction(mechanism.epsilon), Fraction(mechanism.delta), squared))


def law_of(mechanism: Mechanism, counts: tuple[int, ...], k: int, reach: int, scale: float) -> Law:
    """P(these items, with these counts), by (items, counts) and the rest, of its noise at a scale."""
    if isinstance(mechanism, Gamma):
        law = dict(of_gamma(1 / scale, counts, reach))
    else:
        kind = stats.laplace if isinstance(mechanism, Laplace) else stats.norm
        noises = [kind(count, scale) for count in counts]
        cells = np.arange(min(counts) - reach, max(counts) + reach + 1)
        law = dict(of_one(noises, cells) if k == 1 else of_two(noises, cells))
    return {**law, REST: max(1 - sum(law.values()), 0.0)}


def of_one(noises: list, cells: np.ndarray) -> Iterator[tuple[tuple, float]]:
    for i, first in enumerate(noises):
        others = [noise for j, noise in enumerate(noises) if j != i]
        each = in_cells(partial(_below, first, others), cells)
        yield from ((((i,), (int(a),)), p) for a, p in zip(cells, each, strict=True))


def _below(noise: Any, others: list, x: np.ndarray) -> np.ndarray:  # noqa: ANN401 - a frozen distribution
    return noise.pdf(x) * math.prod((its.cdf(x) for its in others), start=1.0)


def of_two(noises: list, cells: np.ndarray) -> Iterator[tuple[tuple, float]]:
    for i, j in itertools.permutations(range(len(noises)), 2):
        first, second = noises[i], noises[j]
        others = [noise for place, noise in enumerate(noises) if place not in (i, j)]

        below = partial(_below, second, others)
        ends = np.concatenate([cells - 0.5, cells[-1:] + 0.5])
        top, under = np.diff(first.cdf(ends)), in_cells(below, cells)
        alike = in_cells(lambda x, f=first, b=below: b(x) * (f.cdf(np.round(x) + 0.5) - f.cdf(x)), cells)
        for place, a in enumerate(cells.tolist()):
            yield ((i, j), (a, a)), alike[place]
            yield from ((((i, j), (a, int(b))), top[place] * under[other]) for other, b in enumerate(cells[:place]))


def of_gamma(rate: float, counts: tuple[int, ...], reach: int) -> Iterator[tuple[tuple, float]]:
    """Of two items, both published: density (rate / 2)**2 / 2! exp(-rate max(|x|, |y|)), bent along the diagonals."""
    d = len(counts)
    constant = math.exp(d * math.log(rate / 2) - gammaln(d + 1))
    u, v = (_NODES[:, None] + 1) / 4, _NODES[None, :]  # a triangle: away from the centre by u, along by u v
    weights = (_WEIGHTS[:, None] / 4) * u * _WEIGHTS[None, :]
    corners = [(u, u * v), (-u, u * v), (u * v, u), (u * v, -u)]
    for p, q in itertools.product(range(-reach, reach + 1), repeat=2):
        a, b = counts[0] + p, counts[1] + q
        parts = [float((np.exp(-rate * np.maximum(abs(p + x), abs(q + y))) * weights).sum()) for x, y in corners]
        right, left, up, down = (constant * part for part in parts)
        if a == b:  # x is above y to the right of and below the diagonal
            yield ((0, 1), (a, b)), right + down
            yield ((1, 0), (b, a)), left + up
        else:
            yield (((0, 1), (a, b)) if a > b else ((1, 0), (b, a))), right + left + up + down


CASES = [
    (Laplace(1.5, 2), (3, 2, 2), 2),
    (Laplace(2.0, 1, "replace-one"), (3, 3, 1), 1),
    (Laplace(3.0), (2, 2, 0), 2),
    (Gaussian(2.0, 1e-2, 1), (3, 2, 2), 2),
    (Gaussian(2.0, 1e-2, None, "replace-one"), (4, 3, 3), 1),
    (Gamma(1.5), (2, 1), 2),
    (Gamma(1.5, "replace-one"), (2, 2), 2),
]


@pytest.mark.parametrize(("mechanism", "counts", "k"), nightly_but(CASES, CASES[1], CASES[4], CASES[5]), ids=str)
def test_items_and_counts_have_the_stated_law_together(mechanism: Mechanism, counts: tuple[int, ...], k: int) -> None:
    reach, its = 30 if mechanism.about.name != "gamma" else 14, counted(mechanism)
    law = law_of(mechanism, counts, k, reach, stated_scale(mechanism, len(counts)))
    draws, bits = draws_to_see(law, 0.1), RandomBits.keyed(b"drawn")
    order = np.argsort(-np.array(counts), kind="stable")
    histogram, seen = Histogram.of(np.array(counts)[order]), Counter[tuple]()
    for _ in range(draws):
        ranks, noisy = its.select_counted(histogram, k, bits.draw())
        key: Any = (tuple(order[ranks].tolist()), tuple(noisy.tolist()))
        seen[key if key in law else REST] += 1
    assert_follows(seen, law, 0.1)


PRIVATE = [
    (Laplace(1.0, 2), (1, 1, 0), 1, 1),
    (Laplace(1.0, 1, "replace-one"), (1, 1), 2, 1),
    (Laplace(1.0, 2, "replace-one"), (1, 1, 1), 1, 1),
    (Laplace(1.0), (1, 1, 0), 1, 1),
    (Laplace(1.0, 1), (2, 1), 2, 2),
    (Gaussian(1.0, 1e-2, 1), (2, 1), 2, 1),
    (Gaussian(1.0, 1e-2, 2), (2, 1), 2, 1),
    (Gaussian(1.0, 1e-2, 1, "replace-one"), (1, 1), 2, 1),
    (Gaussian(1.0, 1e-2, 1), (2, 0), 2, 2),
    (Gamma(1.0), (1, 1), 2, 1),
    (Gamma(1.0, "replace-one"), (1, 1), 2, 1),
]


@pytest.mark.parametrize(("mechanism", "counts", "k", "cap"), PRIVATE, ids=str)
def test_items_and_counts_are_private_together(mechanism: Mechanism, counts: tuple[int, ...], k: int, cap: int) -> None:
    """The privacy inequality itself, on every neighbour, from the noise that the mechanism draws with: and it is spent,
    so that less noise would not do.
    """
    its = counted(mechanism, cap)
    pure, reach = its.guarantee.privacy == "pure", 12 if its.about.name == "gamma" else 25
    here, worst = drawn_law(its, counts, k, reach), 0.0
    for moved in permitted_neighbours(its, counts):
        there = drawn_law(its, moved, k, reach)
        for one, other in ((here, there), (there, here)):
            if pure:
                both = one.keys() & other.keys() - {REST}
                worst = max(worst, max_log_ratio({its: one[its] for its in both}, {its: other[its] for its in both}))
            else:
                worst = max(worst, hockey_stick(one, other, float(its.epsilon)))
    allowed = float(its.epsilon) if pure else float(its.delta)
    assert worst <= allowed + 1e-6
    # Rounding hides a part of what Gaussian noise tells, and of k < d counts not all are seen.
    assert worst >= (0.95 if pure else 0.5) * allowed or k < len(counts)


def drawn_law(mechanism: Mechanism, counts: tuple[int, ...], k: int, reach: int) -> Law:
    """`law_of`, with the scale of the noise that the mechanism says it draws with."""
    noise = mechanism.noise_of_counts(len(counts), k)
    if isinstance(mechanism, Gamma):
        scale = 1 / float(noise.rate)
    else:
        scale = float(noise.scale) if isinstance(mechanism, Laplace) else math.sqrt(noise.own)
    return law_of(mechanism, counts, k, reach, scale)


@pytest.mark.parametrize("mechanism", [Laplace(1.0, 3), Gaussian(1.0, 1e-6, 3), Gamma(1.0)], ids=lambda m: m.about.name)
@pytest.mark.parametrize("base", [0, 2**53, 2**61], ids=["small", "beyond floats", "huge"])
def test_ranks_and_counts_never_contradict_each_other(mechanism: Mechanism, base: int) -> None:
    """Of ties, and of counts that only exact arithmetic tells apart."""
    rng, bits = np.random.default_rng(7), RandomBits.keyed(b"fuzz")
    for _ in range(40):
        d = int(rng.integers(1, 60))
        counts = np.sort(base + rng.integers(0, rng.integers(1, 6), d))[::-1]
        histogram, k = Histogram.of(counts), int(rng.integers(1, d + 1))
        state, again = bits.draw(), counted(mechanism)
        ranks, noisy = again.select_counted(histogram, k, state)
        assert noisy.dtype == np.int64 and len(set(ranks.tolist())) == k == len(noisy)
        assert (np.diff(noisy) <= 0).all()
        assert ranks.tolist() == again.select(histogram, k, state).tolist()


@pytest.mark.parametrize("mechanism", [Laplace(5e3, 1), Gaussian(5e6, 1e-6, 1), Gamma(5e3)], ids=lambda m: m.about.name)
def test_the_rounding_is_of_the_real_number_itself(mechanism: Mechanism) -> None:
    """With hardly any noise, counts beyond 2**53 come out as they are: no float is between."""
    counts = np.array([2**61 + 5, 2**61 + 4, 2**61 + 4, 2**53 + 1, 3])
    ranks, noisy = counted(mechanism).select_counted(Histogram.of(counts), 5, RandomBits.keyed(b"exact").draw())
    assert noisy.tolist() == counts.tolist() and set(ranks.tolist()) == set(range(5))


SPECS = [
    TopK(20, mechanism, RangeDomain(0, 2000), publish_counts="drawn")
    for mechanism in (Laplace(0.05, 1), Gaussian(0.1, 1e-6, 4), Gamma(4.0))
]
DRAWS = 300
LEAST = 266
"""Of 300 draws that hold with a chance of 95%, fewer do so less than once in 100,000 times."""


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.mechanism.about.name)
def test_what_is_published_lies_within_noise_95_of_the_truth(spec: TopK) -> None:
    """Though noise has helped it to be published."""
    assert stats.binom.cdf(LEAST - 1, DRAWS, 0.95) < 1e-5
    counts = (4000 / np.arange(1, 2001)).astype(np.int64)
    histogram, bits, noise = Histogram.of(counts), RandomBits.keyed(b"width"), spec.noise(20)
    errors = []
    for _ in range(DRAWS):
        ranks, noisy = spec.mechanism.select_counted(histogram, 20, bits.draw())
        errors.append(noisy - counts[ranks])
    held = sum(int(abs(error).max() <= noise.within_95) for error in errors)
    assert held >= LEAST, held
    assert np.mean(errors) > 0.1 * noise.stddev  # the bias that pages and manifests tell of


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.mechanism.about.name)
def test_noise_95_is_the_least_width_for_all_items(spec: TopK) -> None:
    """Of a single count it would be several times less."""
    d, law, noise = 2000, spec.mechanism.noise_of_counts(2000, 20), spec.noise(20)
    sigma = math.sqrt(law.variance())
    kinds = {"laplace": lambda w: stats.laplace.sf(w, scale=20), "gaussian": lambda w: stats.norm.sf(w, scale=sigma)}
    beyond = 2 * kinds[spec.mechanism.about.name](noise.within_95 + 0.5) if spec.mechanism.about.name in kinds else None
    if beyond is not None:
        assert d * beyond <= 0.05 < d * 2 * kinds[spec.mechanism.about.name](noise.within_95 - 0.5)
    assert noise.within_95 > 1.5 * law.half_width(Fraction(95, 100)) or beyond is None
    rounded = replace(spec, publish_counts=DrawnCounts(round_to=10)).noise(20)
    assert (rounded.stddev, rounded.within_95) == (noise.stddev, noise.within_95 + 5)


@pytest.mark.parametrize("name", [name for name, kind in MECHANISMS.items() if not kind.guarantee.publishes_counts])
def test_others_refuse_counts_of_the_draw_by_name(name: str) -> None:
    """Gumbel, exponential and half-logistic noise, permute-and-flip, joint ones, sets; weights have them anyway."""
    given = {"epsilon": 1.0, "delta": 1e-6, "max_items_per_user": 3}
    made = MECHANISMS[name](
        **{field: given[field] for field, its in parameters_of(MECHANISMS[name]).items() if its.required}
    )
    with pytest.raises(InvalidArgument) as caught:
        counted(made)
    assert caught.value.field == "publish_counts" and f"drawn does not go with {name}" in caught.value.rule
    assert "an epsilon of their own" in caught.value.remedy


def test_those_that_have_them_are_three() -> None:
    able = {name for name, kind in MECHANISMS.items() if kind.guarantee.publishes_counts}
    assert {"laplace", "gaussian", "gamma"} <= able
    assert not able & set("joint canonical peeling oneshot pnf-peeling restricted-normal laplace-limit-domain".split())


def test_what_is_paid_where_a_replaced_user_moves_from_one_ranking_to_another() -> None:
    """Without a bound on the items of a user, one who comes costs as much as one who is replaced: two are paid for."""
    for mechanism in (
        Laplace(1.0, None, "replace-one"),
        Gaussian(1.0, 1e-6, None, "replace-one"),
        Gamma(1.0, "replace-one"),
    ):
        assert mechanism.rankings_moved(3) == 3 and counted(mechanism).rankings_moved(3) == 6
    bounded = counted(Gaussian(1.0, 1e-6, 4, "replace-one"))
    assert bounded.rankings_moved(3) == 3
    # Leaving and entering, each of as many items as there are, is then what the noise is calibrated to.
    assert bounded.noise_of_counts(3, 1).own == gaussian_scale(Fraction(1), Fraction(1e-6), Fraction(6)) ** 2


def test_laplace_states_the_rho_of_all_counts_that_a_user_moves() -> None:
    """At m = 5 above k = 2 too, where the order alone has none: m pure releases of epsilon / m."""
    told, order = counted(Laplace(1.0, 5)).cost(2), Laplace(1.0, 5).cost(2)
    assert float(told.rho) == pytest.approx(math.tanh(0.1), rel=1e-9) and told.epsilon == 1
    assert float(order.rho) == pytest.approx(math.tanh(0.5), rel=1e-9)
