"""Powers of q = exp(-rate), rounded up and the same on every machine: what the weights of envelopes are made of."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpz
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.scaled import LOG2_E, Magnitudes

__all__ = ["NO_END", "Powers", "below_powers_of_two"]

_PARTS = 256


def below_powers_of_two(bits: int) -> list[int]:
    """The whole numbers next below 2**(bits - i / 256), or equal to it, for i = 0 .. 255. Cost: 3 ms.

    Eight square roots, each rounded down, are the 256th root rounded down: n <= sqrt(x) says as much of a whole n as
    n <= floor(sqrt(x)) does.
    """
    roots = []
    for i in range(_PARTS):
        root = fmpz(1) << (_PARTS * bits - i)
        for _ in range(_PARTS.bit_length() - 1):
            root = root.isqrt()
        roots.append(int(root))
    return roots


_ROOTS = np.array([float((root >> 12) + 1) * 2.0**-52 for root in below_powers_of_two(64)])
"""Just above 2**(-i / 256)."""

_MOST = _PARTS << 40  # steps beyond it count as so many
_POWERS_OF_TWO = {1 << digits for digits in range(1000)}

NO_END = -1
"""In the place of a stop."""


def _digits(value: Fraction) -> int:
    """Of the whole part of a rational, about; less than 0 for those below 1."""
    return value.numerator.bit_length() - value.denominator.bit_length()


class Powers:
    """Of q = exp(-rate), a positive rational rate."""

    def __init__(self, rate: Fraction) -> None:
        steps = _PARTS * LOG2_E * rate
        self._rate, self._steps = (rate.numerator, rate.denominator), (steps.numerator, steps.denominator)
        self._long = int(64 / rate)
        self._float = steps.numerator / steps.denominator if abs(_digits(steps)) < 1000 else 0.0

    def falling(self, exponents: NDArray[Any]) -> Magnitudes:
        """q**x for each x >= 0, rounded up by at most 0.3 percent."""
        steps = self._whole_steps(exponents)
        return Magnitudes.of(_ROOTS[steps % _PARTS], -(steps // _PARTS))

    def _whole_steps(self, exponents: NDArray[Any]) -> NDArray[np.int64]:
        """The whole part of each exponent in steps of 2**(-1 / 256), exactly, or `_MOST` where it is more."""
        numerator, denominator = self._steps
        if exponents.dtype == object or not 2.0**-900 < self._float < 2.0**900:
            return np.array([min(x * numerator // denominator, _MOST) for x in exponents.tolist()], np.int64)
        # A double tells the whole part but where it lies too close to a whole number.
        near = np.minimum(exponents * self._float, 2.0 * _MOST)
        steps = near.astype(np.int64)
        for i in np.flatnonzero(np.abs(near - np.rint(near)) <= near * 2.0**-50).tolist():
            steps[i] = min(int(exponents[i]) * numerator // denominator, 2 * _MOST)
        return np.minimum(steps, _MOST)

    def widths(self, starts: NDArray[Any], stops: NDArray[Any]) -> Magnitudes:
        """1 - q**(stop - start) for each, rounded up by at most 5 percent; 1 where there is no stop."""
        endless = stops == NO_END
        # 64 or more in units of the rate are as good as no end.
        x = np.where(endless, 64.0, self._in_rates(np.where(endless, 0, stops - starts)))
        # A step is 0.27 percent of a power, so the next one down lies below q**w.
        steps = (x * (_PARTS * float(LOG2_E)) + 2).astype(np.int64)
        power = np.ldexp(_ROOTS[steps % _PARTS], -(steps // _PARTS)) * (1 - 2.0**-40)
        return Magnitudes.of(np.maximum(np.minimum(x * (1 + 2.0**-50), 1 - power), 2.0**-1000))

    def _in_rates(self, widths: NDArray[Any]) -> NDArray[np.float64]:
        """Each width times the rate, rounded to the nearest double, and 64 where it is more than `_long`."""
        numerator, denominator = self._rate
        # One exact product or quotient of doubles is rounded once, as the division of integers is.
        if widths.dtype != object and max(self._long * numerator, numerator, denominator) < 2**53:
            return np.where(widths > self._long, 64.0, np.minimum(widths, self._long) * numerator / denominator)
        if widths.dtype != object and max(self._long, numerator) < 2**53 and denominator in _POWERS_OF_TWO:
            x = np.minimum(widths, self._long) * float(numerator) / denominator
            return np.where(widths > self._long, 64.0, x)
        return np.array([64.0 if w > self._long else w * numerator / denominator for w in widths.tolist()])
