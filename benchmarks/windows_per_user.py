"""What a bound on the windows of a user wins and loses: of the true top k of every window, how many are published.

    python -m benchmarks.windows_per_user

The sample: four weeks of 8,000 listeners, of whom most are there every week. And, where the folder of shared data is,
commits: eleven years of 389 authors, of whom most are there in one or two. Every W is a total of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from benchmarks.counts import FOLDER
from private_topk.pipelines.question import Question
from private_topk.pipelines.sample import write_sample
from private_topk.transforms import Period
from private_topk.transforms.domain import PublicDomain
from private_topk.transforms.mechanisms import Oneshot, RandomBits
from private_topk.transforms.spec import TopK
from private_topk.transforms.user_shards import WindowsOfUsers

DRAWS = 200


class Data(NamedTuple):
    """Distinct (user, window, item) rows, and what is asked of them."""

    name: str
    rows: np.ndarray
    items: int
    windows: int
    k: int
    epsilons: tuple[float, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=DRAWS)
    draws = parser.parse_args().draws
    print(f"Recall of the true top k, mean over the windows, {draws} draws; oneshot, the total of all windows")
    for data in (sample(), commits()):
        if data is None:
            print("\ncommits: not here. Set PRIVATE_TOPK_SHARED to the folder that holds data/")
            continue
        print(f"\n{data.name}: {data.windows} windows, k = {data.k}")
        print("| W | user-windows counted | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in data.epsilons) + " |")
        print("|---|---|" + "---|" * len(data.epsilons))
        for most, kept, recalls in measured(data, draws):
            print(f"| {most} | {kept:.0%} | " + " | ".join(f"{recall:.2f}" for recall in recalls) + " |")


def measured(data: Data, draws: int) -> Iterator[tuple[int, float, list[float]]]:
    users, windows, items = data.rows.T
    words = users.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    truth = counts(data, np.ones(len(users), bool))
    active = len(np.unique(users * data.windows + windows))
    for most in sorted({n for n in (1, 2, 3, 4, 6) if n < data.windows} | {data.windows}):
        counted = WindowsOfUsers(words, windows, windows + 1, data.windows, most).count(words, windows)
        here = counts(data, counted)
        kept = len(np.unique((users * data.windows + windows)[counted])) / active
        yield most, kept, [recall(data, here, truth, most, epsilon, draws) for epsilon in data.epsilons]


def counts(data: Data, counted: np.ndarray) -> np.ndarray:
    _, windows, items = data.rows[counted].T
    flat = np.bincount(windows * data.items + items, minlength=data.windows * data.items)
    return flat.reshape(data.windows, data.items)


def recall(data: Data, here: np.ndarray, truth: np.ndarray, most: int, epsilon: float, draws: int) -> float:
    period = Period.of("2000-01-01", f"2000-01-{data.windows + 1:02}", "1d")
    domain = [str(n) for n in range(data.items)]
    mechanism = Question(
        TopK(data.k, Oneshot(epsilon), PublicDomain.of(domain), max_windows_per_user=most),
        period=period,
        privacy_unit="user",
    ).top_k.mechanism
    bits = RandomBits.keyed(b"windows per user".ljust(32, b"."))
    found = 0.0
    for window in range(data.windows):
        least = np.sort(truth[window])[-data.k]
        for _ in range(draws):
            found += (truth[window][mechanism(here[window], data.k, bits)] >= least).mean()
    return found / draws / data.windows


def sample() -> Data:
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()):
            write_sample(folder)
        plays = pl.read_avro(f"{folder}/plays.avro")
    weeks = ((plays["time"].dt.epoch("d") - plays["time"].dt.epoch("d").min()) // 7).to_numpy()
    return Data("sample, weeks", coded(plays, weeks), plays["item"].n_unique(), 4, 10, (0.1, 0.2, 0.5))


def commits() -> Data | None:
    path = Path(FOLDER) / "commits.csv.gz"
    if not path.exists():
        return None
    rows = pl.read_csv(path)
    years = rows["time"].str.slice(0, 4).cast(pl.Int64).to_numpy()
    return Data(
        "commits, years",
        coded(rows, years - years.min()),
        rows["item"].n_unique(),
        int(years.max() - years.min()) + 1,
        5,
        (2.0, 5.0, 10.0),
    )


def coded(rows: pl.DataFrame, windows: np.ndarray) -> np.ndarray:
    columns = [np.unique(rows[name].to_numpy(), return_inverse=True)[1] for name in ("user", "item")]
    return np.unique(np.stack([columns[0], windows, columns[1]], axis=1).astype(np.int64), axis=0)


if __name__ == "__main__":
    main()
