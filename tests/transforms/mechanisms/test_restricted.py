"""The restricted-domain framework: its named mechanisms and the generic object."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from private_topk.transforms.mechanisms import MECHANISMS, RandomBits
from private_topk.transforms.mechanisms.laplace import Laplace
from private_topk.transforms.mechanisms.oneshot import Oneshot
from private_topk.transforms.mechanisms.pnf_peeling import PnfPeeling
from private_topk.transforms.mechanisms.restricted import ADDITIVE, Restricted
from private_topk.transforms.mechanisms.restricted_laplace import RestrictedLaplace
from private_topk.transforms.mechanisms.restricted_pnf import RestrictedPnf
from private_topk.transforms.mechanisms.weighted import UNIT
from tests.transforms.mechanisms.test_weighted_gaussian import sums

RELATIONS = ["add-remove", "swap"]


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_named_ones_are_the_framework_over_a_public_mechanism(neighbours: str) -> None:
    counts = np.array([50, 3, 80, 80, 0, 61, 12] * 30)
    pairs = [
        (RestrictedPnf(4.0, 0.1, 50, neighbours), PnfPeeling(3.0, neighbours)),
        (RestrictedLaplace(4.0, 0.1, None, 50, neighbours), Laplace(3.0, None, neighbours)),
        (RestrictedLaplace(4.0, 0.1, None, 50, neighbours), Oneshot(3.0, "laplace", neighbours)),
    ]
    for fixed, inner in pairs:
        free = Restricted(inner, 1.0, 0.1, 50)
        assert (free.epsilon, free.delta, free.neighbours) == (4, Fraction(0.1), neighbours)
        for i in range(20):
            answers = [m(counts, 5, RandomBits.keyed(b"%d" % i)).tolist() for m in (fixed, free)]
            assert answers[0] == answers[1]


def test_the_bound_of_the_mechanism_inside_is_the_bound_to_enforce() -> None:
    """A pipeline enforces `max_items_per_user`: left out, the noise would be too small for the counts."""
    assert Restricted(Laplace(1.0, 2), 1.0, 0.1).parameter("max_items_per_user") == 2
    assert Restricted(PnfPeeling(1.0), 1.0, 0.1).parameter("max_items_per_user") is None
    inner = [Laplace(1.0, 2), Oneshot(1.0)]
    seeds = {str(Restricted(mechanism, 1.0, 0.1).parameters()) for mechanism in inner}
    assert len(seeds) == 2, "the mechanism inside is a parameter"


def test_refuses_what_adds_no_noise_to_counts() -> None:
    defaults = {"delta": 1e-6, "max_items_per_user": 3, "beta": 0.1}
    for name, kind in MECHANISMS.items():
        needed = {f: v for f, v in defaults.items() if f in kind.__dataclass_fields__}
        mechanism = kind(epsilon=1.0, **needed)
        if name in ADDITIVE:
            assert Restricted(mechanism, 0.5, 1e-6).kbar_for(3) == 100
        else:
            with pytest.raises(ValueError, match=f"mechanism must add noise to counts .* got {name}: Lemma 1"):
                Restricted(mechanism, 0.5, 1e-6)


@pytest.mark.parametrize(
    ("epsilon_r", "delta_r", "message"),
    [(0, 0.1, "epsilon_r must be a positive finite number"), (1.0, 1, "delta_r must lie strictly between 0 and 1")],
)
def test_checks_the_tests_budget(epsilon_r: float, delta_r: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Restricted(PnfPeeling(1.0), epsilon_r, delta_r)


@pytest.mark.parametrize(("kbar", "whole"), [(1, 1), (2, 1), (3, 1), (3, 2)])
def test_slots_of_weights_move_one_way_and_no_further_than_their_norm(kbar: int, whole: int) -> None:
    """Sums of the weights of every user there can be beside every two others, of five items: each slot, however items
    that come and go are paired, moves by 0 to 1, and all of them by the root of `whole` together.
    """
    kinds = [user for n in (1, 2, 4) for user in itertools.combinations(range(5), n)]
    furthest = 0.0
    for others in itertools.combinations_with_replacement(kinds, 2):
        before = np.array(sums(others, 5, whole))
        old = set(np.argsort(-before, kind="stable")[:kbar].tolist())
        for user in kinds:
            after = before + np.array(sums((user,), 5, whole))
            new = set(np.argsort(-after, kind="stable")[:kbar].tolist())
            gone, come = sorted(old - new), sorted(new - old)
            assert set(come) <= set(user)
            moves = np.array([after[list(p)] - before[gone] for p in itertools.permutations(come)]) / UNIT
            still = (after - before)[sorted(old & new)] / UNIT
            assert moves.size == 0 or 0 <= moves.min() <= moves.max() <= 1
            furthest = max(furthest, float((moves**2).sum(axis=1).max() + (still**2).sum()))
    assert 0.9 * min(whole, kbar) < furthest <= whole
