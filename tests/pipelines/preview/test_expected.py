"""Shapes of counts: what is stated of each is so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from private_topk.pipelines.preview import InAmounts, PublicCounts, Reaches, Released
from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.metric import Amounts
from tests.pipelines.shapes import zipf


def test_counts_of_zipf_equal_its_formula() -> None:
    """All counts by the formula, w found here by Newton's method instead."""
    popularity, w = np.arange(1.0, 501) ** -1.2, 1.0
    for _ in range(100):
        held = np.exp(-popularity * w)
        w -= ((1 - held).sum() - 7) / (popularity * held).sum()
    counts = np.floor(3000 * (1 - np.exp(-popularity * w)) + 0.5)
    assert zipf(1.2, 500, 3000, 7).histogram(None, False).counts().tolist() == counts.tolist()
    kept = np.floor(3000 * (1 - np.exp(-popularity * w)) * 2 / 7 + 0.5)
    assert zipf(1.2, 500, 3000, 7).histogram(2, False).counts().tolist() == kept.tolist()
    assert zipf(1.2, 500, 3000, 7).histogram(8, False).counts().tolist() == counts.tolist()


def test_a_large_domain_is_as_a_small_one_at_the_top() -> None:
    """Stretches of ranks stand for single ones: the same counts as when every rank is looked at."""
    shape = zipf(1.3, 30_000, 10**6, 5)
    popularity = np.arange(1.0, 30_001) ** -1.3
    low, high = 0.0, 1e6
    for _ in range(200):
        w = (low + high) / 2
        low, high = (w, high) if (1 - np.exp(-popularity * w)).sum() < 5 else (low, w)
    every = np.floor(10**6 * (1 - np.exp(-popularity * w)) + 0.5)
    found = shape.histogram(None, False).counts()
    assert (np.abs(found[:1000] - every[:1000]) <= 1).all()
    assert np.abs(found - every).max() <= 2


@pytest.mark.parametrize("reaches", [{1: 0.04, 50: 0.005}, {1: 0.2, 10: 0.01}, {1: 0.02, 1000: 0.001}])
def test_bent_curves_keep_both_reaches_at_half_and_twice_the_steepness(reaches: dict[int, float]) -> None:
    users, (_, last) = 10**12, reaches

    def steepness(shape: Reaches) -> float:
        counts = shape.histogram(None, False).counts()
        for rank, reach in reaches.items():
            assert counts[rank - 1] / users == pytest.approx(reach, rel=1e-6)
        weights = -np.log1p(-counts[[last - 2, last]] / users)
        return float(np.log(weights[0] / weights[1]) / np.log((last + 1) / (last - 1)))

    shape = Reaches(reaches, 3000, users)
    flat, steep = shape.bent()
    assert steepness(flat) == pytest.approx(steepness(shape) / 2, rel=0.01)
    assert steepness(steep) == pytest.approx(steepness(shape) * 2, rel=0.01)
    assert all(one.users == 5 for one in shape.in_groups([5])["1: 5 users"].bent())


def test_curves_of_close_ranks_are_bent_up_to_an_exponential() -> None:
    """Two neighbouring ranks allow no curve of twice the steepness: what is nearest to it is an exponential."""
    _, steep = Reaches({1: 0.1, 2: 0.05}, 30, 10**9).bent()
    counts = steep.histogram(None, False).counts()
    assert counts[:2].tolist() == [10**8, 5 * 10**7] and (counts[4:14] < counts[:10] / 16).all()
    flat, _ = Reaches({10: 0.1, 20: 0.05}, 30, 10**9).bent()
    counts = flat.histogram(None, False).counts()
    assert [counts[9], counts[19]] == [10**8, 5 * 10**7] and counts[0] > counts[1] > counts[2]


def test_a_shape_of_an_unknown_domain_has_no_counts_of_0() -> None:
    assert zipf(2, 1000, 50, 2).histogram(None, False).smallest == 0
    assert zipf(2, 1000, 50, 2).histogram(None, True).smallest == 1
    assert PublicCounts([3, 0, 1]).histogram(None, True).counts().tolist() == [3, 1]
    assert PublicCounts([0, 0]).histogram(None, True).items == 2


def test_noisy_counts_that_rise_are_pooled() -> None:
    released = Released([100, 60, 80, 70, 20], items=5)
    assert released.histogram(None, False).counts().tolist() == [100, 71, 70, 69, 20]
    as_a_set = Released([20, 60, 80, 70, 100], items=5, ranked=False)
    assert as_a_set.histogram(None, False).counts().tolist() == [100, 80, 70, 60, 20]
    assert Released([10, -5], items=2).histogram(None, False).counts().tolist() == [10, 0]
    sums = InAmounts(replace(released, noisy_counts=[10, 6, 8, 7, 2]), Amounts(3, "0.1"))
    assert sums.histogram(None, False).counts().tolist() == [100, 71, 70, 69, 20], "a unit apart, whatever it is worth"


@pytest.mark.parametrize("column", [pd.Series, pl.Series, np.array, pa.array])
def test_columns_of_counts_are_counts(column: Callable[[list[int]], Any]) -> None:
    released = Released(column([9, 7, 4]), items=5)
    assert released.summary() == Released([9, 7, 4], items=5).summary() and released == Released([9, 7, 4], items=5)
    assert PublicCounts(column([9, 7, 4])).summary() == PublicCounts([9, 7, 4]).summary()
    with pytest.raises(TypeError, match="counts must be integers, got dtype float64: cast them if they are whole"):
        PublicCounts(column([3.0, 2.0]))
    with pytest.raises(InvalidArgument, match="noisy_counts must be numbers, got .*: give those of one ranking"):
        Released(column(["a", "b"]))


def test_unpublished_counts_continue_the_decline_of_published_ones() -> None:
    """Counts that fall as 1000 / rank go on doing so."""
    released = Released([1000, 500, 333, 250, 200], items=100)
    counts = released.histogram(None, False).counts()
    assert len(counts) == 100
    assert np.abs(counts - 1000 / np.arange(1, 101)).max() <= 2
    assert Released([1000, 500, 333, 250, 200]).histogram(None, True).smallest == 1
    assert Released([50], items=10).histogram(None, False).counts()[:4].tolist() == [50, 25, 17, 13]
    assert "5 noisy counts" in released.summary() and "rank^1.00" in released.summary()


def test_beyond_published_counts_others_fall_half_and_twice_as_steeply() -> None:
    released = Released([10**6, 500_000, 333_333, 250_000, 200_000], items=100)
    for one, power in zip(released.bent(), (0.5, 2), strict=True):
        counts = one.histogram(None, False).counts()
        assert counts[:5].tolist() == released.histogram(None, False).counts()[:5].tolist()
        assert counts[19] == pytest.approx(200_000 * 4**-power, rel=0.01)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Reaches({1: 0.2, 5: 0.1}, 0, 10), "items"),
        (lambda: Reaches({1: 0.2, 5: 0.1}, 10, 0), "users"),
        (lambda: Reaches({1: 0.2, 50: 0.1}, 10, 10), "reaches"),
        (lambda: Reaches({1: 0.2, 5: 0.1}, "10", 10), "items"),
        (lambda: Reaches({1: 0.2, 5: 0.1}, 10, 9.5), "users"),
        (lambda: Reaches([0.2, 0.1], 10, 10), "reaches"),
        (lambda: Released([9, 7], items="10"), "items"),
        (lambda: Released([Released([9, 7])]), "noisy_counts"),
        (lambda: Released(5), "noisy_counts"),
        (lambda: Released([]), "like"),
        (lambda: PublicCounts([1, -1]), "counts"),
    ],
)
def test_numbers_that_break_their_rule(make: object, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        make()
    assert refused.value.field == field
