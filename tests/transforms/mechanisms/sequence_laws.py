"""The laws of mechanisms over sequences, by listing every sequence. Nothing here is shared with the samplers."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

from flint import arb, arb_poly, ctx, fmpq

Losses = dict[tuple[int, ...], Fraction]


def joint_losses(counts: tuple[int, ...], k: int, skew: Fraction = Fraction(1, 2)) -> Losses:
    """max over i of (1 - g) c_i - g c_{s_i}, of every sequence."""
    ranked = sorted(counts, reverse=True)
    return {
        sequence: max((1 - skew) * ranked[i] - skew * counts[item] for i, item in enumerate(sequence))
        for sequence in itertools.permutations(range(len(counts)), k)
    }


def exponential_mechanism(losses: Losses, epsilon: Fraction | float) -> dict[tuple[int, ...], arb]:
    """P(S) proportional to exp(-epsilon loss(S))."""
    best = min(losses.values())
    weights = {sequence: _power(epsilon, loss - best) for sequence, loss in losses.items()}
    whole = sum(weights.values(), arb(0))
    return {sequence: weight / whole for sequence, weight in weights.items()}


def permute_and_flip(losses: Losses, epsilon: Fraction | float) -> dict[tuple[int, ...], arb]:
    """P(S) = p_S times the integral over [0, 1] of the product over the others of (1 - p t), p = exp(-epsilon excess).

    That is: S comes at a uniform time t of a random order, stops with probability p_S, and no other stopped before.
    """
    best = min(losses.values())
    sizes = Counter(losses.values())
    before = ctx.prec
    ctx.prec = 600  # the polynomial's coefficients alternate
    try:
        by_loss = {}
        for loss in sizes:
            others = arb_poly([1])
            for other, size in sizes.items():
                p = _power(epsilon, other - best)
                others *= arb_poly([1, -p]) ** (size - (other == loss))
            by_loss[loss] = _power(epsilon, loss - best) * others.integral()(1)
    finally:
        ctx.prec = before
    return {sequence: by_loss[loss] for sequence, loss in losses.items()}


def expected_loss(losses: Losses, law: dict[tuple[int, ...], arb]) -> float:
    """The mean loss under a law."""
    return float(sum((law[s] * arb(fmpq(x.numerator, x.denominator)) for s, x in losses.items()), arb(0)).mid())


def _power(epsilon: Fraction | float, loss: Fraction) -> arb:
    exponent = Fraction(epsilon) * loss
    return arb(fmpq(-exponent.numerator, exponent.denominator)).exp()
