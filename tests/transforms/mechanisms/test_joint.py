from __future__ import annotations

import math
import os
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import Cost, Mechanism, RandomBits
from private_topk.transforms.mechanisms.joint import Joint
from private_topk.transforms.testing import SMALL_COUNTS, Law, check_law, check_neighbours
from tests.transforms.mechanisms import laws
from tests.transforms.mechanisms.contract import Contract

SHARED = Path(os.environ.get("PRIVATE_TOPK_SHARED", Path(__file__).resolve().parents[3].parent / "shared"))
HALF, FIVE_NINTHS, THREE_QUARTERS, ONE = Fraction(1, 2), Fraction(5, 9), Fraction(3, 4), Fraction(1)


def law(mechanism: Joint, counts: tuple[int, ...], k: int) -> Law:
    """The law the docstring states, by enumeration."""
    rate = Fraction(mechanism.epsilon) / {"add-remove": 1, "swap": 2}[mechanism.neighbours]
    return laws.best_sequence(counts, k, rate, mechanism.noise, mechanism.skew)


class TestJoint(Contract):
    law = staticmethod(law)
    mechanisms: ClassVar[list[Mechanism]] = [
        Joint(1.0),
        Joint(0.5, noise="exponential"),
        Joint(2, skew=FIVE_NINTHS),
        Joint(0.1, skew=0.75, noise="exponential", neighbours="swap"),
        Joint(1.0, skew=1, neighbours="swap"),
    ]


@pytest.mark.parametrize(
    ("mechanism", "counts", "k"),
    [
        (Joint(1.0), (4, 3, 1, 0), 2),
        (Joint(3.0, FIVE_NINTHS, "exponential"), (6, 3, 3, 4), 2),
        (Joint(1.0, THREE_QUARTERS, "gumbel", "swap"), (2**62, 2**62 - 3, 2**62 - 1, 0), 2),
        (Joint(0.7, ONE, "exponential", "swap"), (5, 3, 3, 0), 3),
    ],
    ids=repr,
)
def test_frequencies_follow_the_law(mechanism: Joint, counts: tuple[int, ...], k: int) -> None:
    check_law(mechanism, partial(law, mechanism), counts, [k], smallest_error=0.1)


@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
@pytest.mark.parametrize("skew", [HALF, FIVE_NINTHS, THREE_QUARTERS, ONE])
def test_no_neighbour_tells_more_than_epsilon(skew: Fraction, noise: str) -> None:
    """And add-remove wastes nothing, and swaps need their factor two."""
    mechanism = Joint(4.0, skew, noise)
    swapped = replace(mechanism, neighbours="swap")
    assert check_neighbours(mechanism, partial(law, mechanism), SMALL_COUNTS, (1, 2, 3)) > 3
    check_neighbours(swapped, partial(law, swapped), SMALL_COUNTS[:-1], (1, 2, 3))
    with pytest.raises(AssertionError, match="exceeds (epsilon )?4"):
        check_neighbours(swapped, partial(law, mechanism), SMALL_COUNTS, (1, 2))


def test_permute_and_flip_has_no_limit_on_the_number_of_sequences() -> None:
    counts = np.arange(50_000) // 10  # k log d = 2164: exp of it overflows doubles
    for epsilon in (0.01, 1.0, 100.0):
        answer = Joint(epsilon, noise="exponential")(counts, 200, RandomBits.keyed(b"many"))
        assert len(set(answer.tolist())) == 200


def test_unsigned_counts_do_not_wrap() -> None:
    """The published code subtracts counts in their own type."""
    counts = np.array([250, 5, 249, 0, 251], np.uint8)
    for noise in ("gumbel", "exponential"):
        mechanism = Joint(0.05, THREE_QUARTERS, noise)
        wide = [mechanism(counts.astype(np.int64), 3, RandomBits.keyed(b"%d" % i)).tolist() for i in range(50)]
        assert [mechanism(counts, 3, RandomBits.keyed(b"%d" % i)).tolist() for i in range(50)] == wide


@pytest.mark.parametrize(
    ("data", "k", "skew", "errors"),
    [("games", 100, HALF, (393, 25478, 213)), ("gowalla", 50, THREE_QUARTERS, (None, 11152, 8))],
)
def test_median_errors_on_real_counts(data: str, k: int, skew: Fraction, errors: tuple[int | None, ...]) -> None:
    """Of 100 draws at epsilon 1, at least 26 lie on each side of a median, but for one seed in a million."""
    path = SHARED / "data" / f"{data}.npy"
    if not path.exists():
        pytest.skip(f"needs {path.name}: set PRIVATE_TOPK_SHARED to the folder of shared data")
    counts = np.load(path)
    top, bits = np.sort(counts)[::-1][:k], RandomBits.keyed(b"medians")
    draws = [counts[Joint(1.0, skew)(counts, k, bits)] for _ in range(100)]
    seen = np.array([(abs(top - x).max(), abs(top - x).sum(), max(top[-1] - x.min(), 0)) for x in draws])
    for column, median in zip(seen.T, errors, strict=True):
        assert median is None or min(sum(column <= median), sum(column >= median)) >= 26, sorted(column)[::10]


def test_skew_is_read_as_written() -> None:
    assert Joint(1.0, 0.55).skew == Fraction(11, 20)
    assert Joint(1.0, 1).skew == 1 and Joint(1.0, 0.5) == Joint(1.0)
    assert Joint(1.0, FIVE_NINTHS).parameters()["skew"] == "5/9"


@pytest.mark.parametrize("skew", [0.49, 1.01, -1, math.nan, math.inf, "much", None])
def test_skew_out_of_range_is_refused(skew: object) -> None:
    with pytest.raises(ValueError, match="skew must be a number from 1/2 to 1"):
        Joint(1.0, skew)


def test_other_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="noise must be one of gumbel, exponential for joint, got 'laplace'"):
        Joint(1.0, noise="laplace")


def test_cost_of_an_exponential_mechanism_and_of_a_pure_one() -> None:
    assert Joint(2.0).cost(5) == Joint(2.0, neighbours="swap").cost(5) == Cost.exponential(Fraction(2))
    assert Joint(2.0, noise="exponential").cost(5) == Cost.pure(Fraction(2))
