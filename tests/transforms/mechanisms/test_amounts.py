"""Every mechanism over sums of amounts: its law at epsilon over the cap, and what that tells of one user.

A law is that of the mechanism over users, at counts in units of the cap: what its own test states, at fractions.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from private_topk.transforms.mechanisms import (
    About,
    Guarantee,
    Joint,
    Laplace,
    Mechanism,
    RandomBits,
    Restricted,
    parameters_of,
    publish_counts,
)
from private_topk.transforms.mechanisms.restricted import RestrictedMechanism
from tests.laws import check_neighbours
from tests.laws.checks import check_pair
from tests.refusals import refused
from tests.transforms.mechanisms.stated import CAP, PUBLIC, UNKNOWN, law_of, mechanism_of


@pytest.mark.parametrize("name", [*PUBLIC, *UNKNOWN])
def test_draws_are_those_of_counts_of_users(name: str) -> None:
    """Bit by bit. Noise is a real number: a cap of 60 on 60 times the counts is the same comparison. Others draw from
    the same counts at epsilon over the cap.
    """
    counts, times, epsilon, cap = np.random.default_rng(5).integers(0, 500, 300), 60, 2.0, 60
    if name in ("joint", "fast-joint", "joint-set", "canonical", "gamma"):
        times, epsilon, cap = 1, 0.5, 4
    units, users = mechanism_of(name, cap=cap), mechanism_of(name, cap=1, epsilon=epsilon)
    for n in range(10):
        one, two = (RandomBits.keyed(b"%d" % n) for _ in range(2))
        assert units(times * counts, 2, one).tolist() == users(counts, 2, two).tolist()


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", PUBLIC)
def test_neighbours_by_amounts_stay_within_the_stated_cost(name: str, relation: str) -> None:
    """Of users who add anything up to the cap to every item: no proof leans on counts that move by 0 or 1."""
    cap = CAP if relation == "add-remove" else 2
    mechanism = mechanism_of(name, relation, cap)
    met = check_neighbours(mechanism, lambda counts, k: law_of(name, mechanism, counts, k), [(4, 3, 1), (5, 0)], (1, 2))
    assert mechanism.cost(1).delta or met > 0.4


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_neighbours_by_amounts_stay_within_the_cost_in_an_unknown_domain(name: str, relation: str) -> None:
    """A count of 0 is an item that does not exist. Among the moves are those of levels in both directions at once."""
    cap = CAP if relation == "add-remove" else 2
    mechanism, worst = mechanism_of(name, relation, cap), 0.0
    law = cache(lambda counts: law_of(name, mechanism, counts, 2))
    for counts in ((4, 3, 1), (3, 3, 0)):
        for moved in _reachable(mechanism, counts):
            worst = max(worst, check_pair(mechanism.cost(2), law(counts), law(moved)))
    assert worst > 0


def _reachable(mechanism: Mechanism, counts: tuple[int, ...]) -> list[tuple[int, ...]]:
    """What a user of at most two items makes of counts, or one replaced."""
    cap, bound = mechanism.cap, mechanism.parameter("max_items_per_user") or len(counts)
    one = [m for m in itertools.product(range(cap + 1), repeat=len(counts)) if np.count_nonzero(m) <= bound]
    if mechanism.parameter("neighbours") == "replace-one":
        moves = {tuple(a - b for a, b in zip(up, down, strict=True)) for up in one for down in one}
    else:
        moves = {*one, *(tuple(-move for move in user) for user in one)}
    found = {tuple(c + m for c, m in zip(counts, move, strict=True)) for move in moves}
    return sorted(moved for moved in found if min(moved) >= 0 and moved != counts)


@pytest.mark.parametrize("name", [*PUBLIC, *UNKNOWN])
def test_large_caps_and_sums_are_drawn_from(name: str) -> None:
    """A cap of 2**30 units, sums up to 2**62: the obvious winners win, and k distinct items come."""
    counts = np.array([2**62, 2**61, *range(2**40, 2**40 + 50)])
    mechanism = mechanism_of(name, cap=2**30, epsilon=1.0, delta=1e-6, kbar=20)
    answer = mechanism(counts, 10, RandomBits.keyed(b"large"))
    assert len(set(answer.tolist())) == len(answer) >= (10 if name in PUBLIC else 1)
    assert {0, 1} >= set(answer.tolist()[: min(2, len(answer))])


def test_the_cap_is_a_parameter_that_is_left_out_where_users_are_counted() -> None:
    """Seeds of rankings by users are what they were."""
    assert "cap" not in Joint(1.0).parameters() and Joint(1.0, cap=60).parameters()["cap"] == 60
    assert "cap" not in parameters_of(Joint), "it follows from what is counted, and is never given"
    assert Joint(1.0, cap=60) != Joint(1.0) and replace(Joint(1.0, cap=60), cap=1) == Joint(1.0)
    for cap in (0, -1, 1.5, True, "2"):
        with refused("cap", "must be a whole number of at least 1"):
            Joint(1.0, cap=cap)


def test_the_mechanism_inside_a_framework_has_the_same_cap() -> None:
    made = Restricted(Laplace(1.0), 1.0, 0.1, cap=60)
    assert made.mechanism.cap == 60 and replace(made, cap=1).mechanism.cap == 1
    named = [mechanism_of(name, "replace-one", 60) for name in UNKNOWN]
    inside = [its.inner(3) for its in named if isinstance(its, RestrictedMechanism)]
    assert len(inside) == 4 and {(its.cap, its.parameter("neighbours")) for its in inside} == {(60, "replace-one")}


@dataclass(frozen=True)
class Silent(Mechanism):
    """Says nothing of amounts, though what it inherits does."""

    about: ClassVar[About] = replace(Joint.about, name="silent")
    guarantee: ClassVar[Guarantee] = Guarantee("pure", "public", "sequence")
    epsilon: float = 1.0

    def select(self, histogram: Any, k: int, draw: Any) -> Any:  # noqa: ANN401
        raise NotImplementedError


def test_a_mechanism_without_support_for_amounts_is_refused() -> None:
    with refused("mechanism", "silent does not rank amounts:"):
        replace(Silent(), cap=2)
    inheriting = dataclass(frozen=True)(type("Own", (Laplace,), {"about": replace(Laplace.about, name="own")}))
    with refused("mechanism", "Own must state what is proved of its own draws"):
        inheriting(1.0)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_published_sums_have_noise_in_proportion_to_the_cap(delta: float | None) -> None:
    """Four thousand noises: the spread is the cap times that over counts of users, within 5%."""
    counts, chosen = np.full(4_000, 10**9), np.arange(4_000)
    users, units = (
        publish_counts(counts, chosen, RandomBits.keyed(b"spread"), 1.0, delta, 3, cap=cap) - 10**9 for cap in (1, 1000)
    )
    assert np.std(units) == pytest.approx(1000 * np.std(users), rel=0.05)
