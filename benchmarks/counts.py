"""The count vectors of the benchmarks: the project's data folder beside the checkout, and made-up shapes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

__all__ = ["SHAPES", "load", "shape"]

_FOLDER = Path(os.environ.get("PRIVATE_TOPK_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"

SHAPES = ("all equal", "zipf", "widely gapped")


def load(name: str) -> np.ndarray:
    """A vector of the data folder, such as foods_synth (d = 166,049)."""
    path = _FOLDER / f"{name}.npy"
    if not path.exists():
        raise SystemExit(f"the data folder has no {name}.npy: set PRIVATE_TOPK_SHARED to the folder that holds data/")
    return np.load(path)


def shape(name: str, d: int) -> np.ndarray:
    """Counts of an extreme shape in shuffled order: does the running time tell which?"""
    counts = {
        "all equal": lambda: np.full(d, 1000),
        "zipf": lambda: 1_000_000 // np.arange(1, d + 1),
        "widely gapped": lambda: 1000 * np.arange(d),
    }[name]()
    return np.random.default_rng(1).permutation(counts.astype(np.int64))
