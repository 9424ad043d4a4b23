"""Median errors of one draw on real counts, to hold against the papers' figures.

    python -m benchmarks.errors                      # k = 100, epsilon = 1, 200 draws

l_inf: largest |c_i - c_(s_i)|; l_1: their sum; k-relative: largest c_k - c_(s_i), at least 0. Sets are put in order of
their true counts first, which only a benchmark may do.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

import numpy as np

from benchmarks.counts import load
from benchmarks.mechanisms import make
from private_topk.transforms.mechanisms import Mechanism, RandomBits

DATA = ("foods_synth", "games", "patent", "gowalla", "hepth", "searchlogs")


def errors(counts: np.ndarray, answer: np.ndarray, k: int, is_set: bool) -> tuple[int, int, int]:
    """The three errors of an answer of k items."""
    best = np.sort(counts)[::-1][:k]
    got = np.sort(counts[answer])[::-1] if is_set else counts[answer]
    off = np.abs(best - got)
    return int(off.max()), int(off.sum()), int(max(best[-1] - got.min(), 0))


def median_errors(mechanism: Mechanism, counts: np.ndarray, k: int, draws: int) -> np.ndarray:
    bits = RandomBits.keyed(b"errors")
    is_set = mechanism.answer == "set"
    return np.median([errors(counts, mechanism(counts, k, bits), k, is_set) for _ in range(draws)], axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--draws", type=int, default=200)
    arguments = parser.parse_args()
    mechanisms = {
        "joint": make("joint", arguments.epsilon),
        "pnf-peeling": make("pnf-peeling", arguments.epsilon),
        "cdp-peeling 1e-6": make("cdp-peeling", arguments.epsilon),
        "canonical 1/2": make("canonical", arguments.epsilon),
        "canonical 1": make("canonical", arguments.epsilon, gamma=Fraction(1)),
    }
    setting = f"k = {arguments.k}, epsilon = {arguments.epsilon:g}"
    print(f"{setting}, median of {arguments.draws} draws: l_inf/l_1/k-relative")
    print(f"{'data':<14}" + "".join(f"{name:>20}" for name in mechanisms))
    for data in DATA:
        counts = load(data)
        cells = [median_errors(m, counts, arguments.k, arguments.draws) for m in mechanisms.values()]
        print(f"{data:<14}" + "".join(f"{'/'.join(f'{v:.0f}' for v in cell):>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
