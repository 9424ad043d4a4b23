"""CPU time of one draw from an unsorted count vector, beside the published algorithm in plain numpy.

    python -m benchmarks.mechanisms                 # foods_synth, d = 166,049: every mechanism, k = 10 .. 1000
    python -m benchmarks.mechanisms --epsilons      # joint, fast-joint, canonical, joint-set for epsilon 0.01 .. 10
    python -m benchmarks.mechanisms --shapes        # all equal, Zipf and widely gapped counts: time as a side channel
    python -m benchmarks.mechanisms --large         # joint, k = 100, d = 10,000,000

One process, median of --draws draws (the published forms: of up to five, within a minute each).
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from benchmarks.counts import SHAPES, load, shape
from benchmarks.published import PUBLISHED
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, RandomBits

_PATIENCE = 60.0
_SLOW = {"joint-set"}


def make(name: str, epsilon: float, **parameters: object) -> Mechanism:
    """A mechanism with delta 1e-6 where it takes one, and at most 10 items per user where it has to know."""
    kind = MECHANISMS[name]
    own = {field for field in kind.__dataclass_fields__}
    needed = {"delta": 1e-6} if "delta" in own else {}
    if "max_items_per_user" in own and name in ("laplace-limit-domain", "restricted-normal"):
        needed["max_items_per_user"] = 10
    return kind(epsilon=epsilon, **{**needed, **parameters})


def ours(mechanism: Mechanism, counts: np.ndarray, k: int, draws: int) -> float:
    """Median CPU seconds of a draw."""
    bits = RandomBits.keyed(b"benchmark")
    return median_cpu(lambda: mechanism(counts, k, bits), draws)


def median_cpu(draw: Callable[[], object], draws: int) -> float:
    times: list[float] = []
    started = time.process_time()
    while len(times) < draws and (not times or time.process_time() - started < _PATIENCE):
        before = time.process_time()
        draw()
        times.append(time.process_time() - before)
    return statistics.median(times)


def table(draws: int) -> None:
    counts = load("foods_synth")
    heads = tuple(f"k = {k}" for k in (10, 100, 200, 1000))
    print(f"foods_synth, d = {len(counts):,}, epsilon = 1: CPU ms of ours (published form / ours)")
    print(f"{'mechanism':<22}" + "".join(f"{head:>20}" for head in heads))
    rows = [(name, make(name, 1.0), PUBLISHED.get(name)) for name in MECHANISMS]
    rows.insert(3, ("canonical, gamma 1", make("canonical", 1.0, gamma=Fraction(1)), None))
    for name, mechanism, published in rows:
        cells = [cell(name, mechanism, published, counts, k, draws) for k in (10, 100, 200, 1000)]
        print(f"{name:<22}" + "".join(f"{text:>20}" for text in cells), flush=True)


def cell(name: str, mechanism: Mechanism, published: Callable | None, counts: np.ndarray, k: int, draws: int) -> str:
    if name in _SLOW and k > 200:
        return "-"
    seconds = ours(mechanism, counts, k, 5 if name in _SLOW else draws)
    if published is None or (name in ("joint", "canonical") and k > 100):
        return f"{1000 * seconds:.2f}"
    rng = np.random.default_rng(1)
    baseline = median_cpu(lambda: published(counts, k, 1.0, rng), 1 if name in ("joint", "canonical") else 5)
    return f"{1000 * seconds:.2f} ({baseline / seconds:.1f}x)"


def epsilons(draws: int) -> None:
    counts = load("foods_synth")
    print(f"foods_synth, d = {len(counts):,}: CPU ms")
    grid = (0.01, 0.1, 1.0, 10.0)
    print(f"{'mechanism':<22}{'k':>6}" + "".join(f"{f'epsilon {e:g}':>15}" for e in grid))
    rows = [(name, {}) for name in ("joint", "fast-joint", "canonical", "joint-set")]
    for name, parameters in [*rows, ("canonical", {"gamma": 1})]:
        for k in (100, 200, 1000) if name not in _SLOW else (100, 200):
            some = 5 if name in _SLOW else draws
            cells = [f"{1000 * ours(make(name, e, **parameters), counts, k, some):15.2f}" for e in grid]
            print(f"{name + (' gamma 1' if parameters else ''):<22}{k:>6}" + "".join(cells), flush=True)


def shapes(draws: int) -> None:
    d = 166_049
    print(f"d = {d:,}, epsilon = 1, k = 100: CPU ms by shape of the counts")
    print(f"{'mechanism':<22}" + "".join(f"{name:>15}" for name in SHAPES) + f"{'max / min':>12}")
    vectors = [shape(name, d) for name in SHAPES]
    for name in MECHANISMS:
        times = [ours(make(name, 1.0), counts, 100, 5 if name in _SLOW else draws) for counts in vectors]
        cells = "".join(f"{1000 * seconds:15.2f}" for seconds in times)
        print(f"{name:<22}{cells}{max(times) / min(times):12.2f}", flush=True)


def large() -> None:
    counts = shape("zipf", 10_000_000)
    seconds = ours(make("joint", 1.0), counts, 100, 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"joint, k = 100, d = 10,000,000: {seconds:.2f} s CPU a draw, {peak:.0f} MiB peak")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    for name in ("epsilons", "shapes", "large"):
        parser.add_argument(f"--{name}", action="store_true")
    arguments = parser.parse_args()
    if arguments.epsilons:
        epsilons(arguments.draws)
    elif arguments.shapes:
        shapes(arguments.draws)
    elif arguments.large:
        large()
    else:
        table(arguments.draws)


if __name__ == "__main__":
    main()
