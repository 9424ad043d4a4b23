"""The one source of randomness: a keyed, addressable keystream.

Nothing in this package draws from `numpy.random` or `random`. A release must repeat its answer when a runner
repeats its work, so every random bit is a function of a key and an address.
"""

from __future__ import annotations

import hmac
import secrets

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from private_topk.transforms.errors import InvalidArgument

_SEQUENTIAL_LANE = 2**32 - 1
_BUFFERED_WORDS = 256
_MAX_PYTHON_BLOCKS, _MAX_COUNTER_BLOCKS = 8, 2048  # blocks that are cheaper otherwise
_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)


class RandomBits:
    """A cryptographic keystream (AES-256 in counter mode) that mechanisms draw from.

    Two objects made from the same key give the same bits. Every call of a mechanism takes the next *draw* of the
    object, so calling twice with one object gives two independent answers, and never the same noise over other data.
    """

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes | bytearray) or not key:
            raise InvalidArgument("key", "must be non-empty bytes", "use RandomBits.fresh() for a new random key")
        self._key = hmac.digest(bytes(key), b"private-topk keystream", "sha256")
        self._draws = 0

    @classmethod
    def fresh(cls) -> RandomBits:
        """A keystream under a new random key: 256 bits from the operating system."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def keyed(cls, key: bytes) -> RandomBits:
        """The keystream of `key`, any non-empty bytes. Guessing the key undoes the privacy: use 32 random bytes."""
        return cls(key)

    def draw(self) -> Draw:
        """The next draw: a keystream of its own, that no other draw of this object overlaps."""
        number = self._draws
        self._draws += 1
        return Draw(hmac.digest(self._key, b"draw" + number.to_bytes(8, "big"), "sha256"))

    def __repr__(self) -> str:  # never the key
        return f"RandomBits(<key>, draws={self._draws})"


class Draw:
    """The bits of one call of a mechanism.

    *Addressed* words (`words`) serve noise that is refined on demand: every (lane, index, level) has its own 64 bits,
    so looking at one value more closely shifts no other. The *sequential* bits (`bits`, `below`) have a lane of their
    own and serve rejection samplers.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = algorithms.AES256(key)
        self._block_cipher = Cipher(self._cipher, modes.ECB()).encryptor()
        self._buffer: list[int] = []
        self._position = 0
        self._taken: set[int] = set()

    def take(self, lane: int) -> None:
        """Raise InvalidArgument for a lane that was taken before: the noise of both would be one and the same."""
        if lane in self._taken:
            raise InvalidArgument("lane", f"must be another for every noise of one draw, got {lane} twice")
        self._taken.add(lane)

    def words(self, lane: int, start: int, count: int, level: int = 0) -> NDArray[np.uint64]:
        """The words at indices start .. start + count - 1, shape (count,). Cost: about 1 ms for a million words."""
        first_block = start >> 1
        blocks = ((start + count + 1) >> 1) - first_block
        if blocks > _MAX_COUNTER_BLOCKS:
            counter = modes.CTR(_address(lane, level).to_bytes(8, "big") + first_block.to_bytes(8, "big"))
            stream = Cipher(self._cipher, counter).encryptor().update(bytes(16 * blocks))
            return np.frombuffer(stream, dtype="<u8")[start & 1 :][:count]
        # The same blocks: the counters themselves, encrypted one by one, without a cipher made for each call.
        if blocks > _MAX_PYTHON_BLOCKS:
            return self._at(lane, np.arange(first_block, first_block + blocks), level)[start & 1 :][:count]
        address = _address(lane, level).to_bytes(8, "big")
        counters = (first_block + n for n in range(blocks))
        stream = self._block_cipher.update(b"".join(address + n.to_bytes(8, "big") for n in counters))
        return np.frombuffer(stream, dtype="<u8")[start & 1 :][:count]

    def _at(self, lane: int, blocks: NDArray[np.int64], level: int = 0) -> NDArray[np.uint64]:
        """The two words of each of some blocks, shape (2 n,)."""
        counters = np.empty((len(blocks), 2), ">u8")
        counters[:, 0], counters[:, 1] = _address(lane, level), blocks
        return np.frombuffer(self._block_cipher.update(counters.tobytes()), dtype="<u8")

    def grid(self, lane: int, places: NDArray[np.int64], width: int) -> NDArray[np.uint64]:
        """The words at indices place * width .. + width - 1 of each of some rising places, shape (places, width)."""
        if width == 1:
            return self._at(lane, places >> 1)[(places & 1) + 2 * np.arange(len(places))][:, None]
        first, half = int(places[0]), width >> 1
        if int(places[-1]) - first == len(places) - 1:
            return self.words(lane, first * width, len(places) * width).reshape(-1, width)
        if width & 1:
            return np.stack([self.words(lane, place * width, width) for place in places.tolist()])
        return self._at(lane, (places[:, None] * half + np.arange(half)).ravel()).reshape(-1, width)

    def word(self, lane: int, index: int, level: int = 0) -> int:
        """The one word at an address."""
        return int(self.words(lane, index, 1, level)[0])

    def bits(self, n: int) -> int:
        """The next n sequential bits as an integer in [0, 2**n). Takes ceil(n / 64) words."""
        value = 0
        for _ in range((n + 63) >> 6):
            value = value << 64 | self._next_word()
        return value >> (-n & 63)

    def below(self, n: int) -> int:
        """An exactly uniform integer in [0, n), by rejection: fewer than two tries on average."""
        if n == 1:
            return 0
        size = (n - 1).bit_length()
        if size <= 64:  # one word a try: the same numbers, several times as quick
            while True:
                if not self._buffer:
                    self._fill()
                value = self._buffer.pop() >> (64 - size)
                if value < n:
                    return value
        while (value := self.bits(size)) >= n:
            pass
        return value

    def below_each(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """An exactly uniform integer in [0, n) for each n of the bounds, same shape: many `below` in one."""
        words = self._next_words(len(bounds))
        numbers, rejected = below(words, bounds)
        numbers[rejected] = [self.below(int(n)) for n in bounds[rejected]]
        return numbers

    def _next_words(self, n: int) -> NDArray[np.uint64]:
        """The next n sequential words, as so many calls of `_next_word` would give them."""
        start = self._position - len(self._buffer)
        if n < len(self._buffer):
            del self._buffer[-n:]
        else:
            self._buffer, self._position = [], start + n
        return self.words(_SEQUENTIAL_LANE, start, n)

    def _next_word(self) -> int:
        if not self._buffer:
            self._fill()
        return self._buffer.pop()

    def _fill(self) -> None:
        self._buffer = self.words(_SEQUENTIAL_LANE, self._position, _BUFFERED_WORDS).tolist()[::-1]
        self._position += _BUFFERED_WORDS


def _address(lane: int, level: int) -> int:
    return lane << 32 | level


def below(words: NDArray[np.uint64], bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """An integer in [0, n) from each word, and which words have to be replaced for it to be exactly uniform.

    The top half of the product with n, unless the bottom half is below 2**64 mod n (Lemire 2019).
    """
    if bounds.size and int(bounds.max()) >> 32:
        products = [word * n for word, n in zip(words.ravel().tolist(), bounds.ravel().tolist(), strict=True)]
        top = np.array([product >> 64 for product in products], np.int64).reshape(bounds.shape)
        bottom = np.array([product % 2**64 for product in products], np.uint64).reshape(bounds.shape)
    else:
        n = bounds.astype(np.uint64)
        low = (words & _LOW) * n
        product = (words >> _HALF) * n + (low >> _HALF)
        top, bottom = (product >> _HALF).astype(np.int64), product << _HALF | low & _LOW
    rejected = bottom < bounds.astype(np.uint64)  # rarely: only then it is worth dividing
    rejected[rejected] = [int(b) < 2**64 % int(n) for b, n in zip(bottom[rejected], bounds[rejected], strict=True)]
    return top, rejected


def uniform_subset(draw: Draw, n: int, m: int) -> list[int]:
    """A uniform m-subset of range(n), in no particular order: min(m, n - m) sequential draws (Bentley & Floyd 1987)."""
    if 2 * m > n:
        left_out = set(uniform_subset(draw, n, n - m))
        return [i for i in range(n) if i not in left_out]
    chosen: set[int] = set()
    for last, i in enumerate(map(draw.below, range(n - m + 1, n + 1)), n - m):
        chosen.add(last if i in chosen else i)
    return list(chosen)
