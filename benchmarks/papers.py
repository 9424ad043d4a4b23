"""The figures of the papers, drawn anew with the mechanisms of this project.

    python -m benchmarks.papers                                # every figure, into out/papers, as SVG
    python -m benchmarks.papers --figure joint time --data games counts.txt --draws 50 --kind png

| figure | after | what it shows |
|---|---|---|
| joint | Gillenwater et al. 2022, Figures 1 and 5 | gaps, and three errors against k |
| baselines | Gillenwater et al. 2022, Figure 6 | the same, with gamma and laplace |
| time | Gillenwater et al. 2022, Figure 3; Wu & Zhang 2024 | CPU time of a draw against k, beside published forms |
| domain | Wu & Zhang 2024; Carvalho & Wang, Figure 7 | error and CPU time against the number of items, for Zipf's law |
| sets | Joseph et al. 2021; Shekelyan & Loukides 2023, Figures 5 to 10 | share of the true top k against epsilon |
| returned | Carvalho & Wang, Figures 4, 5 and 8 | how many items are returned, and their score ratio, against k |

Lines are medians and bands the middle half of the draws; errors have 1 added, as in the papers, so that none is lost
on a logarithmic axis. What the papers call movies, books or foods are counts of reviews: the data folder beside the
checkout has some of them, and made-up ones; where it is not there, the sample and named shapes stand in.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.counts import load, shape, there_or_made
from benchmarks.errors import errors
from benchmarks.mechanisms import make
from benchmarks.published import PUBLISHED
from private_topk.transforms.mechanisms import Mechanism, RandomBits
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts

DATA = ("games", "patent", "gowalla")
KS = (5, 10, 20, 50, 100, 200)
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
SIZES = (1000, 10_000, 100_000, 1_000_000)
_AFFORDABLE = 2_000_000
"""So many losses, k times d, are sorted by the published form in seconds."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "canonical": ("canonical", {}),
    "canonical, gamma 1": ("canonical", {"gamma": Fraction(1)}),
    "joint-set": ("joint-set", {}),
    "joint": ("joint", {}),
    "peeling": ("peeling", {}),
    "laplace": ("laplace", {}),
}
Lines = dict[str, dict[float, np.ndarray]]
"""By name and place on the axis, the values of all draws."""


def answers(mechanism: Mechanism, counts: np.ndarray, k: int, draws: int) -> list[np.ndarray]:
    """Indices of so many draws; what does not depend on the bits is done once."""
    bits, named = RandomBits.keyed(b"papers"), IndexedCounts.of(counts)
    prepared = mechanism.prepare(named.histogram)
    return [named.items(prepared.ranks(k, bits)) for _ in range(draws)]


def seconds(draw: Callable[[], object], draws: int) -> np.ndarray:
    """CPU seconds of each draw."""
    found = []
    for _ in range(draws):
        before = time.process_time()
        draw()
        found.append(time.process_time() - before)
    return np.array(found)


def error_lines(mechanisms: Mapping[str, Mechanism], counts: np.ndarray, ks: Iterable[int], draws: int) -> list[Lines]:
    """l_inf, l_1 and k-relative errors against k."""
    found: list[Lines] = [{name: {} for name in mechanisms} for _ in range(3)]
    for name, mechanism in mechanisms.items():
        for k in ks:
            each = np.array(
                [
                    errors(counts, answer, k, mechanism.guarantee.answer == "set")
                    for answer in answers(mechanism, counts, k, draws)
                ]
            )
            for lines, values in zip(found, each.T, strict=True):
                lines[name][k] = values + 1
    return found


def joint(figure: Any, data: Sequence[str], draws: int, more: Sequence[str] = ()) -> None:  # noqa: ANN401
    names = ("joint", "pnf-peeling", "cdp-peeling", *more)
    rows = figure.subplots(len(data), 4, squeeze=False)
    for row, name in zip(rows, data, strict=True):
        counts = load(name).astype(np.int64)
        ks = [k for k in KS if k <= len(counts)]
        falling = np.sort(counts)[::-1][: ks[-1] + 1]
        row[0].plot(range(1, len(falling)), 1 - np.diff(falling), color="#555555", linewidth=1)
        decorate(row[0], "k", "gap to the next count, + 1", name)
        for axes, lines, title in zip(
            row[1:],
            error_lines({n: make(n, 1.0) for n in names}, counts, ks, draws),
            ("l_inf", "l_1", "k-relative"),
            strict=True,
        ):
            plot(axes, lines)
            decorate(axes, "k", f"{title} error, + 1", "" if title != "l_inf" else "epsilon 1, delta 1e-6")


def baselines(figure: Any, data: Sequence[str], draws: int) -> None:  # noqa: ANN401
    joint(figure, data[:1], draws, ("gamma", "laplace"))


def times(figure: Any, data: Sequence[str], draws: int) -> None:  # noqa: ANN401
    for axes, name in zip(figure.subplots(1, len(data), squeeze=False)[0], data, strict=True):
        counts = load(name).astype(np.int64)
        lines: Lines = {}
        ks, bits, rng = [k for k in KS if k <= len(counts)], RandomBits.keyed(b"papers"), np.random.default_rng(1)
        for mechanism in ("joint", "fast-joint", "canonical", "pnf-peeling"):
            own = make(mechanism, 1.0)
            lines[mechanism] = {k: seconds(partial(own, counts, k, bits), 5) for k in ks}
        few = [k for k in ks if k * len(counts) <= _AFFORDABLE]
        lines["joint, as published, in numpy"] = {
            k: seconds(partial(PUBLISHED["joint"], counts, k, 1.0, rng), 2) for k in few
        }
        plot(axes, lines)
        decorate(axes, "k", "CPU seconds of a draw", f"{name}, d = {len(counts):,}")


def domain(figure: Any, data: Sequence[str], draws: int) -> None:  # noqa: ANN401
    left, right = figure.subplots(1, 2)
    off: Lines = {}
    spent: Lines = {}
    for name in ("joint", "peeling", "gamma", "restricted-gumbel"):
        off[name], spent[name] = {}, {}
        for d in SIZES:
            counts, mechanism = shape("zipf", d), make(name, 0.001)
            bits = RandomBits.keyed(b"papers")
            spent[name][d] = seconds(partial(mechanism, counts, 10, bits), 3)
            top = np.sort(counts)[::-1][:10].sum()
            off[name][d] = np.array([1 + top - counts[a].sum() for a in answers(mechanism, counts, 10, draws)])
    for axes, lines, text in ((left, off, "counts that are missed, + 1"), (right, spent, "CPU seconds of a draw")):
        plot(axes, lines)
        decorate(axes, "d: how many items there are", text, "Zipf's law, k = 10, epsilon 0.001")


def sets(figure: Any, data: Sequence[str], draws: int) -> None:  # noqa: ANN401
    rows = figure.subplots(len(data), 3, squeeze=False)
    for row, name in zip(rows, data, strict=True):
        counts = load(name).astype(np.int64)
        for axes, k in zip(row, (10, 50, 100), strict=True):
            least = np.sort(counts)[::-1][k - 1]
            lines: Lines = {}
            for label, (kind, own) in SETS.items():
                if kind == "joint-set" and k > 50:
                    continue  # seconds for each draw
                lines[label] = {e: found_of(make(kind, e, **own), counts, k, least, draws) for e in EPSILONS}
            plot(axes, lines, np.mean, SETS)
            decorate(axes, "epsilon", "share of the true top k (mean)", f"{name}, k = {k}", y="linear")


def found_of(mechanism: Mechanism, counts: np.ndarray, k: int, least: int, draws: int) -> np.ndarray:
    """Which part of each answer has a count as large as the k-th."""
    return np.array([(counts[answer] >= least).mean() for answer in answers(mechanism, counts, k, draws)])


def returned(figure: Any, data: Sequence[str], draws: int) -> None:  # noqa: ANN401
    rows = figure.subplots(len(data), 2, squeeze=False)
    for row, name in zip(rows, data, strict=True):
        counts = load(name).astype(np.int64)
        counts = counts[counts > 0]
        many: Lines = {}
        ratio: Lines = {}
        for kind in ("restricted-gumbel", "limit-domain", "restricted-normal", "laplace-limit-domain", "top-stable"):
            many[kind], ratio[kind] = {}, {}
            for k in KS:
                found = answers(make(kind, 1.0), counts, k, draws)
                top = np.sort(counts)[::-1][:k].sum()
                many[kind][k] = np.array([len(answer) for answer in found])
                ratio[kind][k] = np.array([counts[answer].sum() / top for answer in found])
        for axes, lines, text in zip(row, (many, ratio), ("items returned", "score ratio"), strict=True):
            plot(axes, lines)
            decorate(axes, "k", text, f"{name}, epsilon 1, delta 1e-6", y="linear")


def plot(axes: Any, lines: Lines, middle: Callable[..., Any] = np.median, order: Iterable[str] = ()) -> None:  # noqa: ANN401
    """Every line in the colour of its place in `order`, so that panels that lack one agree with the others."""
    numbers = {name: number for number, name in enumerate(order or lines)}
    for name, values in lines.items():
        number = numbers[name]
        colour, places = COLOURS[number % len(COLOURS)], list(values)
        axes.plot(
            places,
            [float(middle(values[x])) for x in places],
            color=colour,
            marker="os^Dv<"[number % 6],
            markersize=3.5,
            linewidth=1.2,
            label=name,
        )
        low, high = ([float(np.quantile(values[x], part)) for x in places] for part in (0.25, 0.75))
        axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)


def decorate(axes: Any, x: str, y_text: str, title: str, y: str = "log") -> None:  # noqa: ANN401
    axes.set(xlabel=x, ylabel=y_text, xscale="log", yscale=y)
    axes.set_title(title, fontsize="medium", loc="left")
    axes.grid(alpha=0.25)


FIGURES: dict[str, tuple[Callable[[Any, Sequence[str], int], None], float, float]] = {
    "joint": (joint, 13, 2.8),
    "baselines": (baselines, 13, 3.4),
    "time": (times, 12, 0),
    "domain": (domain, 9, 0),
    "sets": (sets, 11, 2.8),
    "returned": (returned, 9, 2.8),
}
"""How each is drawn, its width in inches, and the height of each data set's row (0: one row)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", nargs="+", default=list(FIGURES), choices=list(FIGURES))
    parser.add_argument("--data", nargs="+", default=there_or_made(DATA), help="as for benchmarks.errors")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--folder", type=Path, default=Path("out/papers"))
    parser.add_argument("--kind", default="svg", choices=("svg", "png", "pdf"))
    arguments = parser.parse_args()
    from matplotlib.figure import Figure

    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.figure:
        draw, width, height = FIGURES[name]
        rows = 1 if name == "baselines" else len(arguments.data)
        figure = Figure(figsize=(width, height * rows + 0.8 if height else 4), layout="constrained")
        draw(figure, arguments.data, arguments.draws)
        labelled = {
            text: line for axes in figure.axes for line, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(labelled.values(), labelled, loc="outside lower center", frameon=False, ncols=6)
        path = arguments.folder / f"{name}.{arguments.kind}"
        figure.savefig(path, metadata={"Date": None} if arguments.kind == "svg" else None)
        print(path, flush=True)


if __name__ == "__main__":
    main()
