"""The item of largest count + exponential noise, without drawing a noise for every item.

Items are laid out in blocks of nearly equal counts. In a block of m items the largest noises are order statistics of m
exponentials, and the item that has each is uniform among those left. So a block is opened from its largest noise
downwards, and only while its largest count plus its next noise could still win (top-down sampling: Maddison, Tarlow &
Minka 2014). Opening further never changes what was found: every noise and every place has its own address.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.noise import (
    COUNT_ERROR,
    LEAST,
    MOST,
    NOISE_ERROR,
    exponential_real,
    float_rate,
    to_float,
)
from private_topk.transforms.mechanisms.exact.reals import Real, ball, greater

__all__ = ["Blocks", "noisy_max"]

Indices = NDArray[np.int64]

_LEVELS = 64


@dataclass
class Blocks:
    """The items not yet chosen, by count.

    `items` holds the indices block by block; block b is items[starts[b] : starts[b] + sizes[b]]. `bounds[b]` is
    at least (count - reference) * rate of every item of b. Blocks come from integers alone: the same everywhere.
    """

    counts: Indices
    scale: Fraction
    rate: float
    reference: int
    items: Indices
    starts: Indices
    sizes: Indices
    bounds: NDArray[np.float64]

    @classmethod
    def of(cls, counts: Indices, k: int, scale: Fraction) -> Blocks:
        """Lay out: the fewer than k items above the k-th count singly, the others in levels one noise scale wide."""
        reference = int(np.partition(counts, len(counts) - k)[len(counts) - k])
        single, rest = np.flatnonzero(counts > reference), np.flatnonzero(counts <= reference)
        width = min(math.ceil(scale), 2**62)
        levels = np.minimum((reference - counts[rest]) // width, _LEVELS - 1).astype(np.uint8)
        sizes = np.concatenate([np.ones(len(single), np.int64), np.bincount(levels, minlength=_LEVELS)])
        rate = float_rate(1 / scale)
        steps = np.concatenate([(counts[single] - reference) * rate, np.arange(_LEVELS) * -(width * rate)])
        return cls(
            counts=counts,
            scale=scale,
            rate=rate,
            reference=reference,
            items=np.concatenate([single, rest[np.argsort(levels, kind="stable")]]),
            starts=np.cumsum(sizes) - sizes,
            sizes=sizes,
            bounds=steps + np.abs(steps) * COUNT_ERROR,
        )

    def remove(self, block: int, place: int) -> None:
        """Take out the item at a place of a block; the block's last item moves there."""
        self.sizes[block] -= 1
        start = self.starts[block]
        self.items[start + place] = self.items[start + self.sizes[block]]


def noisy_max(blocks: Blocks, draw: Draw, lane: int) -> int:
    """Take the item of largest count + scale * standard exponential noise out of the blocks, exactly.

    The noise is that of `lane`: use a lane of its own for every call on one draw. Cost: O(number of blocks), and a
    constant number of items in expectation.
    """
    reach = _first_reach(blocks, draw.words(lane, 0, len(blocks.sizes)).astype(np.float64) * 2.0**-64)
    opened: dict[int, _Opened] = {}
    best: _Candidate | None = None
    while True:
        block = int(reach.argmax())
        if best is not None and reach[block] < best.low:
            break
        if block not in opened:
            opened[block] = _Opened(blocks, block, draw, lane)
        candidate = opened[block].next()
        reach[block] = opened[block].reach()
        if best is None or candidate.beats(best):
            best = candidate
    blocks.remove(best.block, best.place)
    return best.item


def _first_reach(blocks: Blocks, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """An upper bound on the noisy scores of each block, from the first word of each; -inf for an empty block."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = -np.log1p(-np.minimum(v, MOST)) / blocks.sizes
        reach = blocks.bounds - np.log(-np.expm1(-exponents)) + NOISE_ERROR
    reach[blocks.sizes == 0] = -np.inf
    return reach


@dataclass
class _Candidate:
    """An item met in a round: where it lies, its real score, and an interval of floats around that."""

    item: int
    block: int
    place: int
    score: Real
    low: float
    high: float

    def beats(self, other: _Candidate) -> bool:
        if self.low > other.high or self.high < other.low:
            return self.low > other.high
        return greater(self.score, other.score)


class _Opened:
    """A block in one round, read from its largest noise downwards.

    The j-th largest of m uniforms is exp(-A) with A = E_0 / m + ... + E_j / (m - j), the E standard exponentials.
    """

    def __init__(self, blocks: Blocks, block: int, draw: Draw, lane: int) -> None:
        self._blocks, self._block, self._draw, self._lane = blocks, block, draw, lane
        self._size, self._left = int(blocks.sizes[block]), int(blocks.sizes[block])
        self._terms: list[tuple[Real, int]] = []
        self._exponent, self._certain = 0.0, True
        self._moved: dict[int, int] = {}
        self._extend()

    def next(self) -> _Candidate:
        """The item that has the next largest noise."""
        place, noise, blocks = self._place(), self._noise(tuple(self._terms)), self._blocks
        item = int(blocks.items[blocks.starts[self._block] + place])
        count = int(blocks.counts[item])
        # Exact integer difference first: near the reference nothing is lost, however large the counts.
        step = (count - blocks.reference) * blocks.rate
        middle = step + (_noise_float(self._exponent) if self._certain else to_float(noise))
        error = abs(step) * COUNT_ERROR + NOISE_ERROR
        self._left -= 1
        self._extend()
        return _Candidate(
            item, self._block, place, lambda: ball(count / blocks.scale) + noise(), middle - error, middle + error
        )

    def reach(self) -> float:
        """An upper bound on the noisy scores of the items not yet met."""
        return (
            self._blocks.bounds[self._block] + _noise_float(self._exponent) + NOISE_ERROR if self._left else -math.inf
        )

    def _extend(self) -> None:
        """Read the next exponential."""
        if not self._left:
            return
        index = self._address(0)
        v = self._draw.word(self._lane, index) * 2.0**-64
        self._certain &= LEAST <= v <= MOST
        self._exponent += -math.log1p(-min(v, MOST)) / self._left
        self._terms.append((exponential_real(self._draw, self._lane, index), self._left))

    def _place(self) -> int:
        """A place exactly uniform among those not yet met: the whole part of a uniform real times their number."""
        index, level, digits, bits = self._address(1), 0, 0, 0
        while True:
            digits, bits = digits << 64 | self._draw.word(self._lane, index, level), bits + 64
            drawn, level = digits * self._left >> bits, level + 1
            if drawn == (digits + 1) * self._left - 1 >> bits:
                break
        place = self._moved.get(drawn, drawn)
        self._moved[drawn] = self._moved.get(self._left - 1, self._left - 1)
        return place

    def _address(self, kind: int) -> int:
        turn = self._size - self._left
        return self._block + len(self._blocks.sizes) * (2 * turn + kind)

    @staticmethod
    def _noise(terms: tuple[tuple[Real, int], ...]) -> Real:
        def value() -> arb:
            exponent = sum((exponential() / left for exponential, left in terms), arb(0))
            return -(-(-exponent).expm1()).log()

        return value


def _noise_float(exponent: float) -> float:
    return -math.log(-math.expm1(-exponent)) if exponent > 0 else math.inf
