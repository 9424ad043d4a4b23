"""The count vectors of the benchmarks: the project's data folder beside the checkout, and made-up shapes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

__all__ = ["FOLDER", "SHAPES", "load", "shape"]

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


def load(name: str) -> np.ndarray:
    """A vector of the data folder, such as foods_synth (d = 166,049)."""
    path = FOLDER / f"{name}.npy"
    if not path.exists():
        raise SystemExit(f"the data folder has no {name}.npy: set PRIVATE_TOPK_SHARED to the folder that holds data/")
    return np.load(path)


def shape(name: str, d: int) -> np.ndarray:
    """Counts of an extreme shape in shuffled order: does the running time tell which?"""
    return np.random.default_rng(1).permutation(_MADE[name](d).astype(np.int64))
