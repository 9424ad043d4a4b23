from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import gammainc

from private_topk.transforms.mechanisms import RandomBits
from private_topk.transforms.mechanisms.exact.noise import gamma_real
from private_topk.transforms.mechanisms.exact.reals import precision, relative_float
from tests.transforms.mechanisms.noise_laws import kolmogorov


@pytest.mark.parametrize("shape", [1, 2, 7, 1000, 10**8])
def test_the_law_is_gamma_s(shape: int) -> None:
    """Kolmogorov and Smirnov's test of 1,500 draws: false alarm 1e-6 a seed; it sees a shift by a fifth of the spread
    with power above 0.99."""
    bits = RandomBits.keyed(b"gamma")
    seen = [relative_float(gamma_real(shape, bits.draw(), 0)) for _ in range(1500)]
    assert kolmogorov(seen, partial(gammainc, shape)) > 1e-6
    shifted = np.array(seen) + 0.2 * shape**0.5
    assert kolmogorov(shifted, partial(gammainc, shape)) < 1e-6


def test_the_number_is_one_at_every_precision() -> None:
    value = gamma_real(50, RandomBits.keyed(b"one").draw(), 3)
    with precision(100):
        coarse = value()
    with precision(900):
        fine = value()
    assert coarse.contains(fine) or coarse.overlaps(fine)
    assert fine.rad() < coarse.rad() and relative_float(value) == pytest.approx(float(fine.mid()), rel=1e-14)
