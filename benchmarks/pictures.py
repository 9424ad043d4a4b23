"""The pictures of the pages, drawn anew.

    python -m benchmarks.pictures                                # all of them, into docs/pictures
    python -m benchmarks.pictures --picture groups --kind png --folder out

| picture | page | what it shows | data |
|---|---|---|---|
| groups | docs/groups.md | recall in three groups of buyers, at one epsilon for all of them, and at a third | games |
| amounts | docs/amounts.md | recall of the largest sums of amounts against the cap | commits: rows of each person |
| counts | docs/run.md | standard deviation of a published count against k | none: it hangs on the question alone |
| to_date | docs/to-date.md | size of the noise against the number of steps | none: it hangs on the question alone |
| orders | docs/mechanisms.md | error of weighted-order beside cdp-peeling against k over epsilon | games, gowalla |

`page.png`, of README.md, is a screenshot of the page that README.md makes: `chromium --headless --hide-scrollbars
--window-size=1100,992 --screenshot=docs/pictures/page.png out/ranking.html`.

Games, gowalla and commits are of the folder of shared data (PRIVATE_TOPK_SHARED): without it their pictures are left.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.counts import FOLDER
from benchmarks.hidden import DELTA, LIMIT, median_error, ours, pairs_of, sums_of
from private_topk.transforms.mechanisms import (
    CdpPeeling,
    Mechanism,
    Peeling,
    RandomBits,
    WeightedOrder,
    noise_of_counts,
)
from private_topk.transforms.mechanisms.exact.histogram import IndexedCounts
from private_topk.transforms.mechanisms.exact.series import matrix, squared_reach

ROOT = Path(__file__).resolve().parents[1]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
SEGMENTS = {"1 game": (1, 1), "2 to 9": (2, 9), "10 and more": (10, 10**9)}
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
CAPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


def recall(mechanism: Mechanism, scores: np.ndarray, truth: np.ndarray, k: int, draws: int) -> float:
    """How many of the k items that have the largest true scores are found, those of equal scores alike."""
    named, bits, least = IndexedCounts.of(scores), RandomBits.keyed(b"pictures"), np.sort(truth)[-k]
    prepared = mechanism.prepare(named.histogram)
    return float(np.mean([(truth[named.items(prepared.ranks(k, bits))] >= least).mean() for _ in range(draws)]))


def groups(figure: Any, draws: int) -> None:  # noqa: ANN401
    users, items = pairs_of("games")
    held = np.bincount(users)[users]
    axes = figure.subplots()
    for colour, (name, (least, most)) in zip(COLOURS, SEGMENTS.items(), strict=False):
        its = (held >= least) & (held <= most)
        scores = np.bincount(items[its], minlength=items.max() + 1)
        for share, style in ((1, "-"), (len(SEGMENTS), ":")):
            found = [recall(Peeling(epsilon / share), scores, scores, 10, draws) for epsilon in EPSILONS]
            label = f"{name} ({len(np.unique(users[its])):,} users)" if share == 1 else None
            axes.plot(EPSILONS, found, style, color=colour, marker="o", markersize=3.5, label=label)
    axes.plot([], [], ":", color="#555555", label="were epsilon shared by the three")
    finish(
        axes,
        "epsilon of a window, all groups together",
        "share of the true top 10 (mean)",
        "A ranking for each group of a game store's users: peeling, k = 10",
        EPSILONS,
    )
    axes.set_ylim(-0.05, 1.45)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])


def amounts(figure: Any, draws: int) -> None:  # noqa: ANN401
    path = FOLDER / "commits.csv.gz"
    if not path.exists():
        raise SystemExit(f"the data folder has no {path.name}: set PRIVATE_TOPK_SHARED to the folder that holds data/")
    with gzip.open(path, "rt") as lines:
        rows = [line.split(",")[:2] for line in lines.read().splitlines()[1:]]
    users, items = (np.unique(column, return_inverse=True)[1] for column in zip(*rows, strict=True))
    sums = np.zeros((users.max() + 1, items.max() + 1), np.int64)
    np.add.at(sums, (users, items), 1)
    axes = figure.subplots()
    for colour, epsilon in zip(COLOURS, (1.0, 3.0, 10.0, 1000.0), strict=False):
        found = [
            recall(Peeling(epsilon, cap=cap), np.minimum(sums, cap).sum(axis=0), sums.sum(axis=0), 5, draws)
            for cap in CAPS
        ]
        label = f"epsilon {epsilon:g}" if epsilon < 1000 else "no noise"
        axes.plot(CAPS, found, color=colour, marker="o", markersize=3.5, label=label)
    finish(
        axes,
        "cap: the most changes of a folder that one person counts for",
        "share of the true top 5 (mean)",
        "Most changed folders of a repository, 389 people: peeling, k = 5",
        CAPS,
    )


def spread(figure: Any, draws: int) -> None:  # noqa: ANN401
    ks = np.unique(np.geomspace(1, 300, 25).astype(int)).tolist()
    kinds: dict[str, dict[str, Any]] = {
        "without a delta": {},
        "delta 1e-6": {"delta": 1e-6},
        "delta 1e-6, at most 10 items a user": {"delta": 1e-6, "max_items_per_user": 10},
    }
    axes = figure.subplots()
    for colour, (name, more) in zip(COLOURS, kinds.items(), strict=False):
        axes.plot(ks, [noise_of_counts(k, epsilon=1, **more).stddev() for k in ks], color=colour, label=name)
    axes.plot(ks, [2**0.5 * k for k in ks], ":", color="#555555", label="Laplace noise for each count by itself")
    finish(
        axes,
        "k: how many counts are published",
        "standard deviation of one",
        "Noise of published counts, epsilon 1",
        (1, 3, 10, 30, 100, 300),
        (1, 3, 10, 30, 100, 300),
    )


def orders(figure: Any, draws: int) -> None:  # noqa: ANN401
    axes = figure.subplots()
    for (data, mark), colour in zip((("games", "o"), ("gowalla", "s")), COLOURS, strict=False):
        pairs = pairs_of(data)
        counts, points = np.bincount(pairs[1]), []
        for k, epsilon in ((20, 1.0), (20, 0.5), (50, 1.0), (50, 0.5), (100, 1.0), (50, 0.3), (100, 0.5), (100, 0.3)):
            error, of_peeling = (
                median_error(ours(mechanism, sums_of(pairs, mechanism, len(counts)))(k), counts, k, draws)[0]
                for mechanism in (WeightedOrder(epsilon, DELTA, LIMIT), CdpPeeling(epsilon, DELTA))
            )
            points.append((k / epsilon, error / of_peeling))
        label = f"weighted-order, {data}"
        axes.plot(*zip(*sorted(points), strict=True), linestyle="none", marker=mark, color=colour, label=label)
    axes.axhline(1, color="#555555", linewidth=1, linestyle=":", label="cdp-peeling")
    finish(
        axes,
        "k over epsilon",
        "median l_1 error in units of cdp-peeling's",
        "Which of the two, delta 1e-6",
        (20, 50, 100, 200, 300),
        (0.3, 0.5, 1, 2, 5, 10, 20),
    )


def series(figure: Any, draws: int) -> None:  # noqa: ANN401
    numbers = [2, 4, 7, 12, 26, 52, 104, 208, 365]
    last = [float((matrix(steps)[-1] ** 2).sum() * float(squared_reach(steps))) ** 0.5 for steps in numbers]
    axes = figure.subplots()
    axes.plot(numbers, [steps**0.5 for steps in numbers], color=COLOURS[1], label="each ranking a release of its own")
    axes.plot(numbers, last, color=COLOURS[0], label="rankings to date, at the last step")
    finish(
        axes,
        "steps of the period",
        "noise, in that of one ranking",
        "Gaussian noise for a user who is in all of a period, one budget",
        numbers,
        (1, 2, 3, 5, 10, 20),
    )


def finish(axes: Any, x_text: str, y_text: str, title: str, ticks: Sequence[float], y: Sequence[float] = ()) -> None:  # noqa: ANN401
    """Names of axes, and plain numbers on them, in place of powers of ten.

    Args:
        ticks, y: what stands on the logarithmic axes; without `y` that one is linear.
    """
    axes.set(xlabel=x_text, ylabel=y_text, xscale="log")
    axes.set_title(title, fontsize="medium", loc="left")
    if y:
        axes.set(yscale="log")
        axes.set_yticks(y, [f"{tick:g}" for tick in y])
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    axes.legend(fontsize="small", frameon=False)


PICTURES: dict[str, tuple[Callable[[Any, int], None], float]] = {
    "groups": (groups, 7),
    "amounts": (amounts, 7),
    "counts": (spread, 7),
    "orders": (orders, 7),
    "to_date": (series, 7),
}
"""How each is drawn, and its width in inches."""


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", nargs="+", default=list(PICTURES), choices=list(PICTURES))
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--kind", default="svg", choices=("svg", "png"))
    parser.add_argument("--draws", type=int, default=100)
    arguments = parser.parse_args(words)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.picture:
        draw, width = PICTURES[name]
        with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
            figure = Figure(figsize=(width, 3.8), layout="constrained")
            draw(figure, arguments.draws)
            place = arguments.folder / f"{name}.{arguments.kind}"
            figure.savefig(place, dpi=90, metadata={"Date": None} if arguments.kind == "svg" else None)
        print(place, flush=True)


if __name__ == "__main__":
    main()
