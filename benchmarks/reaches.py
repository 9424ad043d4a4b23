"""How far the recall that is forecast from the reach of two ranks is from the one that is found.

    python -m benchmarks.reaches              # two CPU minutes on ten vectors of the data folder

A user of `preview` says how many items and users there are and what share of the users the first item and one other
reach: here the 50th, or the k-th (the 20th for k = 5). Users are four times those of the first item. The forecast is
the recall of `oneshot` and of `cdp-peeling` (delta 1e-6) on that shape, what is found that on the counts, both in the
mean of some draws.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from benchmarks.counts import load, there_or_made
from benchmarks.mechanisms import make
from private_topk.pipelines.preview import PublicCounts, Zipf
from private_topk.pipelines.preview.outlook import look

DATA = ("games gowalla books patent searchlogs medcost income hepth news_part foods_synth").split()
KS, EPSILONS, NAMES = (5, 10, 20, 50, 100), (0.03, 0.1, 0.3, 1.0, 3.0), ("oneshot", "cdp-peeling")


def errors(data: str, draws: int) -> list[float]:
    """Forecast less found, a number a cell."""
    counts = np.sort(load(data))[::-1]
    users, found = 4 * int(counts[0]), []
    for k in KS:
        for second in {50, k if k > KS[0] else 20}:
            reaches = {1: counts[0] / users, second: counts[second - 1] / users}
            shapes = Zipf.of_reaches(reaches, len(counts), users), PublicCounts(counts)
            histograms = [shape.histogram(None, False) for shape in shapes]
            for epsilon, name in itertools.product(EPSILONS, NAMES):
                forecast, told = (look(make(name, epsilon), one, k, draws).recall.value for one in histograms)
                found.append(forecast - told)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=there_or_made(DATA))
    parser.add_argument("--draws", type=int, default=60)
    arguments = parser.parse_args()
    everything = []
    print(
        f"{'recall, points':<18}{'cells':>6}{'mean':>7}{'mean off':>10}{'within 10':>11}{'within 20':>11}{'worst':>7}"
    )
    for data in arguments.data:
        print(line(data, found := errors(data, arguments.draws)), flush=True)
        everything += found
    print(line("all", everything))


def line(name: str, found: list[float]) -> str:
    off = 100 * np.abs(found)
    parts = (f"{np.mean(off <= most):.0%}" for most in (10, 20))
    return (
        f"{name:<18}{len(off):>6}{100 * np.mean(found):>7.1f}{off.mean():>10.1f}{next(parts):>11}{next(parts):>11}"
        f"{off.max():>7.0f}"
    )


if __name__ == "__main__":
    main()
