"""What is drawn beside the ranking: noisy counts, their rounding, and what is said of their noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from private_topk.transforms.domain import PublicDomain, UnknownDomain
from private_topk.transforms.errors import Refusal
from private_topk.transforms.mechanisms import Joint, LimitDomain, WeightedGaussian, noise_of_counts
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.release import Release, ReleaseKey
from private_topk.transforms.spec import CountBudget, Draws, TopK, noise_size

COUNTS = np.array([900, 700, 500, 300, 100])
PLAIN = TopK(3, Joint(epsilon=9.0), PublicDomain.of("abcde"), None, CountBudget(0.5))
RELEASE = Release(ReleaseKey.for_tests(), "one")


def draw(spec: TopK, counts: np.ndarray = COUNTS, release: Release = RELEASE) -> Draws:
    return spec.draw(Histogram.of(counts), counts.tobytes(), "all", release)


def rounded_to(step: int) -> TopK:
    return replace(PLAIN, publish_counts=CountBudget(0.5, round_to=step))


@pytest.mark.parametrize("step", [2, 5, 10, 250, 10**6])
def test_rounding_is_of_the_same_draw_and_within_what_is_said(step: int) -> None:
    plain, rounded = draw(PLAIN), draw(rounded_to(step))
    assert plain.noisy_counts is not None and rounded.noisy_counts is not None
    assert (plain.ranks == rounded.ranks).all() and (rounded.noisy_counts % step == 0).all()
    assert np.abs(rounded.noisy_counts - plain.noisy_counts).max() <= step // 2
    assert plain.noise is not None and rounded.noise is not None
    assert rounded.noise.stddev == plain.noise.stddev
    assert rounded.noise.within_95 == plain.noise.within_95 + step // 2


def test_what_is_said_of_the_noise_does_not_depend_on_counts() -> None:
    assert draw(PLAIN).noise == draw(PLAIN, COUNTS[::-1].copy()).noise == noise_size(3, CountBudget(0.5))
    assert draw(replace(PLAIN, publish_counts=None)).noise is None


def test_noise_is_that_of_the_counts_that_are_published() -> None:
    hidden = replace(PLAIN, mechanism=LimitDomain(epsilon=5.0, delta=1e-3), domain=UnknownDomain())
    seen = {}
    for scale in (0, 1, 100):
        found = draw(hidden, np.arange(5, 0, -1) * scale)
        assert found.noisy_counts is not None and len(found.noisy_counts) == len(found.ranks)
        seen[len(found.ranks)] = found.noise and found.noise.stddev
    assert seen[0] is None and seen[3] == noise_of_counts(3, 0.5).stddev()


def test_counts_are_off_by_as_much_as_is_said() -> None:
    """Under a given key: the three noises of a release go together, so that one key in 2,000 would miss the bound."""
    off = []
    for number in range(400):
        found = draw(PLAIN, release=replace(RELEASE, id=f"release {number}"))
        assert found.noisy_counts is not None and found.noise is not None
        off += (np.abs(found.noisy_counts - COUNTS[found.ranks]) <= found.noise.within_95).tolist()
    assert np.mean(off) > 0.93, "1,200 counts in 400 releases: 0.954 less more than 3 standard deviations"


def test_bounds_and_neighbours_decide_as_they_do_in_the_draw() -> None:
    bounded = replace(PLAIN, max_items_per_user=1, mechanism=Joint(epsilon=9.0, neighbours="swap"))
    assert draw(bounded).noise == noise_size(3, CountBudget(0.5), 1, "swap")
    assert noise_size(3, CountBudget(0.5), 1, "swap").stddev > noise_size(3, CountBudget(0.5), 1).stddev


@pytest.mark.parametrize("step", [0, -5, 2.5, True])
def test_steps_that_are_none_are_refused(step: object) -> None:
    with pytest.raises(Refusal, match="round_counts must be a whole number of at least 1"):
        CountBudget(1.0, round_to=step)


def test_weights_are_no_counts_to_publish() -> None:
    weighted = WeightedGaussian(epsilon=1.0, delta=1e-6, max_items_per_user=5)
    spec = TopK.of(3, weighted, UnknownDomain())
    assert (spec.head(), spec.least()) == (None, weighted.tau() + 1)
    with pytest.raises(Refusal, match="publish_counts does not go with weighted-gaussian, which adds up weights"):
        TopK.of(3, weighted, UnknownDomain(), publish_counts=CountBudget(1.0))
