"""A keyed 64-bit hash of labels with a proved collision bound, vectorised over a column."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from private_topk.transforms.columnar import Words

_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)
_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)
_ROWS = 1 << 16
"""Rows hashed at a time. With fewer, threads spend more time passing Python's lock on than hashing."""

_LONGEST = 1024
"""The longest label, in bytes, that is hashed as a sum; longer ones are digested."""


def hash_labels(labels: pa.Array, key: bytes) -> Words:
    """A 64-bit hash of every label, the same on every machine and version. Cost: about as much as reading the labels.

    A label of up to 1,024 bytes is its length and its bytes, four at a time and padded with zeros: characters s_1, s_2,
    ... below 2**32. Half of the hash is the upper 32 bits of m_0 + m_1 s_1 + m_2 s_2 + ... modulo 2**64, the other half
    is the same with other multipliers; all are 64-bit words that the key stretches to by SHAKE256. The hash of a longer
    label is keyed BLAKE2b.

    Guarantee: two different labels, whoever chose them, have the same hash with probability 2**-64 over uniform
    multipliers. (Multilinear hashing: Lemire & Kaser 2014.)
    Proof: different labels differ in a character, their length or another. Let 2**t be the largest power of two
    that divides all differences; t <= 31. Then the difference D of the two sums is uniform over the multiples of 2**t.
    The sum itself is uniform whatever D is, because of m_0, so the upper halves agree with probability
    1 - abs(D) / 2**32 where abs(D) < 2**32, and else never. Over the multiples of 2**t this adds up to 2**(32 - t), out
    of 2**(64 - t): to 2**-32. The other half has multipliers of its own: 2**-32 again, independently.
    What is assumed: that without the key nobody can tell SHAKE256's words, and BLAKE2b's hashes of the longer labels,
    from uniform ones. Those hashes are independent of everything else, so a longer label too meets any other with
    probability 2**-64.

    Args:
        key: secret, at least 16 bytes.
    """
    labels = labels.cast(pa.large_string())
    if len(labels) == 0:
        return np.empty(0, np.uint64)
    _, offset_buffer, data = labels.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[labels.offset : labels.offset + len(labels) + 1]
    multipliers, hashed = _multipliers(key), np.empty(len(labels), np.uint64)
    for row in range(0, len(labels), _ROWS):
        hashed[row : row + _ROWS] = _of_some(data, offsets[row : row + _ROWS + 1], multipliers, key)
    return hashed


def _of_some(data: Any, offsets: NDArray[np.int64], multipliers: Words, key: bytes) -> Words:  # noqa: ANN401 - Arrow's buffer
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    padded = np.zeros(size + 16, np.uint8)
    if size:
        padded[:size] = np.frombuffer(data, np.uint8, size, first)
    words = np.ndarray((size + 8,), "<u8", padded, 0, (1,))  # the eight bytes from every position on
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    hashed = _hashed(words, starts, np.minimum(lengths, _LONGEST), multipliers)
    for row in np.flatnonzero(lengths > _LONGEST).tolist():
        hashed[row] = _digested(padded[starts[row] : starts[row] + lengths[row]].data, key)
    return hashed


def _hashed(words: Words, starts: NDArray[np.int64], lengths: NDArray[np.int64], multipliers: Words) -> Words:
    shortest, longest = int(lengths.min()), int(lengths.max())
    order = None
    if longest > -(-shortest // 8) * 8:  # longest first, so that those that go on stand together
        order = np.argsort((_LONGEST - lengths).astype(np.uint16), kind="stable")
        starts, lengths = starts[order], lengths[order]
    ours = lengths.astype(np.uint64)
    sums = [ours * by + start for start, by in multipliers[:2].T]
    for position in range(0, longest, 8):
        rows = slice(None) if position < shortest else slice(int(np.count_nonzero(lengths > position)))
        word = words[starts[rows] + position]
        if position + 8 > shortest:
            word &= _MASKS.take(lengths[rows] - position, mode="clip")
        _add([part[rows] for part in sums], word, multipliers[position // 4 + 2 : position // 4 + 4])
    hashed = (sums[0] & ~_LOW) | (sums[1] >> _HALF)
    if order is None:
        return hashed
    placed = np.empty_like(hashed)
    placed[order] = hashed
    return placed


def _add(sums: list[Words], word: Words, multipliers: Words) -> None:
    high, product = word >> _HALF, np.empty_like(word)
    for part, (by_low, by_high) in zip(sums, multipliers.T, strict=True):
        part += np.multiply(word, by_low, out=product)
        part += np.multiply(high, by_high, out=product)


def _digested(label: memoryview, key: bytes) -> int:
    derived = hashlib.blake2b(b"private-topk hash 2" + key, digest_size=64).digest()
    return int.from_bytes(hashlib.blake2b(label, digest_size=8, key=derived).digest(), "little")


@lru_cache(16)
def _multipliers(key: bytes) -> Words:
    """(2 + 256, 2) words: a start and a multiplier of the length, then two for every eight bytes; by halves.

    Of those two the second is less the first times 2**32: with it eight bytes as one number need not be split.
    """
    if len(key) < 16:
        raise ValueError("a hash key must have at least 16 bytes")
    count = 2 + _LONGEST // 4
    stream = hashlib.shake_256(b"private-topk hash 2" + key).digest(16 * count)
    multipliers = np.frombuffer(stream, "<u8").reshape(count, 2).astype(np.uint64)
    multipliers[3::2] -= multipliers[2::2] << _HALF
    return multipliers
