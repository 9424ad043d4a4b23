"""Median errors of one draw on real counts: the papers' figures, and every mechanism beside its published form.

    python -m benchmarks.errors                      # k = 100, epsilon = 1, 200 draws: to hold against the papers
    python -m benchmarks.errors --beside --data games gowalla --k 10 50 100 --epsilon 0.1 1
    python -m benchmarks.errors --data counts.txt --mechanism joint --mechanism canonical

Without the data folder beside the checkout it takes the sample's counts and some made-up shapes.

l_inf: largest |c_i - c_(s_i)|; l_1: their sum; k-relative: largest c_k - c_(s_i), at least 0. Sets are put in order of
their true counts first, which only a benchmark may do. With --beside the published algorithms in plain numpy have lines
of their own. A cell takes up to ten seconds of CPU and says with * if that was enough for fewer draws.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks.counts import load, there_or_made
from benchmarks.mechanisms import make
from benchmarks.published import PUBLISHED
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts

DATA = ("foods_synth", "games", "patent", "gowalla", "hepth", "searchlogs")
_MIN_DRAWS, _PATIENCE = 10, 10.0
Draw = Callable[[], np.ndarray]


def errors(counts: np.ndarray, answer: np.ndarray, k: int, is_set: bool) -> tuple[int, int, int]:
    """The three errors of an answer of k items."""
    best = np.sort(counts)[::-1][:k]
    got = np.sort(counts[answer])[::-1] if is_set else counts[answer]
    off = np.abs(best - got)
    return int(off.max()), int(off.sum()), int(max(best[-1] - got.min(), 0))


def cell(draw: Draw, counts: np.ndarray, k: int, draws: int, is_set: bool) -> str:
    """The medians of so many draws, or of as many as could be had in time, at least ten: then with a star."""
    found: list[tuple[int, int, int]] = []
    started = time.process_time()
    while len(found) < draws and (len(found) < _MIN_DRAWS or time.process_time() - started < _PATIENCE):
        found.append(errors(counts, draw(), k, is_set))
    fewer = "*" * (len(found) < draws)
    return "/".join(f"{value:.0f}" for value in np.median(found, axis=0)) + fewer


def ours(mechanism: Mechanism, counts: np.ndarray, k: int) -> Draw:
    """Draws of a mechanism; what does not depend on the bits is done once."""
    bits, named = RandomBits.keyed(b"errors"), IndexedCounts.of(counts)
    prepared = mechanism.prepare(named.histogram)
    return lambda: named.items(prepared.ranks(k, bits))


def cited(epsilon: float) -> dict[str, Mechanism]:
    """The mechanisms that the papers have figures of."""
    return {
        "joint": make("joint", epsilon),
        "pnf-peeling": make("pnf-peeling", epsilon),
        "cdp-peeling 1e-6": make("cdp-peeling", epsilon),
        "canonical 1/2": make("canonical", epsilon),
        "canonical 1": make("canonical", epsilon, gamma=Fraction(1)),
    }


def beside(counts: np.ndarray, k: int, epsilon: float) -> Iterator[tuple[str, bool, Draw]]:
    """Every mechanism of a public domain, each followed by its published form: a name, whether it is a set, draws."""
    rng = np.random.default_rng(1)
    for name, kind in MECHANISMS.items():
        if kind.guarantee.domain != "public":
            continue
        mechanism = make(name, epsilon)
        yield name, mechanism.guarantee.answer == "set", ours(mechanism, counts, k)
        if name in PUBLISHED:
            published = PUBLISHED[name]
            yield (
                f"  {name} in numpy",
                mechanism.guarantee.answer == "set",
                partial(published, counts, k, epsilon, rng),
            )


def compare(data: str, ks: list[int], epsilon: float, draws: int, names: list[str]) -> None:
    """Print a table: a line for each mechanism and published form, with a cell for each k."""
    counts = load(data).astype(np.int64)
    print(f"\n{data}, epsilon = {epsilon:g}, median of {draws} draws: l_inf/l_1/k-relative")
    print(f"{'':<24}" + "".join(f"{f'k = {k}':>22}" for k in ks))
    for columns in zip(*(beside(counts, k, epsilon) for k in ks), strict=True):
        name = columns[0][0]
        if names and name.strip().removesuffix(" in numpy") not in names:
            continue
        cells = [cell(draw, counts, k, draws, is_set) for k, (_, is_set, draw) in zip(ks, columns, strict=True)]
        print(f"{name:<24}" + "".join(f"{text:>22}" for text in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    of_data = "of the data folder; files of public counts, .npy or text; sample; or shapes, such as zipf"
    parser.add_argument("--data", nargs="+", default=there_or_made(DATA), help=of_data)
    parser.add_argument(
        "--mechanism",
        nargs="+",
        action="extend",
        default=[],
        help="only these, beside their published forms; may be given again",
    )
    parser.add_argument("--k", type=int, nargs="+", default=[100])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--beside", action="store_true", help="every mechanism, beside the published forms")
    arguments = parser.parse_args()
    if arguments.beside or arguments.mechanism:
        for data, epsilon in itertools.product(arguments.data, arguments.epsilon):
            compare(data, arguments.k, epsilon, arguments.draws, arguments.mechanism)
        return
    for k in arguments.k:
        for epsilon in arguments.epsilon:
            _against_the_papers(arguments.data, k, epsilon, arguments.draws)


def _against_the_papers(names: list[str], k: int, epsilon: float, draws: int) -> None:
    mechanisms = cited(epsilon)
    print(f"k = {k}, epsilon = {epsilon:g}, median of {draws} draws: l_inf/l_1/k-relative")
    print(f"{'data':<14}" + "".join(f"{name:>20}" for name in mechanisms))
    for data in names:
        counts = load(data).astype(np.int64)
        cells = [
            cell(ours(mechanism, counts, k), counts, k, draws, mechanism.guarantee.answer == "set")
            for mechanism in mechanisms.values()
        ]
        print(f"{data:<14}" + "".join(f"{text:>20}" for text in cells), flush=True)


if __name__ == "__main__":
    main()
