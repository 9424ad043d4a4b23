"""The published algorithms in their plain numpy form: the baselines of the speed table.

Each takes counts (d,), k, epsilon and a numpy generator and returns k indices, with floats and ordinary randomness, the
way the papers state them. They are here to be compared with, not to be released from.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

Vector = np.ndarray


def joint(counts: Vector, k: int, epsilon: float, rng: np.random.Generator) -> Vector:
    """Gillenwater et al. 2022, Algorithm 1: every loss of the k by d matrix, sorted, counted, sampled."""
    order = np.argsort(-counts, kind="stable")
    c, d = counts[order], len(counts)
    # A fraction per entry makes all losses distinct, as the paper does.
    losses = (c[:k, None] - c[None, :]) + (d * (k - np.arange(k))[:, None] + np.arange(d)[None, :]) / (2.0 * d * k)
    flat = np.argsort(losses, axis=None)
    row, column = np.divmod(flat, d)
    # The entry (i, j) raises the number of choices for place i from j - i to j - i + 1.
    choices = np.maximum(column - row, 0)
    gain = np.where(column > row, np.log(np.maximum(choices + 1, 1)) - np.log(np.maximum(choices, 1)), 0.0)
    open_places = k - np.cumsum(column == row)
    sizes = np.where((column >= row) & (open_places == 0), np.cumsum(gain) - np.log(choices + 1), -np.inf)
    pick = int(np.argmax(sizes - epsilon * losses.ravel()[flat] / 2 + rng.gumbel(size=len(flat))))
    limits = np.bincount(row[: pick + 1], minlength=k)
    chosen: list[int] = []
    for i in range(k):
        taken = [*chosen, int(column[pick])]
        pool = column[pick : pick + 1] if i == row[pick] else np.setdiff1d(np.arange(limits[i]), taken)
        chosen.append(int(rng.choice(pool)))
    return order[chosen]


def peeling(counts: Vector, k: int, epsilon: float, rng: np.random.Generator) -> Vector:
    """Durfee & Rogers 2019: Gumbel noise once, the k largest."""
    return _top(counts * (epsilon / k) + rng.gumbel(size=len(counts)), k)


def cdp_peeling(counts: Vector, k: int, epsilon: float, rng: np.random.Generator, delta: float = 1e-6) -> Vector:
    """The same at the per-draw parameter of Gillenwater et al. 2022, Lemma 4.2."""
    a, b = k / 8, 2 * math.sqrt(k * math.log(1 / delta) / 8)
    each = (-b + math.sqrt(b * b + 4 * a * epsilon)) / (2 * a)
    return _top(counts * each + rng.gumbel(size=len(counts)), k)


def pnf_peeling(counts: Vector, k: int, epsilon: float, rng: np.random.Generator) -> Vector:
    """k rounds of permute-and-flip: fresh exponential noise on every item left."""
    scores = counts * (epsilon / k)
    chosen = np.empty(k, np.int64)
    for place in range(k):
        chosen[place] = np.argmax(scores + rng.exponential(size=len(scores)))
        scores[chosen[place]] = -np.inf
    return chosen


def oneshot(counts: Vector, k: int, epsilon: float, rng: np.random.Generator) -> Vector:
    """Shekelyan & Loukides 2023, kappa = k, exponential noise."""
    return _top(counts * (epsilon / k) + rng.exponential(size=len(counts)), k)


def laplace(counts: Vector, k: int, epsilon: float, rng: np.random.Generator) -> Vector:
    """Qiao et al. 2021, pure form."""
    return _top(counts * (epsilon / (2 * k)) + rng.laplace(size=len(counts)), k)


def gamma(counts: Vector, k: int, epsilon: float, rng: np.random.Generator) -> Vector:
    """Steinke & Ullman 2016, Theorem 4.1."""
    radius = rng.gamma(len(counts) + 1, 1 / epsilon)
    return _top(counts + radius * rng.uniform(-1, 1, len(counts)), k)


def canonical(counts: Vector, k: int, epsilon: float, rng: np.random.Generator) -> Vector:
    """Shekelyan & Loukides 2023, Algorithm 1, gamma = 1/2: all k (d - k) classes, a head at a time."""
    order = np.argsort(-counts, kind="stable")
    x, d = counts[order] * 2.0, len(counts)
    best, pick = -epsilon * (x[k] - x[k - 1]) / 4 + rng.gumbel() if k < d else 0.0, (k - 1, k)
    tails = np.arange(k + 1, d + 1)
    for head in range(k):
        n, r = tails - head - 2, k - 1 - head
        sizes = gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1)
        values = -epsilon * (x[head] - x[tails - 1]) / 4 + sizes + rng.gumbel(size=len(tails))
        top = int(np.argmax(values))
        if values[top] > best:
            best, pick = values[top], (head, int(tails[top]))
    head, tail = pick
    body = rng.choice(np.arange(head + 1, tail - 1), k - 1 - head, replace=False) if k - 1 > head else np.array([], int)
    return np.sort(order[np.concatenate([np.arange(head), body, [tail - 1]]).astype(np.int64)])


def fast_joint(counts: Vector, k: int, epsilon: float, rng: np.random.Generator, beta: float = 2.0**-10) -> Vector:
    """Wu & Zhang 2024: JOINT's groups of equal loss up to the truncation, counted by k look-ups each."""
    order = np.argsort(-counts, kind="stable")
    c, d = counts[order], len(counts)
    log_all = np.sum(np.log(np.arange(d - k + 1, d + 1)))
    tau = math.ceil(2 / epsilon * (log_all - math.log(beta)))
    reach = np.empty(tau + 1)
    for r in range(tau + 1):
        reach[r] = np.sum(np.log(np.searchsorted(-c, r - c[:k], side="right") - np.arange(k)))
    below = np.concatenate([[-np.inf], reach[:-1]])
    with np.errstate(divide="ignore"):
        sizes = np.where(reach > below, reach + np.log1p(-np.exp(below - reach)), -np.inf)
    rest = -math.expm1(reach[tau - 1] - log_all)
    sizes[tau] = log_all + math.log(rest) if rest > 0 else -np.inf
    loss = int(np.argmax(sizes - epsilon * np.arange(tau + 1) / 2 + rng.gumbel(size=tau + 1)))
    while True:
        limits = np.full(k, d) if loss == tau else np.searchsorted(-c, loss - c[:k], side="right")
        chosen: list[int] = []
        for i in range(k):
            while (j := int(rng.integers(limits[i]))) in chosen:
                pass
            chosen.append(j)
        if loss == tau or np.max(c[:k] - c[chosen]) == loss:
            return order[chosen]


def _top(scores: Vector, k: int) -> Vector:
    largest = np.argpartition(-scores, k - 1)[:k]
    return largest[np.argsort(-scores[largest])]


PUBLISHED = {
    "joint": joint,
    "fast-joint": fast_joint,
    "canonical": canonical,
    "peeling": peeling,
    "cdp-peeling": cdp_peeling,
    "pnf-peeling": pnf_peeling,
    "oneshot": oneshot,
    "laplace": laplace,
    "gamma": gamma,
}
