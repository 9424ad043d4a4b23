"""Rankings to date: Gaussian noise that is correlated over the steps of a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.errors import InvalidArgument
from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.accounting import gaussian_scale
from private_topk.transforms.mechanisms.exact.bits import Draw
from private_topk.transforms.mechanisms.exact.count_noise import CountNoise, SharedGaussian
from private_topk.transforms.mechanisms.exact.series import (
    MAX_STEPS,
    NewCounts,
    TopOfStep,
    squared_reach,
    squared_weight,
    top_of_steps,
)
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Indices, Neighbours, sensitivity
from private_topk.transforms.mechanisms.noisy_order import NoisyOrder
from private_topk.transforms.mechanisms.parameters import parameter


@dataclass(frozen=True)
class CorrelatedGaussian(NoisyOrder):
    """The k largest of count to date + correlated Gaussian noise, in order, at every one of T steps.

    A user counts for an item from some step on, and for at most m = `max_items_per_user` items in all, of which the
    first ones stay (the caller must have enforced it). So one user adds to the counts of the series a step function for
    each of at most m items, which C maps to a vector of squared length at most V_T (`exact/series.py`): m V_T over all
    items, the columns of different items being orthogonal. With amounts up to w what a user adds to an item is w times
    a mean of such step functions, and the distance is convex: w**2 m V_T. Under "replace-one" two users' moves are
    subtracted; entries of C n are not negative, so the squares add up to at most twice that. sigma is the smallest for
    which that distance is (epsilon, delta)-DP (Balle & Wang 2018, Theorem 8, exact). All noisy counts of all steps are
    post-processing of C n + sigma z, and the answers of these: epsilon and delta are of the whole series, of which any
    part may be published. B is triangular and the noise Gaussian, so that it holds as well where rows depend on earlier
    answers (Denisov et al. 2022). It needs a history that never changes: `transforms/history.py`.

    A draw of one histogram is a series of one step. If there are more steps, it has the noise of the one with most: a
    forecast is of such draws.

    Args:
        steps: T, of the series.
    """

    about: ClassVar[About] = About(
        name="correlated-gaussian",
        cost="80 ns for an item and step",
        source="Henzinger, Kalinin & Upadhyay 2025; Balle & Wang 2018, Theorem 8",
        when="rankings to date, whose windows all begin with their period",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "approximate",
        "public",
        "sequence",
        metric="amounts",
        replacement_costs_one_draw=True,
        publishes_counts=True,
        to_date=True,
    )

    epsilon: float
    delta: float = parameter(help="well below 1 / number of users, such as 1e-6, for all windows to date together")
    max_items_per_user: int = parameter(help="how many items of a user count at most, in all windows to date together")
    neighbours: Neighbours = "add-remove"
    steps: int = field(
        default=1,
        kw_only=True,
        repr=False,
        metadata={"settled": "by the period", "not_in_fingerprint": "the period says it"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.steps <= MAX_STEPS:
            rule = f"divides the period into {self.steps:,} windows to date, and a series has at most {MAX_STEPS:,}"
            raise InvalidArgument("window", rule, "take a longer one, or a shorter period")

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        if self.steps == 1:
            return "gaussian", self.scale()
        return "gaussian", Fraction(self.noise_of_counts(d, k).stddev())

    def scale(self) -> Fraction:
        """sigma, in units of the counts: the standard deviation at the first step."""
        squared = sensitivity(self.neighbours) * self.max_items_per_user * squared_reach(self.steps)
        return self.cap * gaussian_scale(Fraction(self.epsilon), Fraction(self.delta), squared)

    def series(self, new: NewCounts, listed: range | Indices, k: int, draws: Sequence[Draw]) -> list[TopOfStep]:
        return top_of_steps(new, listed, self.scale(), self.steps, k, draws)

    def noise_of_counts(self, d: int, k: int) -> CountNoise:
        """That of the step where it is largest."""
        return SharedGaussian(max(map(self._variance, range(1, self.steps + 1))), Fraction(0))

    def noise_of_step(self, step: int) -> CountNoise:
        return SharedGaussian(self._variance(step), Fraction(0))

    def _variance(self, step: int) -> Fraction:
        return self.scale() ** 2 * squared_weight(self.steps, step)

    def cost(self, k: int) -> Cost:
        """That of Gaussian noise of the least standard deviation that the budget allows, for the whole series."""
        return Cost.gaussian(Fraction(self.epsilon), Fraction(self.delta))
