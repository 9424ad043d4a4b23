"""The tables of docs/accuracy.md: what every mechanism finds, what it costs, and what other libraries find.

    python -m benchmarks.accuracy                     # our own mechanisms, some ten CPU minutes on the data folder
    python -m benchmarks.accuracy --only libraries    # pip install opendp diffprivlib 'scikit-learn<1.8'
    python -m benchmarks.accuracy --only rows         # pip install pipeline-dp

recall: the share of the k published items that are of the true top k, ties counted as found. lost: l_1, the sum over
ranks of the difference between the counts of the true and of the published item, as a share of the true top k's sum;
the items of a set are put in order by their counts. Both are means over cells, each the mean of --draws draws.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np

from benchmarks.counts import FOLDER, there_or_made
from benchmarks.hidden import DELTA
from benchmarks.mechanisms import make, ours
from benchmarks.regret import (
    DATA,
    LISTED,
    OF_BOUNDED,
    PURE,
    SETS,
    UNLISTED,
    UNLISTED_OF_BOUNDED,
    WITH_COUNTS,
    Cell,
    OfBounded,
    by_rule,
    counts,
    whole,
)
from private_topk.transforms.mechanisms import MECHANISMS, Mechanism, RandomBits, parameters_of
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts

TIMED, TIMED_K = "foods_synth", 100
SMALL = ("patent", "searchlogs", "medcost", "income", "hepth")
"""Of 4,096 items each: the other libraries take seconds a draw for more."""
OF_LIBRARIES = (10, 50), (0.03, 0.1, 0.3, 1.0, 3.0)
OF_ROWS = (10, 50), (0.3, 1.0, 3.0)
MOST = 20

Draw = Callable[[], np.ndarray]
"""One answer: the items' positions, in order where the answer is a sequence."""


def scored(true: np.ndarray, k: int, items: np.ndarray, ordered: bool) -> tuple[float, float]:
    """Recall and lost share of one answer, which may have fewer than k items."""
    best = np.sort(true)[::-1][:k].astype(float)
    got = np.zeros(k)
    got[: len(items)] = true[items] if ordered else np.sort(true[items])[::-1]
    return float(np.sum(got[: len(items)] >= best[-1]) / k), float(np.abs(best - got).sum() / best.sum())


def drawer(mechanism: Mechanism, cell: Cell) -> Draw:
    data, k, _ = cell
    named = named_counts(data)
    prepared = mechanism.prepare(whole(data).histogram(None, mechanism.guarantee.domain == "unknown"))
    bits = RandomBits.keyed(f"accuracy {mechanism.about.name} {cell}".encode())
    return lambda: named.items(prepared.ranks(k, bits))


@cache
def named_counts(data: str) -> IndexedCounts:
    return IndexedCounts.of(counts(data))


def of_cells(cells: list[Cell], made: Callable[[Cell], Draw], ordered: bool, draws: int) -> dict[Cell, np.ndarray]:
    """Of every cell the mean recall and lost share."""
    found = {}
    for cell in cells:
        draw = made(cell)
        found[cell] = np.mean([scored(counts(cell[0]), cell[1], draw(), ordered) for _ in range(draws)], axis=0)
    return found


def row(title: str, found: dict[Cell, np.ndarray], more: str = "") -> str:
    by_epsilon = [
        f"{100 * np.mean([found[cell][0] for cell in found if cell[2] == epsilon]):.0f}"
        for epsilon in sorted({cell[2] for cell in found})
    ]
    recalls, losses = np.array(list(found.values())).T
    of_data = {
        data: np.mean([found[cell][0] for cell in found if cell[0] == data]) for data in {cell[0] for cell in found}
    }
    worst = min(of_data, key=of_data.__getitem__)
    return " | ".join(
        [
            f"| {title}",
            *by_epsilon,
            f"{100 * recalls.mean():.1f}",
            f"{100 * of_data[worst]:.0f} {worst}",
            f"{100 * losses.mean():.1f}",
            f"{more} |",
        ]
    )


def head(epsilons: list[float], first: str, more: str) -> str:
    columns = [first, *(f"{epsilon:g}" for epsilon in epsilons), "mean", "worst data", "lost", more]
    return "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns)


def cost(name: str) -> str:
    """CPU ms of a draw, and MiB of memory beside the counts."""
    mechanism, vector, bits = make(name, 1.0), counts(TIMED), RandomBits.keyed(b"memory")
    seconds = ours(mechanism, vector, TIMED_K, 5)
    tracemalloc.start()
    mechanism(vector, TIMED_K, bits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return f"{1000 * seconds:.1f} | {peak / 2**20:.0f}"


def mechanisms(cells: list[Cell], draws: int, timed: bool) -> None:
    epsilons = sorted({cell[2] for cell in cells})
    print(f"{len(cells)} cells, {draws} draws each; time and memory: {TIMED}, k = {TIMED_K}, epsilon 1\n")
    groups = {
        "public items, no delta": [name for name in MECHANISMS if _group(name) == ("public", "pure")],
        f"public items, delta {DELTA:g}": [name for name in MECHANISMS if _group(name) == ("public", "approximate")],
        f"unlisted items, delta {DELTA:g}": [name for name in MECHANISMS if _group(name)[0] == "unknown"],
    }
    ordered = {
        "public items, no delta": tuple(name for name in PURE if name not in SETS),
        f"public items, delta {DELTA:g}": tuple(name for name in LISTED if name not in SETS),
    }
    for title, names in groups.items():
        print(f"{title}\n\n{head(epsilons, 'mechanism', 'CPU ms | MiB')}---|")
        offered = ordered.get(title, UNLISTED)
        chosen = by_rule(offered)
        auto = of_cells(cells, lambda cell: drawer(make(chosen(cell), cell[2]), cell), True, draws)  # noqa: B023
        print(row("**auto**", auto, " | "), flush=True)
        for name in names:
            in_order = MECHANISMS[name].guarantee.answer == "sequence"
            found = of_cells(cells, lambda cell: drawer(make(name, cell[2]), cell), in_order, draws)  # noqa: B023
            shown = f"`{name}`" if in_order else f"`{name}` (set)"
            print(row(shown, found, cost(name) if timed else " | "), flush=True)
        print()


def _group(name: str) -> tuple[str, str]:
    kind = MECHANISMS[name]
    if "max_items_per_user" in parameters_of(kind) and parameters_of(kind)["max_items_per_user"].required:
        return "bounded", ""  # it needs rows, not counts
    return kind.guarantee.domain, kind.guarantee.privacy


def opendp(cell: Cell, pure: bool) -> Draw:
    """OpenDP's noisy top k over all counts: exponential noise, or Gumbel noise by zero-concentrated privacy."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    data, k, epsilon = cell
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int, monotonic=True)
    vector = counts(data).tolist()
    if pure:
        top = partial(dp.m.make_noisy_top_k, *space, dp.max_divergence(), k)
        measurement = dp.binary_search_chain(lambda scale: top(scale), d_in=1, d_out=epsilon, T=float)
    else:
        top = partial(dp.m.make_noisy_top_k, *space, dp.zero_concentrated_divergence(), k)
        measurement = top(
            dp.binary_search(
                lambda scale: dp.c.make_zCDP_to_approxDP(top(scale)).map(1).epsilon(DELTA) <= epsilon,
                bounds=(0.5, 1e6),
                T=float,
            )
        )
    return lambda: np.array(measurement(vector))


def diffprivlib(cell: Cell) -> Draw:
    """k rounds of diffprivlib's permute-and-flip, which is what it has for a ranking."""
    from diffprivlib.mechanisms import PermuteAndFlip

    data, k, epsilon = cell

    def draw() -> np.ndarray:
        left, chosen = list(range(len(counts(data)))), []
        utility = counts(data).tolist()
        for _ in range(k):
            one = PermuteAndFlip(epsilon=epsilon / k, sensitivity=1, utility=utility, monotonic=True).randomise()
            chosen.append(left.pop(one))
            del utility[one]
        return np.array(chosen)

    return draw


def timed_draws(made: Callable[[Cell], Draw], spent: list[float]) -> Callable[[Cell], Draw]:
    """The same draws, with their CPU seconds."""

    def make_draw(cell: Cell) -> Draw:
        draw = made(cell)

        def once() -> np.ndarray:
            before = time.process_time()
            items = draw()
            spent.append(time.process_time() - before)
            return items

        return once

    return make_draw


def libraries(draws: int) -> None:
    ks, epsilons = OF_LIBRARIES
    cells = list(itertools.product(SMALL, ks, epsilons))
    listed, pure = (tuple(name for name in names if name not in SETS) for names in (LISTED, PURE))

    def from_counts(names: tuple[str, ...], cell: Cell) -> Draw:
        mechanism = make(by_rule(names)(cell), cell[2])
        bits = RandomBits.keyed(f"libraries {cell}".encode())
        return lambda: mechanism(counts(cell[0]), cell[1], bits)  # all of it, as the others are called

    rows: dict[str, Callable[[Cell], Draw]] = {
        "**auto**, no delta": partial(from_counts, pure),
        "OpenDP, no delta": partial(opendp, pure=True),
        "diffprivlib, no delta": diffprivlib,
        f"**auto**, delta {DELTA:g}": partial(from_counts, listed),
        f"OpenDP, delta {DELTA:g}": partial(opendp, pure=False),
    }
    print(f"{len(cells)} cells of {', '.join(SMALL)}; k = {ks}; {draws} draws each\n")
    print(head(list(epsilons), "library", "CPU ms"))
    for title, made in rows.items():
        spent: list[float] = []
        found = of_cells(cells, timed_draws(made, spent), True, draws)
        print(row(title, found, f"{1000 * np.median(spent):.3g}"), flush=True)


def _pairs(data: str) -> Iterator[tuple[str, str]]:
    with gzip.open(FOLDER / f"{data}.pairs.csv.gz", "rt") as lines:
        yield from ((line[0], line[1]) for line in itertools.islice(csv.reader(lines), 1, None))


def pipeline_dp(cell: Cell, public: bool, draws: int) -> float:
    """The recall of PipelineDP's noisy number of users of every item, or of those it selects, with a sort behind it."""
    import pipeline_dp

    data, k, epsilon = cell
    rows = list(_pairs(data))
    items, true = np.unique([item for _, item in rows], return_counts=True)
    least = np.sort(true)[-k]
    users_of = dict(zip(items.tolist(), true.tolist(), strict=True))

    def draw() -> float:
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=DELTA)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        parameters = pipeline_dp.AggregateParams(
            metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
            noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
            max_partitions_contributed=MOST,
            max_contributions_per_partition=1,
        )
        extractors = pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: 0,
        )
        noisy = engine.aggregate(rows, parameters, extractors, public_partitions=users_of.keys() if public else None)
        accountant.compute_budgets()
        found = {item: metrics.privacy_id_count for item, metrics in noisy}
        top = sorted(found, key=found.__getitem__, reverse=True)[:k]
        return sum(users_of[item] >= least for item in top) / k

    return float(np.mean([draw() for _ in range(draws)]))


def of_rows(draws: int, ours_draws: int) -> None:
    ks, epsilons = OF_ROWS
    data = "games"
    cells = list(itertools.product([data], ks, epsilons))
    recalls = OfBounded(data, 1.0, MOST, ours_draws)
    rows = len(recalls.pairs[0])
    print(
        f"{data}: {rows:,} users' items, {recalls.size:,} items; {MOST} items of a user count, "
        f"delta {DELTA:g}; k = {ks}; {ours_draws} draws, theirs {draws}"
    )
    for title, names, public in (("public", OF_BOUNDED, True), ("unlisted", UNLISTED_OF_BOUNDED, False)):
        chosen = recalls.chosen(names)
        found: dict[str, Callable[[Cell], float]] = {
            "PipelineDP": partial(pipeline_dp, public=public, draws=draws),
            "**auto**": lambda cell: recalls.of(cell, chosen(cell)),  # noqa: B023 - called at once
            **{f"`{name}`": partial(_of_name, recalls, name) for name in names},
            **{
                f"`{name}`{WITH_COUNTS}": partial(_of_name, recalls, f"{name}{WITH_COUNTS}")
                for name in ("laplace", "gaussian")
                if public
            },
        }
        print(f"\n| {title} items | " + " | ".join(f"{epsilon:g}" for epsilon in epsilons) + " | mean |")
        print("|" + "---|" * (len(epsilons) + 2))
        for name, of in found.items():
            each = {cell: of(cell) for cell in cells}
            by = [100 * np.mean([each[cell] for cell in cells if cell[2] == epsilon]) for epsilon in epsilons]
            print(f"| {name} | " + " | ".join(f"{value:.0f}" for value in by) + f" | {np.mean(by):.1f} |", flush=True)


def _of_name(recalls: OfBounded, name: str, cell: Cell) -> float:
    return recalls.of(cell, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=there_or_made(DATA), help="as for benchmarks.errors")
    parser.add_argument("--k", type=int, nargs="+", default=[5, 10, 20, 50, 100])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.03, 0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--only", choices=["mechanisms", "libraries", "rows"], default="mechanisms")
    parser.add_argument("--untimed", action="store_true", help="leave time and memory out")
    arguments = parser.parse_args()
    if arguments.only == "libraries":
        libraries(min(arguments.draws, 4))
    elif arguments.only == "rows":
        of_rows(min(arguments.draws, 3), arguments.draws)
    else:
        cells = list(itertools.product(arguments.data, arguments.k, arguments.epsilon))
        mechanisms(cells, arguments.draws, not arguments.untimed)


if __name__ == "__main__":
    main()
