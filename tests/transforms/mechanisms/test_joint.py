from __future__ import annotations

import math
import os
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from private_topk.testing import (
    SMALL_COUNTS,
    assert_follows,
    check_neighbours,
    draws_to_see,
    frequencies,
    max_log_ratio,
    neighbours,
    total,
)
from private_topk.transforms.mechanisms import Cost, Mechanism, RandomBits
from private_topk.transforms.mechanisms.joint import Joint
from tests.quick import few, in_check, smallest
from tests.transforms.mechanisms import sequence_laws
from tests.transforms.mechanisms.contract import Contract

SHARED = Path(os.environ.get("PRIVATE_TOPK_SHARED", Path(__file__).resolve().parents[3].parent / "shared"))
HALF, FIVE_NINTHS, THREE_QUARTERS, ONE = Fraction(1, 2), Fraction(5, 9), Fraction(3, 4), Fraction(1)
LAWS = {"gumbel": sequence_laws.exponential_mechanism, "exponential": sequence_laws.permute_and_flip}


def law(mechanism: Joint, counts: tuple[int, ...], k: int) -> dict:
    """The law the docstring states, by enumeration."""
    width = {"add-remove": 1, "swap": 2}[mechanism.neighbours]
    losses = sequence_laws.joint_losses(counts, k, mechanism.skew)
    return LAWS[mechanism.noise](losses, Fraction(mechanism.epsilon) / width)


class TestJoint(Contract):
    mechanisms: ClassVar[list[Mechanism]] = [
        Joint(1.0),
        Joint(0.5, noise="exponential"),
        Joint(2, skew=FIVE_NINTHS),
        Joint(0.1, skew=0.75, noise="exponential", neighbours="swap"),
        Joint(1.0, skew=1, neighbours="swap"),
    ]


@in_check("*-add-remove-gumbel", "*-swap-exponential")
@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
@pytest.mark.parametrize(
    ("counts", "k", "epsilon", "skew", "relation"),
    few(
        [
            ((4, 3, 1, 0), 2, 1.0, HALF, "add-remove"),
            ((5, 3, 3, 0), 3, 0.5, HALF, "swap"),
            ((6, 3, 3, 4), 2, 3.0, FIVE_NINTHS, "add-remove"),
            ((1, 5, 3, 2), 2, 0.7, ONE, "add-remove"),
            ((2**62, 2**62 - 3, 2**62 - 1, 0), 2, 1.0, THREE_QUARTERS, "swap"),
        ],
        [0, 4],
    ),
)
def test_frequencies_follow_the_law(
    noise: str, counts: tuple[int, ...], k: int, epsilon: float, skew: Fraction, relation: str
) -> None:
    mechanism = Joint(epsilon, skew, noise, relation)
    stated = law(mechanism, counts, k)
    assert total(stated).overlaps(1) and float(total(stated).rad()) < 1e-9
    draws = draws_to_see(stated, smallest(0.1))
    assert_follows(frequencies(mechanism, counts, k, draws, b"joint"), stated, smallest_error=smallest(0.1))


@in_check("add-remove-*", "swap-skew1-1.0")
@pytest.mark.parametrize("epsilon", few([1.0, 0.3, 4.0]))
@pytest.mark.parametrize("skew", [HALF, FIVE_NINTHS, THREE_QUARTERS, ONE])
@pytest.mark.parametrize("relation", ["add-remove", "swap"])
def test_no_neighbour_tells_more_than_epsilon(epsilon: float, skew: Fraction, relation: str) -> None:
    mechanism = Joint(epsilon, skew, neighbours=relation)
    check_neighbours(mechanism, partial(law, mechanism), ks=(1, 2, 3))


@in_check("add-remove-*", "swap-skew2")
@pytest.mark.parametrize("skew", [HALF, THREE_QUARTERS, ONE])
@pytest.mark.parametrize("relation", ["add-remove", "swap"])
def test_no_neighbour_tells_more_than_epsilon_by_permute_and_flip(skew: Fraction, relation: str) -> None:
    mechanism = Joint(1.0, skew, "exponential", relation)
    check_neighbours(mechanism, partial(law, mechanism), SMALL_COUNTS[:-1], ks=(1, 2, 3))


@in_check("skew3")
@pytest.mark.parametrize("skew", [HALF, FIVE_NINTHS, THREE_QUARTERS, ONE])
def test_swaps_need_their_factor_two_and_add_remove_wastes_nothing(skew: Fraction) -> None:
    assert _worst_ratio(Joint(4.0, skew), "swap") > 4.5
    assert _worst_ratio(Joint(4.0, skew), "add-remove") > 3.0


def _worst_ratio(mechanism: Joint, relation: str) -> float:
    """The largest |log P - log P'| over the grid of small counts, all their neighbours, and k up to 3."""
    worst = 0.0
    for counts in SMALL_COUNTS:
        for k in range(1, min(3, len(counts)) + 1):
            mine = law(mechanism, counts, k)
            others = (law(mechanism, other, k) for other in neighbours(counts, relation))
            worst = max(worst, *(max_log_ratio(mine, other) for other in others))
    return worst


def test_permute_and_flip_loses_no_more_in_expectation() -> None:
    for counts in SMALL_COUNTS[1:]:
        for skew in (HALF, THREE_QUARTERS):
            losses = sequence_laws.joint_losses(counts, 2, skew)
            gumbel, flips = (sequence_laws.expected_loss(losses, LAWS[noise](losses, 0.5)) for noise in LAWS)
            assert flips <= gumbel + 1e-12


def test_permute_and_flip_has_no_limit_on_the_number_of_sequences() -> None:
    counts = np.arange(50_000) // 10  # k log d = 2164: exp of it overflows doubles
    for epsilon in (0.01, 1.0, 100.0):
        answer = Joint(epsilon, noise="exponential")(counts, 200, RandomBits.keyed(b"many"))
        assert len(set(answer.tolist())) == 200


def test_relabelling_the_items_relabels_the_law() -> None:
    mechanism = Joint(1.0, THREE_QUARTERS)
    stated = law(mechanism, (0, 4, 1, 3), 2)
    draws = draws_to_see(stated, smallest(0.1))
    assert_follows(frequencies(mechanism, (0, 4, 1, 3), 2, draws, b"relabelled"), stated, smallest_error=smallest(0.1))


def test_unsigned_counts_do_not_wrap() -> None:
    """The published code subtracts counts in their own type."""
    counts = np.array([250, 5, 249, 0, 251], np.uint8)
    for noise in ("gumbel", "exponential"):
        mechanism = Joint(0.05, THREE_QUARTERS, noise)
        wide = [mechanism(counts.astype(np.int64), 3, RandomBits.keyed(b"%d" % i)).tolist() for i in range(50)]
        assert [mechanism(counts, 3, RandomBits.keyed(b"%d" % i)).tolist() for i in range(50)] == wide


def test_the_answer_of_a_key_never_changes() -> None:
    """Pinned: a release repeated on another machine, has to repeat its answer."""
    counts = (np.arange(1, 2001) * 7919 % 2003) ** 2 // 1000
    answers = {
        mechanism: mechanism(counts, 6, RandomBits.keyed(b"pinned")).tolist()
        for mechanism in (Joint(0.1), Joint(0.1, 0.75), Joint(0.1, noise="exponential"), Joint(1e-4, neighbours="swap"))
    }
    assert list(answers.values()) == PINNED


PINNED = [
    [236, 430, 1593, 1313, 1787, 667],
    [1679, 473, 1916, 1636, 710, 1873],
    [236, 430, 1593, 1313, 1787, 667],
    [609, 241, 1801, 1540, 1754, 1032],
]


@in_check("games-*", "gowalla-50-skew6-*")
@pytest.mark.parametrize(
    ("data", "k", "skew", "errors"),
    [
        ("foods_synth", 100, HALF, (570, 9694, 127)),
        ("games", 100, HALF, (393, 25478, 213)),
        ("patent", 100, HALF, (609, 9596, 144)),
        ("hepth", 100, HALF, (411, 30211, 352)),
        ("foods_synth", 100, FIVE_NINTHS, (None, None, 24)),
        ("gowalla", 50, HALF, (None, 23682, 500)),
        ("gowalla", 50, THREE_QUARTERS, (None, 11152, 8)),
    ],
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
