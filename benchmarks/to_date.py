"""Rankings to date beside plain windows: recall of the true top k so far, and size of the noise.

    python -m benchmarks.to_date                     # gowalla in 52 steps, games in 365: minutes
    python -m benchmarks.to_date --draws 1 --data gowalla

k is 20, a user counts for at most 20 items, epsilon is 1 and delta 1e-6 for all steps together. Real users and their
items come at random steps; with `--late`, items appear through the year, a quarter of them in each quarter. Recall is
of the true top k to date without the bound. Beside it: Gaussian noise that is drawn anew at every step, `cdp-peeling`
over all steps, and one Gaussian ranking at that step alone with the whole budget.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.hidden import Pairs, pairs_of
from private_topk.pipelines.question import Question
from private_topk.transforms.domain import RangeDomain
from private_topk.transforms.history import History, series_root
from private_topk.transforms.mechanisms import CorrelatedGaussian, Gaussian, Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.series import NewCounts, matrix, squared_reach
from private_topk.transforms.release import Release

K = LIMIT = 20
EPSILON, DELTA = 1.0, 1e-6
STEPS = {"gowalla": (52, (4, 13, 26, 52)), "games": (365, (30, 90, 180, 365))}
Indices = np.ndarray[Any, np.dtype[np.int64]]


def with_steps(pairs: Pairs, steps: int, late: bool) -> tuple[Indices, Indices, Indices, Indices]:
    """Users, items, first steps, at random and not before the item has appeared, and the quarters of that."""
    users, items = pairs
    rng = np.random.default_rng(1)
    quarters = (rng.integers(0, 4, items.max() + 1) if late else np.zeros(items.max() + 1, np.int64))[items]
    first = quarters * steps // 4
    return users, items, first + (rng.random(len(items)) * (steps - first)).astype(np.int64), quarters


def first_come(users: Indices, items: Indices, at: Indices) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which pairs count: the first ones of every user, ties at random."""
    order = np.lexsort((np.random.default_rng(2).random(len(users)), at, users))
    place = np.arange(len(users)) - np.searchsorted(users[order], users[order])
    kept = np.empty(len(users), bool)
    kept[order] = place < LIMIT
    return kept


def draws_of(steps: int, name: str) -> list[Draw]:
    history, draws = History(series_root(Release.fresh(), [name], {})), []
    for _ in range(steps):
        history = history.then(b"")
        draws.append(history.draw())
    return draws


def shared_out(mechanism: str, steps: int, items: int) -> Mechanism:
    """A mechanism with one step's share of the budget, by the accounting of the product."""
    question = Question.of(
        K,
        mechanism,
        RangeDomain(0, items),
        privacy_unit="user",
        horizon=steps,
        epsilon=EPSILON,
        delta=DELTA,
        max_items_per_user=LIMIT,
    )
    return question.top_k.mechanism


def recalls(name: str, draws: int, late: bool) -> None:
    steps, told = STEPS[name]
    users, items, at, quarter_of = with_steps(pairs_of(name), steps, late)
    kept, size = first_come(users, items, at), int(items.max()) + 1
    true = np.zeros((steps, size), np.int64)
    np.add.at(true, (at, items), 1)
    new = np.zeros_like(true)
    np.add.at(new, (at[kept], items[kept]), 1)
    true, bounded = np.cumsum(true, axis=0), np.cumsum(new, axis=0)
    series = replace(CorrelatedGaussian(EPSILON, DELTA, LIMIT), steps=steps)
    added = NewCounts.of([(np.flatnonzero(row), row[row > 0]) for row in new])
    sigma = float(gaussian_scale(Fraction(EPSILON), Fraction(DELTA), Fraction(LIMIT)))
    anew = shared_out("gaussian", steps, size)
    peeled = shared_out("cdp-peeling", steps, size)
    alone = Gaussian(EPSILON, DELTA, LIMIT)

    def recall(answer: Indices, step: int) -> float:
        wanted = np.sort(true[step])[-K]
        return float(np.mean(true[step][answer] >= max(wanted, 1)))

    rows: dict[str, list[list[float]]] = {"to date": [], "drawn anew": [], "cdp-peeling": [], "one alone": []}
    for number in range(draws):
        answers = series.series(added, range(size), K, draws_of(steps, f"{name} {number}"))
        rows["to date"].append([recall(answers[step - 1].items, step - 1) for step in told])
        for way, mechanism, counts in (
            ("drawn anew", anew, bounded),
            ("cdp-peeling", peeled, true),
            ("one alone", alone, bounded),
        ):
            rows[way].append([recall(mechanism(counts[step - 1], K, RandomBits.fresh()), step - 1) for step in told])
    noise = np.sqrt((matrix(steps) ** 2).sum(axis=1) * float(squared_reach(steps)))
    print(f"\n{name}, {steps} steps{', items appear through the year' if late else ''}: recall at {told}")
    for way, found in rows.items():
        print(f"  {way:12} " + " ".join(f"{value:5.2f}" for value in np.mean(found, axis=0)))
    print(
        f"  noise to date, in those of one ranking: {noise[0]:.2f} first, {noise.max():.2f} largest, {noise[-1]:.2f} "
        f"last; drawn anew {float(anew.noise_and_scale(size, K)[1]) / sigma:.2f}"  # type: ignore[attr-defined]
    )
    if late:
        quarters = [float(kept[quarter_of == quarter].mean()) for quarter in range(4)]
        print(
            "  pairs kept, by the quarter in which their item appears: "
            + " ".join(f"{share:.2f}" for share in quarters)
        )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", choices=list(STEPS))
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--late", action="store_true", help="items appear through the year")
    asked = parser.parse_args(argv)
    for name in asked.data or STEPS:
        recalls(name, asked.draws, asked.late)


if __name__ == "__main__":
    main()
