from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.exact.noise import NOISES, of_exponential
from private_topk.transforms.mechanisms.exact.noisy_ranks import (
    _ERROR,
    _FLOATS,
    noisy_ranks,
    normal_quantile,
)
from private_topk.transforms.mechanisms.exact.reals import precision


@pytest.mark.parametrize("noise", NOISES)
def test_floats_are_within_their_error_of_the_quantile(noise: str) -> None:
    for a in [*np.geomspace(1e-12, 250, 400).tolist(), 0.69314, 0.69315]:
        with precision(700):
            exact = [float(of_exponential(noise)(arb(a) * (1 + arb(shift) * arb(2) ** -31)).mid()) for shift in (-1, 1)]
        found = float(_FLOATS[noise](np.array([a]))[0])
        assert all(abs(found - value) <= _ERROR * (1 + a) / 2 for value in exact), a


def test_the_normal_quantile_all_along() -> None:
    tails = np.concatenate([np.linspace(np.log(2), 4, 500), np.geomspace(4, 360, 500)])
    before, ctx.prec = ctx.prec, 700
    exact = [float((arb(2).sqrt() * (2 * (-arb(tail)).exp()).erfcinv()).mid()) for tail in tails.tolist()]
    ctx.prec = before
    assert np.abs(normal_quantile(tails) - exact).max() < 2.0**-40


def test_absurd_scales() -> None:
    counts = np.array([2**62, 2**62 - 1, 7, 0, 0])
    for scale in (Fraction(1, 10**300), Fraction(10**300)):
        answer = noisy_ranks(Histogram.of(counts), scale, "laplace", 3, RandomBits.keyed(b"absurd").draw())
        assert len(set(answer.tolist())) == 3
        assert scale > 1 or answer[:3].tolist() == [0, 1, 2]
