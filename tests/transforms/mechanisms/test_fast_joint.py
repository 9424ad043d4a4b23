from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from private_topk.testing import (
    SMALL_COUNTS,
    assert_follows,
    check_neighbours,
    draws_to_see,
    frequencies,
    total,
)
from private_topk.transforms.mechanisms import Cost, Mechanism, RandomBits
from private_topk.transforms.mechanisms.fast_joint import FastJoint
from tests.quick import in_check, smallest
from tests.transforms.mechanisms import sequence_laws
from tests.transforms.mechanisms.contract import Contract


def tau(d: int, k: int, epsilon: float, beta: float, relation: str) -> int:
    """Theorem 4.1: ceil((2 sensitivity / epsilon) log(|C| / beta))."""
    sensitivity = {"add-remove": 1, "swap": 2}[relation]
    logarithm = sum(math.log(d - i) for i in range(k)) - math.log(beta)
    return math.ceil(2 * sensitivity / epsilon * logarithm)


def law(mechanism: FastJoint, counts: tuple[int, ...], k: int) -> dict:
    """exp(-epsilon min(loss, tau) / (2 sensitivity)), by enumeration."""
    relation = mechanism.neighbours
    cut = tau(len(counts), k, mechanism.epsilon, mechanism.beta, relation)
    # The joint loss at skew 1/2 is half of max (c_i - c_{s_i}).
    losses = {s: min(2 * x, cut) for s, x in sequence_laws.joint_losses(counts, k).items()}
    return sequence_laws.exponential_mechanism(losses, Fraction(mechanism.epsilon) / (2 if relation != "swap" else 4))


class TestFastJoint(Contract):
    mechanisms: ClassVar[list[Mechanism]] = [FastJoint(1.0), FastJoint(0.2, beta=0.5, neighbours="swap")]


@in_check("mechanism0-*", "mechanism3-*")
@pytest.mark.parametrize(
    ("mechanism", "counts", "k"),
    [
        (FastJoint(1.0), (4, 3, 1, 0), 2),  # the groups run out long before tau
        (FastJoint(2.0), (40, 8, 3, 0), 2),  # and here not
        (FastJoint(3.0, beta=0.9), (9, 9, 5, 0), 3),
        (FastJoint(4.0, beta=0.9, neighbours="swap"), (20, 6, 3, 0), 2),
    ],
)
def test_frequencies_follow_the_law(mechanism: FastJoint, counts: tuple[int, ...], k: int) -> None:
    stated = law(mechanism, counts, k)
    assert total(stated).overlaps(1)
    assert_follows(
        frequencies(mechanism, counts, k, draws_to_see(stated, smallest(0.1)), b"fast joint"),
        stated,
        smallest_error=smallest(0.1),
    )


@in_check("add-remove-1.0", "swap-0.5")
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
@pytest.mark.parametrize("relation", ["add-remove", "swap"])
def test_no_neighbour_tells_more_than_epsilon(epsilon: float, relation: str) -> None:
    mechanism = FastJoint(epsilon, beta=0.9, neighbours=relation)
    # Wide gaps, so that one user moves sequences across tau.
    grid = [*SMALL_COUNTS, (30, 22, 9, 0), (14, 10, 3, 1), (9, 5, 4, 0)]
    check_neighbours(mechanism, partial(law, mechanism), grid, ks=(1, 2, 3))


def test_nothing_repeats_when_the_groups_run_out() -> None:
    """The published code lists the lowest group again once there are no more: items repeat in its answers."""
    counts = np.array([3, 3, 2, 2, 2, 1])
    for i in range(200):
        assert sorted(FastJoint(0.1)(counts, 6, RandomBits.keyed(b"%d" % i)).tolist()) == list(range(6))


@in_check("1")
@pytest.mark.parametrize("k", [1, 2])
def test_neighbours_stay_neighbours_where_the_groups_run_out(k: int) -> None:
    """There the published code gives P = 0.705 against 0.007 on neighbours at epsilon = 1: so look at the draws too."""
    mechanism = FastJoint(1.0)
    for counts in [(2, 1, 1), (1, 1, 1)]:
        stated = law(mechanism, counts, k)
        least = smallest(0.12)
        assert_follows(frequencies(mechanism, counts, k, draws_to_see(stated, least), b"run out"), stated, least)


@pytest.mark.parametrize(("d", "k"), [(1, 1), (5, 2), (1000, 10), (166_049, 200)])
def test_tau(d: int, k: int) -> None:
    for epsilon in (0.1, 1.0, 3.0):
        for relation in ("add-remove", "swap"):
            for beta in (2.0**-10, 0.3):
                assert FastJoint(epsilon, beta, relation).tau(d, k) == tau(d, k, epsilon, beta, relation)


def test_the_loss_reaches_tau_with_probability_at_most_beta() -> None:
    for counts in [(40, 8, 3, 0), (90, 89, 88, 0)]:
        mechanism = FastJoint(1.0, beta=0.25)
        losses = sequence_laws.joint_losses(counts, 2)
        far = [s for s, x in losses.items() if 2 * x >= mechanism.tau(4, 2)]
        stated = law(mechanism, counts, 2)
        assert far and sum(float(stated[s]) for s in far) <= 0.25


def test_is_joint_where_nothing_reaches_tau() -> None:
    counts = (9, 3, 3, 1, 0)
    assert FastJoint(0.5).tau(5, 2) > 9
    joint = sequence_laws.exponential_mechanism(sequence_laws.joint_losses(counts, 2), 0.5)
    assert_follows(
        frequencies(FastJoint(0.5), counts, 2, draws_to_see(joint, smallest(0.1)), b"as joint"),
        joint,
        smallest_error=smallest(0.1),
    )


@pytest.mark.parametrize("beta", [0, 1, 1.5, -0.1, "small"])
def test_beta_is_a_probability(beta: object) -> None:
    with pytest.raises(ValueError, match="beta must lie strictly between 0 and 1"):
        FastJoint(1.0, beta=beta)


def test_cost() -> None:
    assert FastJoint(2.0).cost(7) == Cost.exponential(Fraction(2))
