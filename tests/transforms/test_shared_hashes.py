"""What it costs that two users may share a hash: all keys of a small family of hashes, with the laws of rankings by
group, against the delta that a manifest states for each other user."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from private_topk.pipelines.question import Question
from private_topk.pipelines.release.describe import manifest_of
from private_topk.transforms import Groups, Period, RangeDomain, ReleaseKey
from private_topk.transforms.columnar import make_table
from private_topk.transforms.mechanisms import Peeling
from private_topk.transforms.plan import Partitioning
from private_topk.transforms.release import Release
from private_topk.transforms.spec import TopK
from private_topk.transforms.user_shards import UserShard

HASHES = 31
"""Labels x have the hash a x modulo a prime: any two labels share one under one a of so many."""
ITEMS, FEW, MANY = 10**12, 10, 10**4
EPSILON = math.log(ITEMS)
RELEASE = Release(ReleaseKey.held(b"shared hashes".ljust(32, b".")), "r")
NEWCOMER, OTHER = 0, 1


def stated(neighbours: str = "add-remove", **bounds: object) -> float:
    """The delta for each other user, in units of the probability that two users share a hash."""
    spec = TopK(1, Peeling(EPSILON, neighbours), RangeDomain(0, ITEMS), **bounds)
    asked = Question(spec, period=Period.of("2026-01-01", "2026-01-05", "1d"), release=RELEASE, privacy_unit="user")
    found = manifest_of(asked).delta_of_a_shared_hash
    assert found is not None
    return found * 2**64


def held(users: tuple[int, ...], multiplier: int) -> tuple[int, int]:
    """How many items count in the newcomer's group and in the other's, by the code that bounds contributions."""
    spec = TopK(1, Peeling(EPSILON), RangeDomain(0, ITEMS), groups=Groups.of(["newcomer's", "other's"]))
    layout = Partitioning.of(spec.domain, groups=2)
    own = {NEWCOMER: (np.arange(FEW), 10**9), OTHER: (np.arange(FEW, FEW + MANY), 1)}
    tables = [
        make_table(
            user=np.full(len(items), multiplier * user % HASHES, np.uint64),
            item=items.astype(layout.code_type),
            group=np.full(len(items), user),
            rows=np.full(len(items), rows, np.uint32),
        )
        for user, (items, rows) in own.items()
        if user in users
    ]
    found: defaultdict[int, int] = defaultdict(int)
    for _, table in UserShard.of(spec, layout, RELEASE.key).counts(tables):
        assert table["count"].to_numpy().max() == 1
        for group in (0, 1):
            found[group] += int((table["window"].to_numpy() == group).sum())
    return found[0], found[1]


def law(users: tuple[int, ...]) -> dict[tuple[bool, bool], float]:
    """Whether the first item of either group is one of that user's, over all keys: an exponential mechanism in each."""
    found: defaultdict[tuple[bool, bool], float] = defaultdict(float)
    for multiplier in range(HASHES):
        chances = []
        for theirs, counted in zip((FEW, MANY), held(users, multiplier), strict=True):
            assert counted in (0, theirs)
            weight = theirs * (math.exp(EPSILON) if counted else 1)
            chances.append(weight / (weight + ITEMS - theirs))
        for answer in itertools.product((False, True), repeat=2):
            found[answer] += math.prod(p if yes else 1 - p for p, yes in zip(chances, answer, strict=True)) / HASHES
    return found


def test_the_delta_of_a_shared_hash_is_enough_for_groups_and_half_of_it_is_not() -> None:
    """The other user, whose rows follow those of the newcomer into another group, seems to be gone."""
    here, there = law((NEWCOMER, OTHER)), law((OTHER,))
    told = max(
        sum(max(one[answer] - math.exp(EPSILON) * other[answer], 0) for answer in one)
        for one, other in ((here, there), (there, here))
    )
    assert 0.8 * stated(groups=["a", "b"]) < told * HASHES <= stated(groups=["a", "b"])


@pytest.mark.parametrize("bounds", [{"groups": ["a", "b"]}, {"max_items_per_user": 3}, {"max_windows_per_user": 2}])
def test_under_replace_one_either_user_may_share_a_hash(bounds: dict[str, object]) -> None:
    """Of hashes a x + b y, for so many pairs (a, b) one of the two, or the other, shares that of a third user."""
    keys = list(itertools.product(range(HASHES), repeat=2))
    bad = sum(a == 0 or b == 0 for a, b in keys) / len(keys)  # the labels (1, 0) and (0, 1) beside (0, 0)
    assert 0.9 * stated("replace-one", **bounds) < bad * HASHES <= stated("replace-one", **bounds)
    assert stated(**bounds) == 1 and stated() == stated("replace-one") == 0, "where nothing is bounded nothing is lost"
