"""CPU time of one draw from an unsorted count vector, beside the published algorithm in plain numpy.

    python -m benchmarks.mechanisms                 # foods_synth, d = 166,049: every mechanism, k = 10 .. 1000
    python -m benchmarks.mechanisms --shapes        # thirteen hostile shapes of counts: time as a side channel
    python -m benchmarks.mechanisms --shapes --k 1000 --epsilon 0.1 --only canonical,peeling

One process, median of --draws draws (the published forms: of up to five, within a minute each).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.counts import SHAPES, load, shape
from benchmarks.published import PUBLISHED
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, RandomBits, parameters_of

_PATIENCE = 60.0
_SLOW = {"joint-set"}


def make(name: str, epsilon: float, **parameters: object) -> Mechanism:
    """A mechanism with delta 1e-6 where it takes one, and at most 10 items per user where it has to know."""
    kind = MECHANISMS[name]
    own = parameters_of(kind)
    needed: dict[str, Any] = {"delta": 1e-6} if "delta" in own else {}
    if "max_items_per_user" in own and own["max_items_per_user"].required:
        needed["max_items_per_user"] = 10
    return kind(epsilon=epsilon, **{**needed, **parameters})  # type: ignore[call-arg]  # every kind has one


def ours(mechanism: Mechanism, counts: np.ndarray, k: int, draws: int) -> float:
    """Median CPU seconds of a draw."""
    bits = RandomBits.keyed(b"benchmark")
    return median_cpu(lambda: mechanism(counts, k, bits), draws)


def again(mechanism: Mechanism, vectors: dict[str, np.ndarray], k: int, draws: int) -> dict[str, float]:
    """Of each vector the median CPU seconds of some draws for k, the quickest of five times that each is made.

    Other work comes in bursts: all vectors have their turn before one has its next.
    """
    keys = [b"benchmark %d" % number for number in range(draws)]
    times = {(kind, key): np.inf for kind in vectors for key in keys}
    for _ in range(5):
        for kind, key in times:
            once = median_cpu(lambda: mechanism(vectors[kind], k, RandomBits.keyed(key)), 1)  # noqa: B023
            times[kind, key] = min(times[kind, key], once)
    return {kind: statistics.median(times[kind, key] for key in keys) for kind in vectors}


def median_cpu(draw: Callable[[], object], draws: int) -> float:
    times: list[float] = []
    started = time.process_time()
    while len(times) < draws and (not times or time.process_time() - started < _PATIENCE):
        before = time.process_time()
        draw()
        times.append(time.process_time() - before)
    return statistics.median(times)


def table(draws: int, names: list[str]) -> None:
    counts = load("foods_synth")
    heads = tuple(f"k = {k}" for k in (10, 100, 200, 1000))
    print(f"foods_synth, d = {len(counts):,}, epsilon = 1: CPU ms of ours (published form / ours)")
    print(f"{'mechanism':<22}" + "".join(f"{head:>20}" for head in heads))
    rows = [(name, make(name, 1.0), PUBLISHED.get(name)) for name in names]
    if "canonical" in names:
        rows.append(("canonical, gamma 1", make("canonical", 1.0, gamma=Fraction(1)), None))
    for name, mechanism, published in rows:
        cells = [cell(name, mechanism, published, counts, k, draws) for k in (10, 100, 200, 1000)]
        print(f"{name:<22}" + "".join(f"{text:>20}" for text in cells), flush=True)


def cell(name: str, mechanism: Mechanism, published: Callable | None, counts: np.ndarray, k: int, draws: int) -> str:
    seconds = ours(mechanism, counts, k, (2 if k > 200 else 5) if name in _SLOW else draws)
    if published is None or (name in ("joint", "canonical") and k > 100):
        return f"{1000 * seconds:.2f}"
    rng = np.random.default_rng(1)
    baseline = median_cpu(lambda: published(counts, k, 1.0, rng), 1 if name in ("joint", "canonical") else 5)
    return f"{1000 * seconds:.2f} ({baseline / seconds:.1f}x)"


def shapes(k: int, epsilon: float, draws: int, names: list[str]) -> None:
    d = 166_049
    print(
        f"d = {d:,}, epsilon = {epsilon:g}, k = {k}: CPU ms, the quickest and the slowest "
        f"of {len(SHAPES)} shapes of the counts"
    )
    vectors = {name: shape(name, d) for name in SHAPES}
    for name in names:
        times = again(make(name, epsilon), vectors, k, 3 if name in _SLOW else draws)
        first, last = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
        print(
            f"{name:<22}{1000 * times[first]:8.2f} {first:<18}{1000 * times[last]:8.2f} {last:<18}"
            f"{times[last] / times[first]:6.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--k", type=int, default=100, help="of --shapes")
    parser.add_argument("--epsilon", type=float, default=1.0, help="of --shapes")
    parser.add_argument("--only", type=lambda text: text.split(","), help="some mechanisms, by comma")
    arguments = parser.parse_args()
    names = arguments.only or list(MECHANISMS)
    if arguments.shapes:
        shapes(arguments.k, arguments.epsilon, arguments.draws, names)
    else:
        table(arguments.draws, names)


if __name__ == "__main__":
    main()
