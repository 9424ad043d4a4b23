"""Powers of q = exp(-rate), rounded up and the same on every machine: what the weights of envelopes are made of."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import fmpz

from private_topk.transforms.mechanisms.exact.scaled import LOG2_E, Magnitudes

__all__ = ["Powers", "below_powers_of_two"]

_PARTS = 256


def below_powers_of_two(bits: int) -> list[int]:
    """The whole numbers next below 2**(bits - i / 256), or equal to it, for i = 0 .. 255. Cost: 3 ms.

    Eight square roots, each rounded down, are the 256th root rounded down: n <= sqrt(x) says as much of a whole n as
    n <= floor(sqrt(x)) does.
    """
    found = []
    for i in range(_PARTS):
        root = fmpz(1) << (_PARTS * bits - i)
        for _ in range(_PARTS.bit_length() - 1):
            root = root.isqrt()
        found.append(int(root))
    return found


_ROOTS = np.array([float((root >> 12) + 1) * 2.0**-52 for root in below_powers_of_two(64)])
"""Just above 2**(-i / 256)."""

_LEAST = -(1 << 40)  # exponents below it are rounded up to it
_SMALL = 2.0**-4


class Powers:
    """Of q = exp(-rate), a positive rational rate."""

    def __init__(self, rate: Fraction) -> None:
        steps = _PARTS * LOG2_E * rate
        self._rate, self._steps = (rate.numerator, rate.denominator), (steps.numerator, steps.denominator)
        self._long = int(64 / rate)

    def falling(self, exponents: Sequence[int]) -> Magnitudes:
        """q**x for each x >= 0, rounded up by at most 0.3 percent."""
        numerator, denominator = self._steps
        steps = np.array([min(x * numerator // denominator, -_PARTS * _LEAST) for x in exponents], np.int64)
        return Magnitudes.of(_ROOTS[steps % _PARTS], -(steps // _PARTS))

    def widths(self, starts: Sequence[int], stops: Sequence[int | None]) -> Magnitudes:
        """1 - q**(stop - start) for each, rounded up by at most 5 percent; 1 where there is no stop."""
        numerator, denominator = self._rate
        widths = [None if stop is None else stop - start for start, stop in zip(starts, stops, strict=True)]
        # 64 or more in units of the rate are as good as no end.
        x = np.array([64.0 if w is None or w > self._long else w * numerator / denominator for w in widths])
        # A step is 0.27 percent of a power, so the next one down lies below q**w.
        steps = (x * (_PARTS * float(LOG2_E)) + 2).astype(np.int64)
        power = np.ldexp(_ROOTS[steps % _PARTS], -(steps // _PARTS)) * (1 - 2.0**-40)
        return Magnitudes.of(np.maximum(np.minimum(x * (1 + 2.0**-50), 1 - power), 2.0**-1000))
