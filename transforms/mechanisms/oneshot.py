"""The Lipschitz mechanism with kappa = k: noise on every count once, the k largest in order."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from private_topk.transforms.mechanisms.cost import Cost
from private_topk.transforms.mechanisms.exact.noise import check_noise
from private_topk.transforms.mechanisms.mechanism import About, Guarantee, Neighbours
from private_topk.transforms.mechanisms.noisy_order import NoisyOrder
from private_topk.transforms.mechanisms.parameters import parameter


@dataclass(frozen=True)
class Oneshot(NoisyOrder):
    """The k largest of count + (k / epsilon) * noise, in order.

    The set is epsilon-DP for any noise with log(1 - F) 1-Lipschitz (Shekelyan & Loukides 2023, Theorem 4.1, with
    sensitivity 1/2). The *order* is covered too, for each of the five noises: their densities satisfy
    f(x + s) >= exp(-s) f(x) for s >= 0. Hold the noise of the items not chosen. If a user comes, raise the noise of
    each chosen item whose count stayed by one count; if a user leaves, that of each chosen item whose count fell. Then
    all chosen noisy counts rise by 1, or stay, while the others rise by at most 1, or fall: same items, same order, and
    the densities of k noises each fell by a factor of at most exp(epsilon / k).
    Under "replace-one" noises rise by at most 2 counts, so the scale doubles. With Gumbel noise this is `peeling`.

    `noise` is one of gumbel, exponential, laplace, logistic, half-logistic.
    """

    about: ClassVar[About] = About(
        name="oneshot",
        cost="one pass, then O(k)",
        source="Shekelyan & Loukides 2023, Theorem 4.1 (kappa = k)",
        when="pure privacy in one pass over the counts",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "pure", "public", "sequence", metric="amounts", replacement_costs_one_draw=True
    )

    epsilon: float
    noise: str = parameter("exponential", help="gumbel, exponential, laplace, logistic or half-logistic")
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise(self.noise)

    def noise_and_scale(self, d: int, k: int) -> tuple[str, Fraction]:
        return self.noise, self.sensitivity * k / Fraction(self.epsilon)

    def cost(self, k: int) -> Cost:
        """With Gumbel noise that of `peeling`; else what pure privacy alone gives."""
        return Cost.peeled(k, Fraction(self.epsilon) / k) if self.noise == "gumbel" else super().cost(k)
