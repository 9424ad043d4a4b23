"""How far the recall that is forecast from the reach of two ranks is from the one that is found.

    python -m benchmarks.reaches              # four CPU minutes on ten vectors of the data folder
    python -m benchmarks.reaches --published  # from noisy counts of a ranking before, of epsilon as large
    python -m benchmarks.reaches --itself     # how often `show` says of a ranking that most is noise, and is right
    python -m benchmarks.reaches --itself --mechanism laplace gaussian  # of counts that come with the draw
    python -m benchmarks.reaches --enough     # recall where the k-th count is what a dry run calls enough

A user of `preview` says how many items and users there are and what share of the users the first item and one other
reach: here the 50th, or the k-th (the 20th for k = 5). Users are four times those of the first item. The forecast is
the recall of `oneshot` and of `cdp-peeling` (delta 1e-6) on that shape, what is found that on the counts, both in the
mean of some draws. "within" is how often a draw lies in the range that the forecast states for nine of ten, "below" how
often it lies below, so that the forecast promises too much, and "wide" the mean width of that range.
"""

from __future__ import annotations

import argparse
import itertools
from typing import NamedTuple

import numpy as np

from benchmarks.counts import load, there_or_made
from benchmarks.mechanisms import make
from private_topk.pipelines.preview import Expected, Reaches, Released
from private_topk.pipelines.preview.outlook import forecast
from private_topk.pipelines.show.noise import is_noise
from private_topk.transforms.domain import RangeDomain
from private_topk.transforms.mechanisms import Mechanism, RandomBits
from private_topk.transforms.mechanisms.choice import reach_of
from private_topk.transforms.mechanisms.exact.histogram import Histogram, IndexedCounts
from private_topk.transforms.mechanisms.noisy_counts import DrawnCounts, publish_counts
from private_topk.transforms.spec import TopK

DATA = ("games gowalla books patent searchlogs medcost income hepth news_part foods_synth").split()
KS, EPSILONS, NAMES = (5, 10, 20, 50, 100), (0.03, 0.1, 0.3, 1.0, 3.0), ("oneshot", "cdp-peeling")
_SHORT = (1, 2, 3, 4)


class Cell(NamedTuple):
    """A forecast beside what is found.

    Args:
        off: the mean recall that is forecast, less the one that is found.
        within, below: what part of the draws lies in the stated range, or below it.
        wide: the width of that range.
    """

    off: float
    within: float
    below: float
    wide: float


def cells(data: str, names: list[str], draws: int, known: str) -> list[Cell]:
    counts = np.sort(load(data))[::-1].copy()
    users, found, bits = 4 * int(counts[0]), [], RandomBits.keyed(b"what is found")
    for k in KS:
        for second in sorted({50, k if k > KS[0] else 20}):
            shape = Reaches({1: counts[0] / users, second: counts[second - 1] / users}, len(counts), users)
            expected: Expected = shape
            for epsilon, name in itertools.product(EPSILONS, names):
                top_k = TopK(k, make(name, epsilon), RangeDomain(0, len(counts)))
                if known == "published":
                    expected, _ = published(top_k, counts, bits)
                told = forecast(top_k, expected, draws)
                recalls = drawn(top_k.mechanism, counts, k, draws, bits)
                assert told.recall_range is not None
                low, high = told.recall_range
                within, below = float(((low <= recalls) & (recalls <= high)).mean()), float((recalls < low).mean())
                found.append(Cell(told.recall.value - recalls.mean(), within, below, high - low))
    return found


def verdicts(data: str, names: list[str]) -> str:
    """How often one ranking of each kind is said to be mostly noise, and is; and how often that is not said."""
    counts, bits = np.sort(load(data))[::-1].copy(), RandomBits.keyed(b"what is found")
    said, found = [], []
    for k, epsilon, name in itertools.product((*_SHORT, *KS), EPSILONS, names):
        mechanism = make(name, epsilon)
        noisy = DrawnCounts() if mechanism.guarantee.publishes_counts else None
        top_k = TopK(k, mechanism, RangeDomain(0, len(counts)), publish_counts=noisy)
        expected, items = published(top_k, counts, bits)
        said.append(is_noise(tuple(map(int, expected.noisy_counts)), top_k))
        found.append(recall(counts[items], counts, k))
    called, recalls = np.array(said), np.array(found)
    right, missed = (called & (recalls <= 0.5)).sum(), (~called & (recalls < 0.5)).sum()
    told = f"called noise {called.sum():>3}, rightly {right:>3}; noise that is not called so {missed:>3}"
    return f"{data:<16}{len(said):>5} rankings: {told}"


def with_enough(data: str, names: list[str], draws: int) -> str:
    """The recall of each k at the epsilon whose noise reaches half of the k-th count."""
    counts, bits = np.sort(load(data))[::-1].copy(), RandomBits.keyed(b"what is found")
    found = []
    for k, name in itertools.product(KS, names):
        low, high = 1e-7, 1e3
        while high > 1.01 * low:  # the reach falls with epsilon
            epsilon = (low * high) ** 0.5
            reach = reach_of(make(name, epsilon), k, len(counts))
            low, high = (low, epsilon) if reach is None or 2 * reach < counts[k - 1] else (epsilon, high)
        found.append(drawn(make(name, high), counts, k, draws, bits).mean())
    table = "".join(f"{100 * each:>5.0f}" for each in np.reshape(found, (len(KS), -1)).mean(axis=1))
    return f"{data:<20}{table}"


def published(top_k: TopK, counts: np.ndarray, bits: RandomBits) -> tuple[Released, np.ndarray]:
    """A ranking with noisy counts, which come with the draw or have as much epsilon; and its items."""
    mechanism, k, named = top_k.mechanism, top_k.max_items, IndexedCounts.of(counts)
    if top_k.draws_counts:
        ranks, noisy = mechanism.select_counted(named.histogram, k, bits.draw())
        return Released(noisy.tolist(), len(counts)), named.items(ranks)
    items = named.items(mechanism.prepare(named.histogram).ranks(k, bits))
    noisy = publish_counts(counts, items, bits, mechanism.parameter("epsilon"), mechanism.parameter("delta"))
    return Released(noisy.tolist(), len(counts)), items


def drawn(mechanism: Mechanism, counts: np.ndarray, k: int, draws: int, bits: RandomBits) -> np.ndarray:
    """The recall of each of some draws."""
    histogram = Histogram.of(counts)
    prepared = mechanism.prepare(histogram)
    return np.array([recall(histogram.counts_at(prepared.ranks(k, bits)), counts, k) for _ in range(draws)])


def recall(got: np.ndarray, counts: np.ndarray, k: int) -> float:
    """How much of the top k is among some counts; of items with the last count, those that there is room for."""
    last = counts[k - 1]
    return float(((got > last).sum() + min((got == last).sum(), k - (counts > last).sum())) / k)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=there_or_made(DATA))
    parser.add_argument("--mechanism", nargs="+", default=list(NAMES))
    parser.add_argument("--draws", type=int, default=60)
    known = parser.add_mutually_exclusive_group()
    for name in ("published", "itself", "enough"):
        known.add_argument(f"--{name}", dest="known", action="store_const", const=name, default="reaches")
    arguments = parser.parse_args()
    if arguments.known == "itself":
        for data in arguments.data:
            print(verdicts(data, arguments.mechanism), flush=True)
        return
    if arguments.known == "enough":
        print(f"{'recall, k =':<20}" + "".join(f"{k:>5}" for k in KS))
        for data in arguments.data:
            print(with_enough(data, arguments.mechanism, arguments.draws), flush=True)
        return
    everything = []
    heads = "cells   mean  mean off  within 10  within 20  worst  within  below  wide"
    print(f"{'recall, points':<16}{heads}")
    for data in arguments.data:
        found = cells(data, arguments.mechanism, arguments.draws, arguments.known)
        print(line(data, found), flush=True)
        everything += found
    print(line("all", everything))


def line(name: str, found: list[Cell]) -> str:
    off, within, below, wide = 100 * np.array(found).T
    far = np.abs(off)
    near, nearer = (f"{np.mean(far <= most):.0%}" for most in (20, 10))
    return (
        f"{name:<16}{len(off):>5}{off.mean():>7.1f}{far.mean():>10.1f}{nearer:>11}{near:>11}{far.max():>7.0f}"
        f"{within.mean():>7.0f}%{below.mean():>6.0f}%{wide.mean():>6.0f}"
    )


if __name__ == "__main__":
    main()
