"""The count vectors of the benchmarks: the data folder beside the checkout, files, the sample, and made-up shapes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from private_topk.pipelines.sample import users_per_item

FOLDER = Path(os.environ.get("PRIVATE_TOPK_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"

_MADE: dict[str, Callable[[int], np.ndarray]] = {
    "all equal": lambda d: np.full(d, 1000),
    "all zero": lambda d: np.zeros(d),
    "zipf": lambda d: 1_000_000 // np.arange(1, d + 1),
    "zipf, large": lambda d: 10**12 // np.arange(1, d + 1),
    "square root": lambda d: 10**6 / np.sqrt(np.arange(1, d + 1)),
    "geometric": lambda d: 10**6 * 0.99 ** np.arange(d),
    "stepped by 1": lambda d: np.arange(d),
    "in pairs": lambda d: np.arange(d) // 2,
    "in hundreds": lambda d: np.arange(d) // 100 * 37,
    "widely gapped": lambda d: 10**6 * np.arange(d),
    "one giant": lambda d: np.where(np.arange(d), 3, 10**9),
    "two halves": lambda d: np.where(np.arange(d) % 2, 10**5, 0),
    "steps at the top": lambda d: np.maximum(20_000 - np.arange(d), 0),
}
SHAPES = tuple(_MADE)
_STAND_INS, _OF_A_SHAPE = ("zipf", "square root", "geometric"), 5000


def there_or_made(names: Sequence[str]) -> list[str]:
    """These vectors of the data folder, or where that is not there the sample's counts and some named shapes."""
    return list(names) if all((FOLDER / f"{name}.npy").exists() for name in names) else ["sample", *_STAND_INS]


def load(name: str) -> np.ndarray:
    """Public counts by a name or a path.

    Args:
        name: a vector of the data folder, such as foods_synth (d = 166,049); `sample`, the users of each track of the
            project's own; a shape of `SHAPES`, of 5,000 items; or a file: .npy, or text with a count in each line.
    """
    if name == "sample":
        return users_per_item(7)
    if name in _MADE:
        return shape(name, _OF_A_SHAPE)
    given = Path(name)
    if given.suffix:
        if not given.exists():
            raise SystemExit(f"there is no file {name}")
        return np.load(given) if given.suffix == ".npy" else np.loadtxt(given, np.int64, ndmin=1)
    path = FOLDER / f"{name}.npy"
    if not path.exists():
        raise SystemExit(
            f"the data folder has no {name}.npy: set PRIVATE_TOPK_SHARED to the folder that holds data/, "
            f"or give a file, sample, or one of {', '.join(SHAPES)}"
        )
    return np.load(path)


def shape(name: str, d: int) -> np.ndarray:
    """Counts of an extreme shape in shuffled order: does the running time tell which?"""
    return np.random.default_rng(1).permutation(_MADE[name](d).astype(np.int64))
