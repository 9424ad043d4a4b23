"""A keyed 64-bit hash of labels with a proved collision bound, vectorised over a column."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["hash_labels"]

Words = NDArray[np.uint64]

_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)
_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)
_ROWS = 1 << 14  # whose sums stay in a core's own cache
_LONGEST = 1 << 32


def hash_labels(labels: pa.Array, key: bytes) -> Words:
    """A 64-bit hash of every label, the same on every machine and version. Cost: about as much as reading the labels.

    A label is its length and its bytes, four at a time and padded with zeros: characters s_1, s_2, ... below 2**32.
    Half of the hash is the upper 32 bits of m_0 + m_1 s_1 + m_2 s_2 + ... modulo 2**64, the other half is the same with
    other multipliers; all are 64-bit words that the key stretches to by SHAKE256.

    Guarantee: two different labels, whoever chose them and however long they are, have the same hash with probability
    2**-64 over uniform multipliers. (Multilinear hashing: Lemire and Kaser 2014, "Strongly universal string hashing is
    fast".) Proof: different labels differ in a character, their length or another. Let 2**t be the largest power of two
    that divides all differences; t <= 31. Then the difference D of the two sums is uniform over the multiples of 2**t.
    The sum itself is uniform whatever D is, because of m_0, so the upper halves agree with probability
    1 - abs(D) / 2**32 where abs(D) < 2**32, and else never. Over the multiples of 2**t this adds up to 2**(32 - t), out
    of 2**(64 - t): to 2**-32. The other half has multipliers of its own: 2**-32 again, independently.
    That SHAKE256's words cannot be told from uniform ones without the key is what is assumed.

    Args:
        key: secret, at least 16 bytes.

    Raises:
        ValueError: a label of 4 GiB or more.
    """
    labels = labels.cast(pa.large_string())
    if len(labels) == 0:
        return np.empty(0, np.uint64)
    _, offset_buffer, data = labels.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[labels.offset : labels.offset + len(labels) + 1]
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    padded = np.zeros(size + 16, np.uint8)
    if size:
        padded[:size] = np.frombuffer(data, np.uint8, size, first)
    words = np.ndarray((size + 8,), "<u8", padded, 0, (1,))  # the eight bytes from every position on
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    if int(lengths.max()) >= _LONGEST:
        raise ValueError("a user or an item must be shorter than 4 GiB")
    multipliers = _multipliers(key, max(int(lengths.max()) // 8 + 1, 8).bit_length())
    hashed = np.empty(len(labels), np.uint64)
    for row in range(0, len(labels), _ROWS):
        rows = slice(row, row + _ROWS)
        hashed[rows] = _hashed(words, starts[rows], lengths[rows], multipliers)
    return hashed


def _hashed(words: Words, starts: NDArray[np.int64], lengths: NDArray[np.int64], multipliers: Words) -> Words:
    ours = lengths.astype(np.uint64)
    sums = [ours * by + start for start, by in multipliers[:2].T]
    shortest = int(lengths.min())
    for position in range(0, int(lengths.max()), 8):
        left, by = lengths - position, multipliers[position // 4 + 2 : position // 4 + 4]
        if position + 8 <= shortest:
            _add(sums, words[starts + position], by)
        elif position < shortest:
            _add(sums, words[starts + position] & _MASKS[np.minimum(left, 8)], by)
        else:  # what a label lacks are zeros, which add nothing: only those that go on are looked at
            rows = np.flatnonzero(left > 0)
            some = [part[rows] for part in sums]
            _add(some, words[starts[rows] + position] & _MASKS[np.minimum(left[rows], 8)], by)
            for part, new in zip(sums, some, strict=True):
                part[rows] = new
    return (sums[0] & ~_LOW) | (sums[1] >> _HALF)


def _add(sums: list[Words], word: Words, multipliers: Words) -> None:
    low, high = word & _LOW, word >> _HALF
    for part, (by_low, by_high) in zip(sums, multipliers.T, strict=True):
        part += low * by_low
        part += high * by_high


@lru_cache(16)
def _multipliers(key: bytes, bits: int) -> Words:
    """(2 + 2 * 2**bits, 2) words: a start and a multiplier of the length, then two for every eight bytes; by halves."""
    if len(key) < 16:
        raise ValueError("a hash key must have at least 16 bytes")
    count = 2 + (2 << bits)
    return np.frombuffer(hashlib.shake_256(b"private-topk hash 2" + key).digest(16 * count), "<u8").reshape(count, 2)
