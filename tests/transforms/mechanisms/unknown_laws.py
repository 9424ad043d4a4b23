"""Exact laws of the unknown-domain mechanisms on small data sets, by closed forms and integrals.

A data set is a tuple of counts, one per conceivable item; an item with count 0 does not exist in it. Nothing here
shares code with the samplers: the top is taken by a plain sort, chains of noisy counts by integrals.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

from flint import acb, arb, fmpq

from private_topk.testing import neighbours
from tests.transforms.mechanisms.piecewise import Function, Line, Point

Counts = tuple[int, ...]
Ranked = dict[tuple[int, ...], arb]
"""Probabilities of answers given as ranks 0, 1, ... from the largest count down."""


def ball(value: Fraction | int) -> arb:
    value = Fraction(value)
    return arb(fmpq(value.numerator, value.denominator))


def top(counts: Counts, kbar: int) -> tuple[list[int | None], Counts]:
    """Items and counts of the top kbar + 1: by count, then by position; None and 0 past the last one that exists."""
    seen = sorted((i for i, c in enumerate(counts) if c > 0), key=lambda i: (-counts[i], i))
    items = (seen + [None] * (kbar + 1))[: kbar + 1]
    return items, tuple(0 if i is None else counts[i] for i in items)


def named(items: list[int | None], ranked: Ranked, as_set: bool = False) -> dict[tuple[int, ...], arb]:
    """The law of the items that an answer by ranks shows: items that do not exist are left out."""
    law: dict[tuple[int, ...], arb] = defaultdict(lambda: arb(0))
    for ranks, p in ranked.items():
        shown = [items[r] for r in ranks if items[r] is not None]
        law[tuple(sorted(shown) if as_set else shown)] += p
    return dict(law)


def reachable(counts: Counts, relation: str, most: int | None) -> Iterator[Counts]:
    """Neighbours where no user holds more than `most` items."""
    for other in neighbours(counts, relation):
        moves = [b - a for a, b in zip(counts, other, strict=True)]
        if most is None or max(moves.count(1), moves.count(-1)) <= most:
            yield other


@cache
def gumbel_order(weights: tuple[Fraction, ...], k: int) -> Ranked:
    """Peeling: k draws without replacement in proportion to exp(weight)."""
    law = {}
    for ranks in itertools.permutations(range(len(weights)), k):
        left, p = dict(enumerate(weights)), arb(1)
        for r in ranks:
            p *= ball(left[r]).exp() / sum((ball(w).exp() for w in left.values()), arb(0))
            del left[r]
        law[ranks] = p
    return law


@cache
def bottom_gumbel(levels: tuple[Fraction, ...], odds: Fraction, k: int) -> Ranked:
    """Peeling of the levels and of bottom, at ln(odds), up to k draws or bottom."""

    def walk(chosen: tuple[int, ...], p: arb) -> Iterator[tuple[tuple[int, ...], arb]]:
        if len(chosen) == k:
            yield chosen, p
            return
        left = {r: ball(v).exp() for r, v in enumerate(levels) if r not in chosen}
        total = sum(left.values(), ball(odds))
        yield chosen, p * ball(odds) / total
        for r, w in left.items():
            yield from walk((*chosen, r), p * w / total)

    return dict(walk((), arb(1)))


@cache
def laplace_order(levels: tuple[Fraction, ...], k: int) -> Ranked:
    """The k largest of level + standard Laplace noise, in order."""
    line, points = Line(), [(v, Fraction(0)) for v in levels]
    return {
        ranks: (_descending(line, points, ranks[:-1], ranks[-1]) * _others(line, points, ranks)).integral()
        if len(levels) > k
        else _descending(line, points, ranks[:-1], ranks[-1]).integral()
        for ranks in itertools.permutations(range(len(levels)), k)
    }


@cache
def bottom_laplace(levels: tuple[Fraction, ...], odds: Fraction, k: int) -> Ranked:
    """The largest of level + standard Laplace noise above ln(odds) + the same, in order, at most k."""
    line = Line(ball(odds).log())
    points: list[Point] = [(v, Fraction(0)) for v in levels] + [(Fraction(0), Fraction(1))]
    bottom, law = len(levels), {}
    for size in range(min(k, len(levels)) + 1):
        for ranks in itertools.permutations(range(len(levels)), size):
            chain = ranks if size == k else (*ranks, bottom)
            density = _descending(line, points, chain[:-1], chain[-1])
            law[ranks] = (
                (density * _others(line, points, chain)).integral()
                if len(chain) < len(points)
                else (density.integral())
            )
    return law


def _descending(line: Line, points: list[Point], larger: tuple[int, ...], last: int) -> Function:
    """x -> the density of: `larger` in decreasing order, all above `last`, which is at x."""
    density, above = line.density(points[last]), None
    for r in larger:
        here = line.density(points[r])
        above = (here if above is None else here * above).tail()
    return density if above is None else density * above


def _others(line: Line, points: list[Point], chain: tuple[int, ...]) -> Function:
    out = None
    for r, point in enumerate(points):
        if r not in chain:
            out = line.below(point) if out is None else out * line.below(point)
    return out


@cache
def normal_order(counts: Counts, scale: Fraction, k: int) -> Ranked:
    """The k <= 2 largest of count + Gaussian noise, in order: one integral each, by rigorous quadrature."""
    levels = [ball(Fraction(c) / scale) for c in counts]

    def integrand(ranks: tuple[int, ...]) -> Callable[[acb, bool], acb]:
        def value(x: acb, _: bool) -> acb:
            z = x - acb(levels[ranks[-1]])
            out = (-z * z / 2).exp() / (2 * acb.pi()).sqrt()
            for r, level in enumerate(levels):
                if r in ranks[:-1]:
                    out *= ((x - level) / acb(2).sqrt()).erfc() / 2
                elif r != ranks[-1]:
                    out *= ((level - x) / acb(2).sqrt()).erfc() / 2
            return out

        return value

    low, high = float(min(levels, key=float).mid()) - 16, float(max(levels, key=float).mid()) + 16
    return {
        ranks: acb.integral(integrand(ranks), low, high, rel_tol=2**-50, abs_tol=2**-50).real
        for ranks in itertools.permutations(range(len(counts)), k)
    }


@cache
def flip_order(weights: tuple[Fraction, ...], k: int) -> Ranked:
    """k rounds of permute-and-flip: each item flips heads with probability exp(weight - max); one head wins."""
    law = {}
    for ranks in itertools.permutations(range(len(weights)), k):
        left, p = dict(enumerate(weights)), arb(1)
        for r in ranks:
            p *= _flip(left, r)
            del left[r]
        law[ranks] = p
    return law


def _flip(weights: dict[int, Fraction], winner: int) -> arb:
    best = max(weights.values())
    heads = {r: ball(w - best).exp() for r, w in weights.items()}
    others, p = [r for r in weights if r != winner], arb(0)
    for size in range(len(others) + 1):
        for up in itertools.combinations(others, size):
            q = heads[winner] / (size + 1)
            for r in others:
                q *= heads[r] if r in up else 1 - heads[r]
            p += q
    return p


@cache
def passes(levels: tuple[Fraction, ...], odds: Fraction, until: bool) -> list[arb]:
    """P(the first t levels are on one side of ln(odds) + Laplace, and the next one on the other), t = 0 .. n.

    Each level has a Laplace noise of its own. The first ones are above where `until` is False, below where it is True.
    """
    line = Line(ball(odds).log())
    same, other = (line.below, line.above) if until else (line.above, line.below)
    before, out = line.density((Fraction(0), Fraction(1))), []
    for level in levels:
        point = (level, Fraction(0))
        out.append((before * other(point)).integral())
        before = before * same(point)
    return [*out, before.integral()]


def restricted(order: Ranked, counts: Counts, drift: int, epsilon_r: Fraction, delta_q: Fraction) -> Ranked:
    """The framework over the law `order` of candidates; counts are the kbar + 1 largest."""
    law: Ranked = defaultdict(lambda: arb(0))
    for ranks, p in order.items():
        levels = tuple((counts[r] - counts[-1] - drift) * epsilon_r / (2 * drift) for r in ranks)
        for t, q in enumerate(passes(levels, 1 / delta_q, until=False)):
            law[ranks[:t]] += p * q
    return dict(law)


def top_stable(counts: Counts, k: int, drift: int, scale: Fraction, delta_q: Fraction, share: Fraction) -> Ranked:
    """TopStable by sizes; counts are the kbar + 1 largest. Ranks in increasing order."""
    kbar = len(counts) - 1
    sizes = [*range(k, kbar + 1), *range(k - 1, 0, -1)]
    levels = tuple(max(counts[i - 1] - counts[i] - drift, 0) / scale for i in sizes)
    *hits, none = passes(levels, 1 / delta_q, until=True)
    law: Ranked = defaultdict(lambda: arb(0), {(): none})
    for size, p in zip(sizes, hits, strict=True):
        if size <= k:
            law[tuple(range(size))] += p
            continue
        for ranks, q in gumbel_order(tuple(c * share / drift for c in counts[:size]), k).items():
            law[tuple(sorted(ranks))] += p * q
    return dict(law)
