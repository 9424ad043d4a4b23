"""How much of the top k is lost by not knowing the best mechanism: of every fixed one, and of `choose`.

    python -m benchmarks.regret                       # a few CPU minutes on the data folder; the tables of results
    python -m benchmarks.regret --only listed --draws 40
    python -m benchmarks.regret --only shared         # items that are not public, in windows that share the total
    python -m benchmarks.regret --only bounded        # users with a bound on their items, whom weights can bend

Regret: the recall of the best mechanism in hindsight, in the mean of some draws, less that of the one taken; in points,
over all data, k and epsilon. The best of noisy means is too high: some tenths of a point are not the rule's.

listed: the items are public; without a delta, and with 1e-6. Either a sequence is wanted, and only mechanisms that give
one count; or a set, and all do. unlisted: the items are not public, delta 1e-6. bounded: users and their items, of each
at most so many at random; all users of games and gowalla, and a tenth of them; delta 1e-6. Recall is of the top k
without the bound.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks.counts import load, there_or_made
from benchmarks.hidden import bounded, pairs_of
from benchmarks.mechanisms import make
from private_topk.pipelines.preview import PublicCounts, look
from private_topk.pipelines.question import Question
from private_topk.transforms.domain import RangeDomain, UnknownDomain
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, RandomBits, parameters_of
from private_topk.transforms.mechanisms.choice import choose
from private_topk.transforms.mechanisms.exact.histogram import Histogram, IndexedCounts
from private_topk.transforms.mechanisms.mechanism import Prepared
from private_topk.transforms.spec import TopK

DATA = (
    "games",
    "gowalla",
    "books",
    "books_textreviews",
    "patent",
    "searchlogs",
    "medcost",
    "income",
    "hepth",
    "news_part",
    "foods_synth",
)
PURE = ("joint", "canonical", "peeling", "pnf-peeling", "oneshot")
LISTED = (*PURE, "cdp-peeling")
UNLISTED = ("limit-domain", "top-stable", "restricted-gumbel", "restricted-pnf", "restricted-laplace")
OF_BOUNDED = ("oneshot", "laplace", "cdp-peeling", "gaussian", "weighted-order")
WITH_COUNTS = " with its counts"
"""Behind the name of a mechanism: the counts that it draws by come out too."""
UNLISTED_OF_BOUNDED = (
    "limit-domain",
    "laplace-limit-domain",
    "restricted-gumbel",
    "restricted-normal",
    "restricted-laplace",
    "weighted-gaussian",
)
BOUNDS, PARTS = (5, 20, 100, 1000), (1.0, 0.1)
SETS = ("canonical", "top-stable")
WINDOWS = (3, 12, 52)
PARTS_OF_A_RUN = ["listed", "unlisted", "shared", "bounded"]

Cell = tuple[str, int, float]
"""Data, k and epsilon."""
Chosen = Callable[[Cell], str]


class Recalls:
    """The mean recall of a mechanism in a cell."""

    def __init__(self, draws: int) -> None:
        self._draws = draws
        self.of = cache(self._of)

    def _of(self, cell: Cell, name: str) -> float:
        data, k, epsilon = cell
        mechanism = make(name, epsilon)
        unlisted = mechanism.guarantee.domain == "unknown"
        domain = UnknownDomain() if unlisted else RangeDomain(0, len(counts(data)))
        return look(TopK(k, mechanism, domain), whole(data), self._draws).recall.value


class OfShared(Recalls):
    """Likewise, in one of so many windows that share epsilon and delta."""

    def __init__(self, windows: int, draws: int) -> None:
        super().__init__(draws)
        self._windows = windows

    def asked(self, name: str, cell: Cell) -> TopK:
        """What a window is drawn with."""
        unit: dict[str, Any] = {"privacy_unit": "user", "horizon": self._windows}
        return Question.of(cell[1], name, UnknownDomain(), epsilon=cell[2], delta=1e-6, **unit).top_k

    def chosen(self, cell: Cell) -> str:
        return choose([self.asked(name, cell).mechanism for name in UNLISTED], cell[1], None).name

    def _of(self, cell: Cell, name: str) -> float:
        return look(self.asked(name, cell), whole(cell[0]), self._draws).recall.value


class OfBounded:
    """The mean recall of a mechanism over users of whom at most `most` items count; `cell` has no other data."""

    def __init__(self, data: str, part: float, most: int, draws: int) -> None:
        users, items = pairs_of(data)
        there = (np.random.default_rng(1).random(users.max() + 1) < part)[users]
        self.pairs, self.size = (users[there], items[there]), int(items.max()) + 1
        self.most, self._draws, self._true = most, draws, np.bincount(self.pairs[1], minlength=self.size)
        self.of, self._drawer = cache(self._of), cache(self._prepared)

    def make(self, name: str, epsilon: float) -> Mechanism:
        name, counted, _ = name.partition(WITH_COUNTS)
        knows = "max_items_per_user" in parameters_of(MECHANISMS[name])
        made = make(name, epsilon, **({"max_items_per_user": self.most} if knows else {}))
        return replace(made, with_counts=bool(counted))

    def chosen(self, names: tuple[str, ...]) -> Chosen:
        items = self.size if names == OF_BOUNDED else None
        return lambda cell: choose([self.make(name, cell[2]) for name in names], cell[1], items).name

    def _of(self, cell: Cell, name: str) -> float:
        named, prepared = self._drawer(name, cell[2])
        k, bits = cell[1], RandomBits.keyed(b"regret")
        least = max(int(np.sort(self._true)[-k]), 1)
        found = [np.sum(self._true[named.items(prepared.ranks(k, bits))] >= least) for _ in range(self._draws)]
        return float(np.mean(found)) / k

    def _prepared(self, name: str, epsilon: float) -> tuple[IndexedCounts, Prepared]:
        mechanism, (users, items) = self.make(name, epsilon), bounded(self.pairs, self.most)
        sums = np.bincount(items, minlength=self.size)
        if mechanism.guarantee.metric == "weights":
            sums = np.zeros(self.size, np.int64)
            np.add.at(sums, items, mechanism.parameter("weighting").weights(users))
        named = IndexedCounts.of(sums)
        histogram = named.histogram
        if mechanism.guarantee.domain == "unknown":  # ranks stay what they are without the last ones
            held = histogram.values > 0
            histogram = Histogram(histogram.values[held], histogram.sizes[held])
        return named, mechanism.prepare(histogram)


def of_bounded(ks: list[int], epsilons: list[float], draws: int) -> None:
    for title, names in {"bounded": OF_BOUNDED, "unlisted items, bounded": UNLISTED_OF_BOUNDED}.items():
        found: dict[str, dict[Cell, float]] = {}
        for data, part, most in itertools.product(("games", "gowalla"), PARTS, BOUNDS):
            recalls = OfBounded(data, part, most, draws)
            cells = [(f"{data} x {part:g}, {most} items a user", k, epsilon) for k in ks for epsilon in epsilons]
            rules = {name: (lambda cell, name=name: name) for name in names} | {"choose": recalls.chosen(names)}
            for name, chosen in rules.items():
                found.setdefault(name, {}).update(regrets(cells, names, chosen, recalls))
        print(f"{title}: mean and worst regret in points, {len(found['choose'])} cells")
        print("\n".join(shown(name, lost) for name, lost in found.items()), flush=True)


@cache
def counts(data: str) -> np.ndarray:
    return load(data).astype(np.int64)


@cache
def whole(data: str) -> PublicCounts:
    return PublicCounts(counts(data))


def offered(names: Iterable[str], epsilon: float) -> list[Mechanism]:
    return [make(name, epsilon) for name in names]


def by_rule(names: tuple[str, ...]) -> Chosen:
    def chosen(cell: Cell) -> str:
        data, k, epsilon = cell
        items = None if names == UNLISTED else len(counts(data))
        return choose(offered(names, epsilon), k, items).name

    return chosen


def regrets(cells: list[Cell], names: Iterable[str], chosen: Chosen, recalls: Recalls | OfBounded) -> dict[Cell, float]:
    found = {}
    for cell in cells:
        taken = recalls.of(cell, chosen(cell))
        found[cell] = 100 * (max(*(recalls.of(cell, name) for name in names), taken) - taken)
    return found


def shown(title: str, found: dict[Cell, float]) -> str:
    (data, k, epsilon), worst = max(found.items(), key=lambda one: one[1])
    return f"  {title:<20}{np.mean(list(found.values())):>6.2f}{worst:>7.1f}  {data}, k = {k}, epsilon = {epsilon:g}"


def table(title: str, cells: list[Cell], names: tuple[str, ...], rules: dict[str, Chosen], recalls: Recalls) -> None:
    print(f"{title}: mean and worst regret in points, {len(cells)} cells", flush=True)
    fixed: dict[str, Chosen] = {name: lambda cell, name=name: name for name in names}  # type: ignore[misc]
    for name, chosen in (fixed | rules).items():
        print(shown(name, regrets(cells, names, chosen, recalls)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=there_or_made(DATA), help="as for benchmarks.errors")
    parser.add_argument("--k", type=int, nargs="+", default=[5, 10, 20, 50, 100])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.03, 0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--draws", type=int, default=24)
    parser.add_argument("--only", choices=PARTS_OF_A_RUN)
    arguments = parser.parse_args()
    cells = list(itertools.product(arguments.data, arguments.k, arguments.epsilon))
    recalls, parts = Recalls(arguments.draws), [arguments.only] if arguments.only else PARTS_OF_A_RUN[:2]
    guarantees = {"pure": PURE, "with a delta": LISTED}
    if "listed" in parts:
        for title, names in guarantees.items():
            table(f"a set, {title}", cells, names, {"choose": by_rule(names)}, recalls)
            ordered = tuple(name for name in names if name not in SETS)
            table(f"a sequence, {title}", cells, ordered, {"choose": by_rule(ordered)}, recalls)
    if "unlisted" in parts:
        table("unlisted items", cells, UNLISTED, {"choose": by_rule(UNLISTED)}, recalls)
    if "shared" in parts:
        for windows in WINDOWS:
            shared = OfShared(windows, arguments.draws)
            table(f"unlisted items, {windows} windows", cells, UNLISTED, {"choose": shared.chosen}, shared)
    if "bounded" in parts:
        of_bounded(arguments.k, arguments.epsilon, arguments.draws)


if __name__ == "__main__":
    main()
