"""The laws of every mechanism on two neighbours, by the kinds of their items."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from private_topk.transforms.mechanisms import Canonical, FastJoint, Gaussian, Joint, JointSet, Mechanism, PnfPeeling
from tests.laws import Law, total
from tests.transforms.mechanisms import laws

SLACK = 1e-7


class Kind(NamedTuple):
    """A count here, one on the neighbour, and how many items have them."""

    here: int
    there: int
    size: int


Kinds = tuple[Kind, ...]
Loss = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Takes sorted counts and those of sequences, (n, k) to (n,)."""


def joint_loss(skew: float) -> Loss:
    return lambda ranked, chosen: ((1 - skew) * ranked[: chosen.shape[1]] - skew * chosen).max(axis=1)


def set_loss(ranked: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return (ranked[: chosen.shape[1]] + np.sort(-chosen, axis=1)).max(axis=1)


def canonical_loss(gamma: float) -> Loss:
    def loss(ranked: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        k, smallest = chosen.shape[1], chosen.min(axis=1)
        ordered = -np.sort(-chosen, axis=1)
        # The largest count left out is the first place where the sorted counts of the set fall behind.
        behind = np.concatenate([ordered != ranked[:k], np.ones((len(chosen), 1), bool)], axis=1).argmax(axis=1)
        left_out = np.append(ranked, -math.inf)[behind]
        return (1 - gamma) * np.maximum(left_out, smallest) - gamma * smallest

    return loss


def of_losses(counts: list[int], sizes: list[int], k: int, rate: float, loss: Loss) -> dict[Any, float]:
    """An exponential mechanism: log-weights, for what they are over their sum."""
    sequences = list(itertools.product(range(len(counts)), repeat=k))
    ranked = -np.sort(-np.repeat(np.array(counts, float), sizes))
    weights = -rate * loss(ranked, np.array(counts, float)[np.array(sequences)])
    return dict(zip(sequences, (weights - weights.max()).tolist(), strict=True))


def law_of(mechanism: Mechanism, counts: list[int], sizes: list[int], k: int) -> Law:
    """From the papers' definitions: P of all answers with a sequence of kinds."""
    e, w = float(mechanism.epsilon), mechanism.cap * (2 if mechanism.neighbours == "replace-one" else 1)
    rounds = {"peeling": e / k / w, "cdp-peeling": float(getattr(mechanism, "share", lambda k: 0)(k)) / w}
    name = mechanism.about.name
    if name in rounds:
        logs = laws.of_rounds(counts, sizes, k, laws.exponential_round(rounds[name]))
    elif isinstance(mechanism, PnfPeeling):
        logs = laws.of_rounds(counts, sizes, k, laws.flip_round(e / k / w))
    elif isinstance(mechanism, Joint):
        logs = of_losses(counts, sizes, k, e / w, joint_loss(float(mechanism.skew)))
    elif isinstance(mechanism, FastJoint):
        tau = mechanism.tau(sum(sizes), k)
        rate = e / w * (2 if k == 1 else 1)
        logs = of_losses(counts, sizes, k, rate, lambda *both: np.minimum(joint_loss(0.5)(*both), tau / 2))
    elif isinstance(mechanism, JointSet):
        logs = of_losses(counts, sizes, k, e / w / 2, set_loss)
    elif isinstance(mechanism, Canonical):
        logs = of_losses(counts, sizes, k, e / w, canonical_loss(float(mechanism.gamma)))
    elif isinstance(mechanism, Gaussian):
        chances = laws.of_noise(counts, sizes, k, "gaussian", float(mechanism.scale(sum(sizes))))
        logs = {s: math.log(p) for s, p in chances.items()}
    else:
        moved = min(k, mechanism.parameter("max_items_per_user") or k)
        chances = laws.of_noise(counts, sizes, k, mechanism.parameter("noise", "laplace"), w * moved / e)
        logs = {s: math.log(p) for s, p in chances.items()}
    numbers = {s: math.prod(math.perm(size, s.count(t)) for t, size in enumerate(sizes)) for s in logs}
    law = {s: math.exp(p) * numbers[s] for s, p in logs.items() if numbers[s]}
    scale = sum(law.values()) if isinstance(mechanism, Joint | FastJoint | JointSet | Canonical) else 1
    return {s: p / scale for s, p in law.items()}


def pair_of(mechanism: Mechanism, kinds: Kinds, k: int) -> tuple[Law, Law]:
    """The laws here and there."""
    sizes = [kind.size for kind in kinds]
    here, there = (law_of(mechanism, [kind[side] for kind in kinds], sizes, k) for side in (0, 1))
    assert float(total(here)) == pytest.approx(1) == float(total(there))
    return here, there
