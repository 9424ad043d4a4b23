"""How many of the true risers a ranking against the window before finds, and what subtracting noisy counts would find.

    python -m benchmarks.risers

The sample, last week against the third; and, where the folder of shared data is, commits: real people and folders, the
last whole year against the one before. One ranking of epsilon; beside it noisy counts of all items of both windows at
half of epsilon each (Laplace noise for as many items as one user has at most), subtracted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from benchmarks.windows_per_user import Data, commits, counts, sample
from private_topk.pipelines.question import Question
from private_topk.transforms import Period, Risers
from private_topk.transforms.mechanisms import RandomBits, make_mechanism
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from private_topk.transforms.spec import TopK

NAMES = ("joint", "peeling", "pnf-peeling", "gaussian")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args().draws
    print(f"Recall of the true risers, {draws} draws")
    for data, window in ((sample(), 3), (commits(), 9)):
        if data is None:
            print("\ncommits: not here. Set PRIVATE_TOPK_SHARED to the folder that holds data/")
            continue
        print(f"\n{data.name}, k = {data.k}\n| weight | epsilon | {' | '.join(NAMES)} | counts subtracted |")
        print("|---|---|" + "---|" * (len(NAMES) + 1))
        for weight, epsilon, recalls in measured(data, window, draws):
            print(f"| {weight:g} | {epsilon:g} | " + " | ".join(f"{recall:.2f}" for recall in recalls) + " |")


def measured(data: Data, window: int, draws: int) -> Iterator[tuple[float, float, list[float]]]:
    held = counts(data, np.ones(len(data.rows), bool))
    for weight in (1.0, 0.5):
        risers = Risers(weight)
        scores = risers.now * held[window] - risers.before * held[window - 1]
        for epsilon in (1.0, 4.0):
            found = [by_mechanism(data, risers, scores, name, epsilon, draws) for name in NAMES]
            yield weight, epsilon, [*found, subtracted(data, held, window, weight, scores, epsilon, draws)]


def by_mechanism(data: Data, risers: Risers, scores: np.ndarray, name: str, epsilon: float, draws: int) -> float:
    own = {"delta": 1e-6} if name == "gaussian" else {}
    period = Period.of("2000-01-02", "2000-01-03")
    asked = Question(
        TopK(data.k, make_mechanism(name, epsilon=epsilon, **own), [str(n) for n in range(data.items)], risers=risers),
        period=period,
    )
    named = IndexedCounts.of(scores - scores.min())
    drawn, bits = asked.top_k.mechanism.prepare(named.histogram), RandomBits.keyed(b"risers".ljust(32, b"."))
    return float(np.mean([hits(scores, named.items(drawn.ranks(data.k, bits))) for _ in range(draws)]))


def subtracted(
    data: Data, held: np.ndarray, window: int, weight: float, scores: np.ndarray, epsilon: float, draws: int
) -> float:
    """Floats, and no promise: for comparison only."""
    users, windows, _ = data.rows.T
    most = np.unique(users * data.windows + windows, return_counts=True)[1].max()
    state, found = np.random.default_rng(7), []
    for _ in range(draws):
        now, then = (held[at] + state.laplace(0, most / (epsilon / 2), data.items) for at in (window, window - 1))
        found.append(hits(scores, np.argsort(weight * then - now)[: data.k]))
    return float(np.mean(found))


def hits(scores: np.ndarray, chosen: np.ndarray) -> float:
    return float((scores[chosen] >= np.sort(scores)[-len(chosen)]).mean())


if __name__ == "__main__":
    main()
