"""Labels that are integers, read a column at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["as_integers"]

_ZEROS = np.uint64(0x3030303030303030)
_ONES = np.uint64(0x0101010101010101)
_DIGITS = 18
"""As many as always fit in an int64."""


def as_integers(labels: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The integers that labels spell, and which labels are integers at all; the value of any other label is 0.

    Only the spelling that Python gives counts: no leading zeros, no plus sign, no spaces, no "-0"; up to 18 digits.
    Cost: about as much as hashing the labels.
    """
    labels = labels.cast(pa.large_string())
    if len(labels) == 0:
        return np.empty(0, np.int64), np.empty(0, bool)
    _, offset_buffer, data = labels.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[labels.offset : labels.offset + len(labels) + 1]
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    padded = np.zeros(24 + size + 8, np.uint8)
    if size:
        padded[24 : 24 + size] = np.frombuffer(data, np.uint8, size, first)
    starts, ends = offsets[:-1] - first + 24, offsets[1:] - first + 24
    negative = padded[starts] == ord("-")
    negative &= ends > starts
    digits = ends - starts - negative
    leading = padded[np.minimum(starts + negative, len(padded) - 1)]
    good = (digits >= 1) & (digits <= _DIGITS) & ((leading != ord("0")) | ((digits == 1) & ~negative))
    values = np.zeros(len(labels), np.uint64)
    words = np.ndarray((len(padded) - 7,), "<u8", padded, 0, (1,))
    longest = min(int(digits.max()), _DIGITS)
    for position, power in ((0, 1), (8, 10**8), (16, 10**16)):  # eight digits at a time, from the last
        if position < longest:
            word = _only_last(words[ends - 8 - position], np.clip(digits - position, 0, 8))
            good &= _are_digits(word)
            values += _value(word) * np.uint64(power)
    signed = values.astype(np.int64)
    return np.where(good, np.where(negative, -signed, signed), 0), good


def _only_last(words: NDArray[np.uint64], count: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The digits before the last `count` replaced by "0"."""
    kept = np.array([0] + [(1 << 64) - (1 << (64 - 8 * n)) for n in range(1, 9)], np.uint64)[count]
    return (words & kept) | (_ZEROS & ~kept)


def _are_digits(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    high = _ONES * np.uint64(0x80)
    plain = (words & high) == 0  # so that no sum below carries into the next byte
    return plain & (((words + _ONES * np.uint64(0x46)) & high) == 0) & (((words | high) - _ZEROS) & high == high)


def _value(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The number that eight digits spell, the first in the lowest byte: pairs, then fours, then all."""
    pairs = ((words & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561)) >> np.uint64(8)
    fours = ((pairs & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    return ((fours & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)
