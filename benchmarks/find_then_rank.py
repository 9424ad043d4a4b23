"""What finding items brings to a report of 26 periods: found and then ranked, beside one mechanism for unknown domains.

    python -m benchmarks.find_then_rank
    python -m benchmarks.find_then_rank --unit user-window --epsilon 0.3 1 --share 0.1 --every 4

With the unit user epsilon and a delta of 1e-6 are the total of all periods, shared out as a report does; with
user-window they are that of every period. `unknown` is the best mechanism for an unknown domain, of that total.
`found` spends a share of epsilon, and half of delta, on private partition selection now and then, and the rest on the
best mechanism for a public domain over all that was found up to then. `remembered` is weighted Gaussian of the whole
total, beside the list of all that it has published before. `listed` is the best for a public domain, of the whole
total, over all items of the data: a bound. Best is what has the least median l_1, and is named. Recall and l_1 (0 for
what is not returned) are medians over the periods; behind them stands how many items are found in the first and by the
last.

commits: 26 equal stretches of the time in which most rows are. games, gowalla: users arrive at any time of 26 weeks and
are then there in every other week; each item is new at any time of the weeks, or was always there.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

import numpy as np

from benchmarks.counts import FOLDER
from benchmarks.hidden import DELTA, LIMIT, Pairs, pairs_of, sums_of
from private_topk.pipelines.budget.sharing import Composition, share_out
from private_topk.transforms.mechanisms import (
    CdpPeeling,
    Joint,
    LimitDomain,
    Mechanism,
    PnfPeeling,
    RandomBits,
    RestrictedGumbel,
    WeightedGaussian,
)
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from private_topk.transforms.mechanisms.mechanism import ALL

WEEKS = 26


def weeks_of(name: str) -> tuple[list[Pairs], int]:
    """The distinct pairs of users and items of every period, and how many items there are."""
    if name == "commits":
        return _commits()
    rng, (users, items) = np.random.default_rng(1), pairs_of(name)
    arrives, size = rng.integers(0, WEEKS, users.max() + 1), int(items.max()) + 1
    new = np.where(rng.random(size) < 0.5, rng.integers(0, WEEKS, size), 0)
    found = []
    for week in range(WEEKS):
        there = (arrives <= week) & (rng.random(len(arrives)) < 0.5)
        held = there[users] & (new[items] <= week)
        found.append((users[held], items[held]))
    return found, size


def _commits() -> tuple[list[Pairs], int]:
    with gzip.open(FOLDER / "commits.csv.gz", "rt") as lines:
        rows = list(csv.DictReader(lines))
    users, items = (np.unique([row[name] for row in rows], return_inverse=True)[1] for name in ("user", "item"))
    times = np.array([datetime.fromisoformat(row["time"]).timestamp() for row in rows])
    start, end = np.quantile(times, [0.05, 1])
    weeks = np.floor((times - start) / (end - start) * WEEKS * (1 - 1e-9)).astype(int)
    pairs = [np.unique(np.stack([users[weeks == week], items[weeks == week]]), axis=1) for week in range(WEEKS)]
    return [(users, items) for users, items in pairs], int(items.max()) + 1


def drawn(mechanism: Mechanism, counts: np.ndarray, k: int, week: int) -> np.ndarray:
    named = IndexedCounts.of(counts)
    return named.items(mechanism.prepare(named.histogram).ranks(k, RandomBits.keyed(b"week %d" % week)))


Scores = tuple[float, float]
"""Recall and l_1."""


def score(counts: np.ndarray, answer: np.ndarray, k: int) -> Scores:
    best = np.sort(counts)[::-1][:k]
    got = np.zeros(k)
    got[: len(answer)] = counts[answer]
    return float((got >= best[-1]).sum() if best[-1] else (got > 0).sum()) / k, float(np.abs(best - got).sum())


@dataclass(frozen=True)
class Total:
    """A budget: of every period, or of all together."""

    unit: str
    epsilon: float
    delta: float = DELTA
    periods: int = WEEKS

    def part(self, share: float, periods: int = WEEKS) -> Total:
        return replace(self, epsilon=self.epsilon * share, delta=DELTA / 2, periods=periods)

    def of_a_period(self, mechanism: Mechanism, k: int) -> Mechanism:
        """The mechanism with one period's share."""
        if self.unit != "user":
            return mechanism
        spare = None if "delta" in mechanism.parameters() else self.delta
        return share_out(mechanism, k, None, spare, Composition("user", 1, self.periods)).mechanism

    def unknown(self, k: int) -> Iterable[Mechanism]:
        given = self.epsilon, self.delta
        return (
            *(self.of_a_period(each, k) for each in (LimitDomain(*given), RestrictedGumbel(*given))),
            *self.weighted(k),
        )

    def weighted(self, k: int) -> list[WeightedGaussian]:
        kinds = (WeightedGaussian(self.epsilon, self.delta, LIMIT, whole) for whole in (1, 5, 20))
        return [cast(WeightedGaussian, self.of_a_period(each, k)) for each in kinds]

    def public(self, k: int) -> Iterator[Mechanism]:
        kinds = Joint(self.epsilon), PnfPeeling(self.epsilon), CdpPeeling(self.epsilon, self.delta)
        return (self.of_a_period(each, k) for each in kinds)


def best(
    mechanisms: Iterable[Mechanism], weeks: list[Pairs], lists: list[np.ndarray], size: int, k: int
) -> tuple[str, float, float]:
    """The mechanism of least median l_1 over the lists of every period, with its median recall and l_1."""
    found = []
    for mechanism in mechanisms:
        scores: list[Scores] = []
        for week, (pairs, listed) in enumerate(zip(weeks, lists, strict=True)):
            counts, given = np.bincount(pairs[1], minlength=size), sums_of(pairs, mechanism, size)[listed]
            places = drawn(mechanism, given, min(k, len(listed)), week) if len(listed) else np.zeros(0, np.int64)
            scores.append(score(counts, listed[places], k))
        recall, error = np.median(scores, axis=0)
        found.append((error, recall, mechanism.about.name))
    error, recall, name = min(found)
    return name, recall, error


def found_by(weeks: list[Pairs], size: int, finder: Mechanism, every: int) -> list[np.ndarray]:
    """The items of a list that grows, at every period."""
    lists, listed = [], np.zeros(0, np.int64)
    for week, pairs in enumerate(weeks):
        if week % every == 0:
            listed = np.union1d(listed, drawn(finder, sums_of(pairs, finder, size), ALL, week)).astype(np.int64)
        lists.append(listed)
    return lists


def remembered(kinds: Iterable[WeightedGaussian], weeks: list[Pairs], size: int, k: int) -> tuple[str, float, float]:
    """As `best`, of mechanisms that know what they have published before."""
    found = []
    for mechanism in kinds:
        scores: list[Scores] = []
        known = np.zeros(size, bool)
        for week, pairs in enumerate(weeks):
            named = IndexedCounts.of(sums_of(pairs, mechanism, size))
            listed, draw = known[named.items(np.arange(size))], RandomBits.keyed(b"week %d" % week).draw()
            answer = named.items(mechanism.select_with(listed, named.histogram, k, draw))
            known[answer] = True
            scores.append(score(np.bincount(pairs[1], minlength=size), answer, k))
        recall, error = np.median(scores, axis=0)
        found.append((error, recall))
    error, recall = min(found)
    return "", recall, error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["commits", "games", "gowalla"])
    parser.add_argument("--k", type=int, nargs="+", default=[10, 50, 100])
    parser.add_argument("--unit", choices=["user", "user-window"], default="user")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.5, 5.0])
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--whole-items", type=int, default=1, help="of the finding")
    arguments = parser.parse_args()
    share, every = arguments.share, arguments.every
    print(
        f"{'data':<9}{'epsilon':>8}{'k':>5}"
        + "".join(f"{name:>32}" for name in ("unknown", "found", "remembered", "listed"))
    )
    for data in arguments.data:
        weeks, size = weeks_of(data)
        everything = [np.arange(size)] * WEEKS
        for epsilon in arguments.epsilon:
            total = Total(arguments.unit, epsilon)
            finds = total.part(share, -(-WEEKS // every))
            finder = finds.of_a_period(WeightedGaussian(finds.epsilon, finds.delta, LIMIT, arguments.whole_items), ALL)
            lists = found_by(weeks, size, finder, every)
            for k in arguments.k:
                cells = (
                    best(total.unknown(k), weeks, everything, size, k),
                    best(total.part(1 - share).public(k), weeks, lists, size, k),
                    remembered(total.weighted(k), weeks, size, k),
                    best(total.public(k), weeks, everything, size, k),
                )
                shown = "".join(f"{f'{name} {recall:.0%} {error:,.0f}':>32}" for name, recall, error in cells)
                print(f"{data:<9}{epsilon:>8g}{k:>5}{shown}  {len(lists[0])} to {len(lists[-1])}", flush=True)
        users = [len(np.unique(pairs[0])) for pairs in weeks]
        print(f"{data}: {np.median(users):,.0f} users in the median period, {users[-1]:,} in the last", flush=True)


if __name__ == "__main__":
    main()
