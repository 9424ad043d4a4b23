"""Noise on every count once, and the k largest in order: what the mechanisms of independent noise have in common."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from fractions import Fraction

from private_topk.transforms.mechanisms.exact.argmax import noisy_ranks
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.mechanism import Indices, Mechanism


@dataclass(frozen=True)
class NoisyOrder(Mechanism):
    """The k largest of count + scale * noise, in order. A subclass says which noise and scale, and what they prove.

    Cost: a pass over the counts, then a few times k noises, whatever the counts are.
    """

    @abc.abstractmethod
    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        """The name of the noise and its scale in units of the counts, for k of d items."""

    def select(self, histogram: Histogram, k: int, draw: Draw) -> Indices:
        noise, scale = self.noise_and_scale(histogram.items, k)
        return noisy_ranks(histogram, scale, noise, k, draw)
