"""What is drawn in every window, and the draw itself: plain arithmetic, without Beam."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple, cast

import numpy as np

from private_topk.transforms.amounts import Amounts
from private_topk.transforms.domain import Domain, UnknownDomain
from private_topk.transforms.keys import Release, release_seed
from private_topk.transforms.mechanisms import Mechanism, RandomBits, noise_of_counts, publish_counts
from private_topk.transforms.mechanisms.exact.histogram import Histogram
from private_topk.transforms.mechanisms.mechanism import Neighbours
from private_topk.transforms.mechanisms.parameters import check_parameter, plain
from private_topk.transforms.mechanisms.unknown_domain import UnknownDomainMechanism
from private_topk.transforms.refusal import Refusal

__all__ = ["CountBudget", "Draws", "NoiseSize", "Selection", "count_budget", "noise_size"]

_CENTRAL = Fraction(95, 100)


class NoiseSize(NamedTuple):
    """How far published counts may be off for their noise. Public: a function of the question and of how many counts
    are published. It says nothing of rows that a bound on the items per user leaves out.

    Args:
        stddev: the standard deviation of the noise of each count.
        within_95: with a probability of at least 95% a count is off by no more than this, its rounding included.
    """

    stddev: float
    within_95: int | float


class Draws(NamedTuple):
    """Ranks in the histogram, and the noisy counts of their items where those are published."""

    ranks: np.ndarray
    noisy_counts: np.ndarray | None
    noise: NoiseSize | None = None


@dataclass(frozen=True)
class CountBudget:
    """What publishing noisy counts of the released items costs, on top of the mechanism's own budget.

    Args:
        delta: 0 for a pure release, above 0 for Gaussian noise.
        round_to: counts are published as multiples of this, the nearest ones: rounding what is public anyway.
    """

    epsilon: float | Fraction
    delta: float | Fraction = 0.0
    round_to: int = field(default=1, metadata={"unasked": "rounding comes after the draw: the same noise either way"})

    def parameters(self) -> dict[str, Any]:
        """What the noise depends on, by name, as JSON."""
        return {"epsilon": plain(self.epsilon), "delta": plain(self.delta)}

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_parameter("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_parameter("delta", self.delta) if self.delta else 0.0)
        if isinstance(self.round_to, bool) or not isinstance(self.round_to, int) or self.round_to < 1:
            raise Refusal("round_counts", f"must be a whole number of at least 1, got {self.round_to!r}")

    def rounded(self, counts: np.ndarray) -> np.ndarray:
        """The nearest multiples of `round_to`, int64; halves go up."""
        if self.round_to == 1:
            return counts
        steps = (counts.astype(object) + self.round_to // 2) // self.round_to * self.round_to
        return np.clip(steps, -(2**63), 2**63 - 1).astype(np.int64)


def count_budget(given: object) -> CountBudget | None:
    """The budget of published counts; a number is its epsilon. Raises Refusal for anything else."""
    if given is None or isinstance(given, CountBudget):
        return given
    if isinstance(given, bool) or not isinstance(given, Real):
        raise Refusal("publish_counts", f"must be an epsilon such as 0.5, or a CountBudget, got {type(given).__name__}")
    try:
        return CountBudget(cast(float, given))
    except Refusal as refusal:
        raise Refusal("publish_counts", refusal.rule) from None


@dataclass(frozen=True)
class Selection:
    """What is drawn in every window: the whole question, but for the data.

    Args:
        amounts: what is added up, where it is amounts; `mechanism` has their cap then. None counts users.
    """

    mechanism: Mechanism
    k: int
    domain: Domain
    max_items_per_user: int | None = None
    publish_counts: CountBudget | None = None
    amounts: Amounts | None = field(default=None, metadata={"asked if given": True})

    def parameters(self) -> dict[str, Any]:
        """Every parameter the answer depends on, as JSON: for the release's seed and for the manifest."""
        return {
            "mechanism": self.mechanism.about.name,
            **self.mechanism.parameters(),
            "k": self.k,
            "max_items_per_user": self.max_items_per_user,
            "publish_counts": self.publish_counts and self.publish_counts.parameters(),
            "domain": self.domain.describe(),
            **({} if self.amounts is None else {"amounts": self.amounts.describe()}),
        }

    def shown(self, noisy: Iterable[int]) -> tuple[int | float, ...]:
        """Noisy counts as they are published: amounts where amounts are added up."""
        return tuple(noisy if self.amounts is None else map(self.amounts.shown, noisy))

    def head(self) -> int | None:
        """How many of the largest counts the mechanism looks at; None for all, as of a public domain."""
        if not isinstance(self.domain, UnknownDomain) or not isinstance(self.mechanism, UnknownDomainMechanism):
            return None
        return self.mechanism.kbar_for(self.k) + 1

    def least(self) -> int:
        """In an unknown domain, the least count that the mechanism looks at."""
        weighting = self.mechanism.weighting
        return 0 if weighting is None else weighting.least

    def epsilon(self) -> float:
        """The whole cost of one window, rounded up."""
        return _sum_up(self.mechanism.parameter("epsilon"), self.publish_counts.epsilon if self.publish_counts else 0.0)

    def delta(self) -> float:
        """The whole delta of one window, rounded up; 0 for a pure release."""
        own = self.mechanism.parameter("delta", 0.0)
        return _sum_up(own, self.publish_counts.delta if self.publish_counts else 0.0)

    def draw(self, histogram: Histogram, digest: bytes, window: str, release: Release) -> Draws:
        """What is released for these counts: the same for the same release, window, parameters and digest.

        Sets too come in the order of the draw: put them into a public one.
        """
        bits = RandomBits.keyed(release_seed(release, window, self.parameters(), digest))
        ranks = self.mechanism.prepare(histogram).ranks(self.k, bits)
        budget = self.publish_counts
        if budget is None:
            return Draws(ranks, None)
        values, places = histogram.picks(ranks).values, np.arange(len(ranks))
        noisy = publish_counts(values, places, bits, *self._noise_depends_on())
        return Draws(ranks, budget.rounded(noisy), self.noise(len(ranks)))

    def noise(self, published: int) -> NoiseSize | None:
        """The noise of so many published counts; None where there are none. Of amounts in their measure."""
        budget = self.publish_counts
        if budget is None or not published:
            return None
        *_, limit, neighbours, cap = self._noise_depends_on()
        found = noise_size(published, budget, limit, neighbours, cap)
        if self.amounts is None:
            return found
        return NoiseSize(found.stddev * float(self.amounts.value_resolution), self.amounts.shown(int(found.within_95)))

    def _noise_depends_on(self) -> tuple[Any, ...]:
        budget = self.publish_counts
        assert budget is not None
        neighbours = self.mechanism.parameter("neighbours", "add-remove")
        return budget.epsilon, budget.delta or None, self.max_items_per_user, neighbours, self.mechanism.cap


def noise_size(
    published: int,
    budget: CountBudget,
    max_items_per_user: int | None = None,
    neighbours: Neighbours = "add-remove",
    cap: int = 1,
) -> NoiseSize:
    """The noise of so many published counts, at least 1, in units. Cost: about 5 ms, once."""
    noise = noise_of_counts(published, budget.epsilon, budget.delta or None, max_items_per_user, neighbours, cap)
    return NoiseSize(noise.stddev(), noise.half_width(_CENTRAL) + budget.round_to // 2)


def _sum_up(*shares: float | Fraction) -> float:
    exact = sum(Fraction(share) for share in shares)
    total = float(exact)
    return total if total >= exact else math.nextafter(total, math.inf)
