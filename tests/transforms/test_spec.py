"""The specification of a ranking: what it refuses, what it is known by, and the noisy counts that it draws."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from private_topk.pipelines.release.identity import identity_of
from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.groups import Groups
from private_topk.transforms.mechanisms import (
    Joint,
    Laplace,
    LimitDomain,
    Restricted,
    WeightedGaussian,
    noise_of_counts,
)
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.noisy_counts import CountBudget
from private_topk.transforms.metric import USERS, Amounts
from private_topk.transforms.release import Release, ReleaseKey
from private_topk.transforms.spec import DrawnRanks, TopK
from private_topk.transforms.top_k import PrivateTopK
from tests.transforms.mechanisms.own import Namesake

COUNTS = np.array([900, 700, 500, 300, 100])
PLAIN = TopK(3, Joint(epsilon=9.0), PublicDomain.of(list("abcde")), None, CountBudget(0.5))
WEIGHTED = WeightedGaussian(epsilon=1.0, delta=1e-6, max_items_per_user=5)
RELEASE = Release(ReleaseKey.for_tests(), "one")


def draw(spec: TopK, counts: np.ndarray = COUNTS, release: Release = RELEASE) -> DrawnRanks:
    return spec.draw(Histogram.of(counts), counts.tobytes(), "all", release)


@pytest.mark.parametrize("step", [2, 5, 10, 250, 10**6])
def test_rounding_is_of_the_same_draw_and_within_what_is_said(step: int) -> None:
    plain, rounded = draw(PLAIN), draw(replace(PLAIN, publish_counts=CountBudget(0.5, round_to=step)))
    assert plain.noisy_counts is not None and rounded.noisy_counts is not None
    assert (plain.ranks == rounded.ranks).all() and not np.any(np.array(rounded.noisy_counts) % step)
    assert np.abs(np.subtract(rounded.noisy_counts, plain.noisy_counts)).max() <= step // 2
    assert plain.noise is not None
    assert rounded.noise == plain.noise._replace(within_95=plain.noise.within_95 + step // 2)


def test_the_stated_noise_does_not_depend_on_counts() -> None:
    assert draw(PLAIN).noise == draw(PLAIN, COUNTS[::-1].copy()).noise == PLAIN.noise(3)
    assert draw(replace(PLAIN, publish_counts=None)).noise is None
    bounded = replace(PLAIN, max_items_per_user=1, mechanism=Joint(epsilon=9.0, neighbours="replace-one"))
    stated = draw(bounded).noise
    assert stated is not None and stated.stddev == noise_of_counts(3, 0.5, None, 1, "replace-one").stddev()
    assert stated.stddev > noise_of_counts(3, 0.5, None, 1).stddev()


def test_noise_is_that_of_the_counts_that_are_published() -> None:
    hidden = replace(PLAIN, mechanism=LimitDomain(epsilon=5.0, delta=1e-3), domain=UnknownDomain())
    seen = {}
    for scale in (0, 1, 100):
        draws = draw(hidden, np.arange(5, 0, -1) * scale)
        assert draws.noisy_counts is not None and len(draws.noisy_counts) == len(draws.ranks)
        seen[len(draws.ranks)] = draws.noise and draws.noise.stddev
    assert seen[0] is None and seen[3] == noise_of_counts(3, 0.5).stddev()


def test_counts_are_off_by_as_much_as_is_said() -> None:
    """Under a given key: the three noises of a release go together, so that one key in 2,000 would miss the bound."""
    off = []
    for number in range(400):
        draws = draw(PLAIN, release=replace(RELEASE, id=f"release {number}"))
        assert draws.noisy_counts is not None and draws.noise is not None
        off += (np.abs(np.subtract(draws.noisy_counts, COUNTS[draws.ranks])) <= draws.noise.within_95).tolist()
    assert np.mean(off) > 0.93, "1,200 counts in 400 releases: 0.954 less more than 3 standard deviations"


CHANGES: dict[str, dict[str, Any]] = {
    "k": {"k": 2},
    "mechanism": {"mechanism": Joint(epsilon=8.0)},
    "domain": {"domain": PublicDomain.of(list("edcba"))},
    "max_items_per_user": {"max_items_per_user": 2},
    "publish_counts": {"publish_counts": CountBudget(0.25)},
    "score": {"score": Amounts(60)},
    "groups": {"groups": Groups.of(["a"])},
    "max_windows_per_user": {"max_windows_per_user": 2},
}


def test_every_field_is_part_of_the_seed_and_of_the_ledger() -> None:
    assert CHANGES.keys() == {field.name for field in fields(TopK)}
    specs = [PLAIN, replace(PLAIN, publish_counts=None), *(replace(PLAIN, **change) for change in CHANGES.values())]
    for known in (lambda spec: spec.parameters(), identity_of):
        assert len({json.dumps(known(spec), sort_keys=True) for spec in specs}) == len(specs)


def test_numbers_of_any_kind_and_what_may_stand_for_a_domain_are_one_specification() -> None:
    """The release's seed is made of them as JSON, which knows no numpy and tells 1 from 1.0."""
    kinds: list[Any] = [int, float, np.int64, np.uint8]
    specs = [
        TopK(2 if one is float else one(2), Joint(one(1)), PublicDomain.of(list("abc")), 3, CountBudget(one(1)))
        for one in kinds
    ]
    # A set has another order in every process, and an answer hangs on the order.
    listed: list[Any] = [{"b", "c", "a"}, np.array(["a", "b", "c"]), pa.chunked_array([["a"], ["b", "c"]])]
    specs += [TopK(2, Joint(1.0), items, 3, 1.0) for items in listed]
    assert len({json.dumps(spec.parameters()) for spec in specs}) == 1 and len(set(specs)) == 1


def test_bounds_and_caps_of_the_mechanism_are_taken_over() -> None:
    restricted = Restricted(Laplace(1.0, max_items_per_user=2), 1.0, 1e-3)
    assert TopK(3, restricted, UnknownDomain()).max_items_per_user == 2
    spec = TopK(3, WEIGHTED, UnknownDomain())
    assert (spec.head(), spec.added_up.least) == (None, WEIGHTED.tau() + 1)
    assert [replace(PLAIN, score=score).mechanism.cap for score in (USERS, Amounts(60, 2))] == [1, 30]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CountBudget(1.0, round_to=0), "round_counts must be a whole number of at least 1"),
        (lambda: CountBudget(1.0, round_to=2.5), "round_counts must be a whole number of at least 1"),
        (lambda: CountBudget(1.0, round_to=True), "round_counts must be a whole number of at least 1"),
        (
            lambda: TopK(3, WEIGHTED, UnknownDomain(), publish_counts=CountBudget(1.0)),
            "publish_counts does not go with weighted-gaussian, which adds up weights",
        ),
        (lambda: TopK(3, WEIGHTED, UnknownDomain(), score=Amounts(60)), "adds up weights of users, and no amo"),
        (
            lambda: TopK(3, WEIGHTED, UnknownDomain(), max_items_per_user=50),
            "max_items_per_user must be the mechanism's own bound, got 50 and 5",
        ),
        (
            lambda: replace(PLAIN, score=Amounts(60), publish_counts=CountBudget(1.0, round_to=5)),
            "round_counts does not go with value_column",
        ),
        (
            lambda: PrivateTopK(3, Namesake(1.0), list("abcde")),
            "mechanism Namesake must have a name of its own: joint is a built-in one's: give its `about` another name",
        ),
    ],
)
def test_options_that_exclude_each_other_are_refused(make: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidArgument, match=message):
        make()
