"""Float prototypes of rankings in two rounds, beside what stands: are they worth building exactly?

    python -m benchmarks.two_rounds                  # real sets, and three made-up ones that nothing was tuned on

- candidates-then-rank, public items: a fifth of the budget picks 1.5 k candidates by sums of weights, the rest orders
  them by counts without a bound and Gaussian noise of sensitivity sqrt(1.5 k) / 2. `peeled` picks them by peeling.
- set-then-order, public items: `canonical` at half of epsilon finds k items, the other half and the delta order them by
  Gaussian noise of sensitivity sqrt(k) / 2; or, pure, by peeling.
- weighted, public items: the order of sums of weights + Gaussian noise, for `gaussian`, which drops items.
- then-rank, items that are not public: half of the budget finds items as `weighted-gaussian` does, the other half ranks
  those found by cdp-peeling over counts without a bound.

l_1: the sum of |c_i - c_(s_i)|, with 0 for what is not returned; medians. Ordinary randomness: nothing here is private.
"""

from __future__ import annotations

import argparse
import gzip
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from benchmarks.counts import FOLDER
from benchmarks.hidden import LIMIT, Pairs, bounded, pairs_of
from private_topk.transforms.mechanisms import (
    Canonical,
    CdpPeeling,
    LimitDomain,
    Mechanism,
    RestrictedGumbel,
    WeightedGaussian,
)
from private_topk.transforms.mechanisms import RandomBits as Bits
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.histogram import Histogram

DELTA, WHOLE = 1e-6, 20
MADE = {"broad": (5_000, 50, 3_000, 1.0), "sparse": (20_000, 40, 200_000, 0.7), "light": (50_000, 3, 20_000, 1.1)}
"""Users, items of each in the mean, items, and the power of Zipf's law: fixed before anything was run on them."""

Draw = Callable[[np.random.Generator], np.ndarray]


def cdp_peeling(counts: np.ndarray, k: int, epsilon: float, rng: np.random.Generator, delta: float) -> np.ndarray:
    return np.argsort(-(counts * float(CdpPeeling(epsilon, delta).share(k)) + rng.gumbel(size=len(counts))))[:k]


def made(users: int, each: int, items: int, power: float) -> Pairs:
    """Users of very different sizes, each with items by one law of popularity."""
    rng = np.random.default_rng(1)
    sizes = np.maximum(rng.lognormal(math.log(each) - 0.5, 1.0, users), 1).astype(int)
    weights = np.cumsum(1 / np.arange(1, items + 1) ** power)
    drawn = np.searchsorted(weights / weights[-1], rng.random(sizes.sum()))
    pairs = np.unique(np.repeat(np.arange(users), sizes) * items + drawn)
    return pairs // items, np.unique(pairs % items, return_inverse=True)[1]


def commits() -> Pairs:
    with gzip.open(FOLDER / "commits.csv.gz", "rt") as lines:
        rows = sorted({tuple(line.split(",")[:2]) for line in lines.read().splitlines()[1:]})
    return tuple(np.unique(column, return_inverse=True)[1] for column in zip(*rows, strict=True))  # type: ignore[return-value]


def weighed(pairs: Pairs, whole: int) -> np.ndarray:
    users, items = bounded(pairs, LIMIT)
    weights = np.minimum(1, np.sqrt(whole / np.bincount(users)[users]))
    return np.bincount(items, weights, minlength=int(pairs[1].max()) + 1)


def top(scores: np.ndarray, k: int) -> np.ndarray:
    k = min(k, len(scores))
    largest = np.argpartition(-scores, k - 1)[:k] if k < len(scores) else np.arange(k)
    return largest[np.argsort(-scores[largest])]


def public(pairs: Pairs, counts: np.ndarray, k: int, epsilon: float) -> dict[str, Draw]:
    d, sums = len(counts), weighed(pairs, WHOLE)
    mu = 1 / float(gaussian_scale(Fraction(epsilon), Fraction(DELTA), Fraction(1)))
    kept, few = min(3 * k // 2, d), np.bincount(bounded(pairs, 50)[1], minlength=d)
    first, second = mu * math.sqrt(0.2), mu * math.sqrt(0.8)
    share = math.sqrt(8 * first**2 / 2 / kept)
    found_half = _ours(Canonical(epsilon / 2), counts, k)
    half = float(gaussian_scale(Fraction(epsilon) / 2, Fraction(DELTA), Fraction(1))) * math.sqrt(k) / 2

    def ordered(rng: np.random.Generator, noise: Callable[[int], np.ndarray]) -> np.ndarray:
        found = found_half(rng)
        return found[top(counts[found] + noise(len(found)), k)]

    def ranked(rng: np.random.Generator, found: np.ndarray) -> np.ndarray:
        return found[top(counts[found] + rng.normal(0, math.sqrt(kept) / 2 / second, kept), k)]

    return {
        "cdp-peeling": lambda rng: cdp_peeling(counts, k, epsilon, rng, DELTA),
        "gaussian": lambda rng: top(counts + rng.normal(0, math.sqrt(d) / 2 / mu, d), k),
        "gaussian m=50": lambda rng: top(few + rng.normal(0, math.sqrt(min(50, d / 4)) / mu, d), k),
        "weighted m=20": lambda rng: top(sums + rng.normal(0, math.sqrt(WHOLE) / mu, d), k),
        "candidates": lambda rng: ranked(rng, top(sums + rng.normal(0, math.sqrt(WHOLE) / first, d), kept)),
        "candidates peeled": lambda rng: ranked(rng, top(counts * share + rng.gumbel(size=d), kept)),
        "set-then-order": lambda rng: ordered(rng, lambda size: rng.normal(0, half, size)),
        "set-then-peel": lambda rng: ordered(rng, lambda size: rng.gumbel(0, 2 * k / epsilon, size)),
    }


def hidden(pairs: Pairs, counts: np.ndarray, k: int, epsilon: float) -> dict[str, Draw]:
    sums = weighed(pairs, WHOLE)
    half = WeightedGaussian(epsilon / 2, DELTA / 2, LIMIT, WHOLE)

    def found(rng: np.random.Generator) -> np.ndarray:
        noisy = sums * 65536 + rng.normal(0, float(half.scale()), len(sums))
        items = np.flatnonzero((sums * 65536 > half.tau()) & (noisy > half.threshold()))
        return (
            items[cdp_peeling(counts[items], min(k, len(items)), epsilon / 2, rng, DELTA / 2)] if len(items) else items
        )

    whole = np.floor(sums * 65536).astype(np.int64)
    return {
        "restricted-gumbel": _ours(RestrictedGumbel(epsilon, DELTA), counts, k),
        "limit-domain": _ours(LimitDomain(epsilon, DELTA), counts, k),
        "weighted-gaussian": _ours(WeightedGaussian(epsilon, DELTA, LIMIT, WHOLE), whole, k),
        "then-rank": found,
    }


def _ours(mechanism: Mechanism, given: np.ndarray, k: int) -> Draw:
    order, prepared = np.argsort(-given, kind="stable"), mechanism.prepare(Histogram.of(given))
    return lambda rng: order[prepared.ranks(k, Bits.keyed(rng.bytes(16)))]


def cell(draw: Draw, counts: np.ndarray, k: int, draws: int) -> str:
    best, rng, found = np.sort(counts)[::-1][:k], np.random.default_rng(1), []
    for _ in range(draws):
        got = np.zeros(len(best))
        chosen = draw(rng)
        got[: len(chosen)] = counts[chosen]
        found.append((np.abs(best - got).sum(), len(chosen)))
    error, returned = np.median(found, axis=0)
    return f"{error:,.0f}" + (f" ({returned:.0f})" if returned < len(best) else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["games", "gowalla", "commits", *MADE])
    parser.add_argument("--k", type=int, nargs="+", default=[10, 50, 100])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--draws", type=int, default=200)
    arguments = parser.parse_args()
    for data in arguments.data:
        pairs = made(*MADE[data]) if data in MADE else commits() if data == "commits" else pairs_of(data)
        counts = np.bincount(pairs[1])
        held = np.bincount(pairs[0])
        print(
            f"{data}: {len(held):,} users with {np.median(held):g} items in the median, {len(counts):,} items; l_1 "
            "(returned, where fewer)"
        )
        for epsilon in arguments.epsilon:
            print(f"{f'epsilon = {epsilon:g}':<20}" + "".join(f"{f'k = {k}':>18}" for k in arguments.k))
            rows: dict[str, list[str]] = {}
            for k in arguments.k:
                for name, draw in (public(pairs, counts, k, epsilon) | hidden(pairs, counts, k, epsilon)).items():
                    rows.setdefault(name, []).append(cell(draw, counts, k, arguments.draws))
            for name, cells in rows.items():
                print(f"  {name:<18}" + "".join(f"{text:>18}" for text in cells), flush=True)


if __name__ == "__main__":
    main()
