"""Median errors of the mechanisms for items that are not public, on real users and their items.

    python -m benchmarks.hidden                      # games and gowalla, k = 10, 50, 100, epsilon = 0.1 and 1
    python -m benchmarks.hidden --beside             # and the published algorithms in plain numpy

l_1: the sum of |c_i - c_(s_i)|, with 0 for what is not returned; and how many items are returned. delta is 1e-6. Counts
are unbounded where a mechanism bears it, bounded to 10 or 50 items per user, at random, for `restricted-normal`, and
sums of weights of at most 1,000 items per user for `weighted-gaussian`.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks import published_hidden as published
from benchmarks.counts import FOLDER
from private_topk.transforms.mechanisms import (
    LimitDomain,
    Mechanism,
    RandomBits,
    RestrictedGumbel,
    RestrictedNormal,
    WeightedGaussian,
)
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.weighted import UNIT

DELTA, BOUNDS, LIMIT = 1e-6, (10, 50), 1000
Pairs = tuple[np.ndarray, np.ndarray]
IN_NUMPY = "  in numpy"


def pairs_of(name: str) -> Pairs:
    """Users and items, numbered, of the data folder's pairs."""
    path = FOLDER / f"{name}.pairs.csv.gz"
    if not path.exists():
        raise SystemExit(f"the data folder has no {path.name}: set PRIVATE_TOPK_SHARED to the folder that holds data/")
    with gzip.open(path, "rt") as lines:
        users, items = np.loadtxt(lines, dtype=np.int64, delimiter=",", skiprows=1).T
    return np.unique(users, return_inverse=True)[1], np.unique(items, return_inverse=True)[1]


def bounded(pairs: Pairs, limit: int) -> Pairs:
    """At most so many items of every user, in a random order that is the same in every run."""
    users, items = pairs
    order = np.lexsort((np.random.default_rng(1).random(len(users)), users))
    users, items = users[order], items[order]
    place = np.arange(len(users)) - np.searchsorted(users, users)
    return users[place < limit], items[place < limit]


def sums_of(pairs: Pairs, mechanism: Mechanism, size: int) -> np.ndarray:
    """The counts of so many items that a mechanism takes: users, or sums of their weights."""
    if mechanism.guarantee.metric != "weights":
        return np.bincount(pairs[1], minlength=size)
    users, items = bounded(pairs, LIMIT)
    sums = np.zeros(size, np.int64)
    np.add.at(sums, items, mechanism.parameter("weighting").weights(np.unique(users, return_inverse=True)[1]))
    return sums


Answer = Callable[[np.random.Generator], np.ndarray]
"""A draw: the items in order. Ours has bits of its own."""


def ours(mechanism: Mechanism, given: np.ndarray) -> Callable[[int], Answer]:
    """Draws of a mechanism from the counts or sums that it is given, by k."""
    order, prepared = np.argsort(-given, kind="stable"), mechanism.prepare(Histogram.of(given))
    bits = RandomBits.keyed(b"errors")
    return lambda k: lambda _: order[prepared.ranks(k, bits)]


def rows(pairs: Pairs, epsilon: float, wholes: list[int]) -> Iterator[tuple[str, Callable[[int], Answer]]]:
    """A name and its draws, by k; what is named `IN_NUMPY` is the published algorithm of the row before."""
    size = int(pairs[1].max()) + 1
    counts = np.bincount(pairs[1], minlength=size)
    limit_domain, gumbel = LimitDomain(epsilon, DELTA), RestrictedGumbel(epsilon, DELTA)
    yield "limit-domain", ours(limit_domain, counts)
    yield IN_NUMPY, lambda k: partial(published.limit_domain, counts, k, epsilon, DELTA, limit_domain.kbar_for(k))
    yield "restricted-gumbel", ours(gumbel, counts)
    yield IN_NUMPY, lambda k: partial(published.restricted_gumbel, counts, k, epsilon, DELTA, gumbel.kbar_for(k))
    for bound in BOUNDS:
        few = np.bincount(bounded(pairs, bound)[1], minlength=size)
        normal = RestrictedNormal(epsilon, DELTA, bound)
        yield f"restricted-normal m={bound}", ours(normal, few)
        plain = partial(published.restricted_normal, bound, few, epsilon=epsilon, delta=DELTA)
        competing = normal.kbar_for
        yield IN_NUMPY, lambda k, plain=plain, most=competing: partial(plain, k, competing=most(k))  # type: ignore[misc]
    for whole in wholes:
        mechanism = WeightedGaussian(epsilon, DELTA, LIMIT, whole)
        sums = sums_of(pairs, mechanism, size)
        yield f"weighted-gaussian m={whole}", ours(mechanism, sums)
        plain = partial(published.weighted_gaussian, whole, sums / UNIT, epsilon=epsilon, delta=DELTA, limit=LIMIT)
        yield IN_NUMPY, partial(partial, plain)


def median_error(answer: Answer, counts: np.ndarray, k: int, draws: int) -> tuple[int, int]:
    """The median l_1 error and the median number of items returned."""
    best, rng, found = np.sort(counts)[::-1][:k], np.random.default_rng(1), []
    for _ in range(draws):
        chosen = answer(rng)
        got = np.zeros(k)
        got[: len(chosen)] = counts[chosen]
        found.append((np.abs(best - got).sum(), len(chosen)))
    error, returned = np.median(found, axis=0)
    return int(error), int(returned)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["games", "gowalla"])
    parser.add_argument("--k", type=int, nargs="+", default=[10, 50, 100])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--whole-items", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--beside", action="store_true", help="the published algorithms in plain numpy as well")
    arguments = parser.parse_args()
    for data in arguments.data:
        pairs = pairs_of(data)
        counts = np.bincount(pairs[1])
        held = np.bincount(pairs[0])
        print(f"{data}: {len(held):,} users with {np.median(held):g} items in the median; l_1 (returned)")
        for epsilon in arguments.epsilon:
            print(f"{f'epsilon = {epsilon:g}':<26}" + "".join(f"{f'k = {k}':>18}" for k in arguments.k))
            for name, draws in rows(pairs, epsilon, arguments.whole_items):
                if name == IN_NUMPY and not arguments.beside:
                    continue
                cells = [median_error(draws(k), counts, k, arguments.draws) for k in arguments.k]
                print(f"  {name:<24}" + "".join(f"{f'{error:,} ({n})':>18}" for error, n in cells), flush=True)


if __name__ == "__main__":
    main()
